/** The server as a process of its own: it leaves in good order when it is told to. */
import { RelayError } from '@relay/protocol';
import { ConfigError } from './config/config-error.ts';
import { serve, type Serving } from './serve.ts';

const forcedExitMs = 20_000;
/** A start may wait for a database that is not there. */
const forcedStartMs = 10_000;

export interface ProcessOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
}

/** Returns when it listens. Signals end the process in good order, also while it starts. */
export async function serveProcess({ env, cwd }: ProcessOptions): Promise<void> {
  const starting = serve({
    env,
    cwd,
    terminal: process.stdout.isTTY,
    say: (line) => console.log(line),
  });
  let serving: Serving | undefined;
  let leaving = false;
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      // A terminal and npm both pass a signal on: one departure is enough.
      if (!leaving) void leave(starting, serving === undefined ? forcedStartMs : forcedExitMs);
      leaving = true;
    });
  }
  const { log } = (serving = await starting);
  // Also what Node itself would print has to pass the redactor. The next start goes on from the journal.
  process.on('uncaughtException', (error) => {
    log.error('The process cannot go on', { error });
    process.exit(1);
  });
}

async function leave(starting: Promise<Serving>, deliveryTimeoutMs: number): Promise<void> {
  // Whatever hangs is recovered from the journal by the next start.
  setTimeout(() => process.exit(1), deliveryTimeoutMs).unref();
  const serving = await starting.catch(() => undefined);
  // Who could not start says so elsewhere.
  if (serving === undefined) return;
  await serving.stop();
  process.exit(0);
}

/** One line for the person who started it; undefined for what we did not foresee. */
export function explainStart(error: unknown): string | undefined {
  if (error instanceof ConfigError || error instanceof RelayError) return error.message;
  const { code, port } = (error ?? {}) as { code?: string; port?: number };
  if (code === 'EADDRINUSE') return `Port ${port} is in use; set RELAY_PORT to another one`;
  if (code === 'EACCES' || code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
    return `Relay cannot listen there: ${(error as Error).message}`;
  }
  return undefined;
}
