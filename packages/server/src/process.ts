/** The server as a process of its own: it leaves in good order when it is told to. */
import { RelayError } from '@relay/protocol';
import { ConfigError } from './config-error.ts';
import { serve, type Serving } from './serve.ts';

const forcedExitMs = 20_000;

export interface ProcessOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
}

/** Returns when it listens. From then on signals end the process. */
export async function serveProcess({ env, cwd }: ProcessOptions): Promise<void> {
  const serving = await serve({
    env,
    cwd,
    terminal: process.stdout.isTTY,
    say: (line) => console.log(line),
  });
  // Also what Node itself would print has to pass the redactor. The next start goes on from the journal.
  process.on('uncaughtException', (error) => {
    serving.log.error('The process cannot go on', { error });
    process.exit(1);
  });
  let leaving = false;
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      // A terminal and npm both pass a signal on: one departure is enough.
      if (!leaving) void leave(serving);
      leaving = true;
    });
  }
}

async function leave(serving: Serving): Promise<void> {
  // Whatever hangs is recovered from the journal by the next start.
  setTimeout(() => process.exit(1), forcedExitMs).unref();
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
