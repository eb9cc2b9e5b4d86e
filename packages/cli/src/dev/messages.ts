/** What the server tells `relay dev`, over the channel between their processes. */
export interface DevMessage {
  /** The path of a file of the project. The first one is the configuration. */
  readonly imported?: string;
  readonly listening?: true;
  /** A signal asks the server to stop. Without it, a server that ends has crashed. */
  readonly stopping?: true;
}

export function tellDev(message: DevMessage): void {
  // Without a callback, a channel that is closed would cause an uncaught exception.
  process.send?.(message, undefined, undefined, () => {});
}
