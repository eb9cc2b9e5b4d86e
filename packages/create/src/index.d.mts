export interface CreateIo {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Undefined: there is nobody to ask. */
  readonly terminal?: { input: NodeJS.ReadableStream; output: NodeJS.WritableStream } | undefined;
  readonly print: (line: string) => void;
}

export interface CreateOptions {
  /** The target folder. Undefined: it is asked for. */
  readonly folder?: string | undefined;
  readonly yes?: boolean | undefined;
  readonly install?: boolean | undefined;
  /** A folder with tarballs, which are installed instead of packages of the registry. */
  readonly packages?: string | undefined;
}

/** A mistake of the caller, as one line. */
export declare class CreateError extends Error {
  /** 130 if the person cancelled. */
  readonly exitCode: 1 | 130;
}

/** Makes the project and installs its dependencies. Throws `CreateError`. */
export declare function createProject(options: CreateOptions, io: CreateIo): Promise<void>;

/** The command: from its arguments to its exit code. */
export declare function runCreate(args: readonly string[]): Promise<number>;
