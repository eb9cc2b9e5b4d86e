/** Which installation is meant: what its server would read, and from where. */
export interface Place {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
}
