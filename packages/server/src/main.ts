import { RelayError } from '@relay/protocol';
import { ConfigError } from './config.ts';
import { serve, type Serving } from './serve.ts';

const forcedExitMs = 20_000;
let leaving = false;

try {
  const serving = await serve({
    env: process.env,
    cwd: process.cwd(),
    terminal: process.stdout.isTTY,
    say: (line) => console.log(line),
  });
  // Also what Node itself would print has to pass the redactor. The next start goes on from the journal.
  process.on('uncaughtException', (error) => {
    serving.log.error('The process cannot go on', { error });
    process.exit(1);
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => void leave(serving));
  }
} catch (error) {
  console.error(explain(error));
  process.exitCode = 1;
}

/** A terminal and npm both pass a signal on: one departure is enough. */
async function leave(serving: Serving): Promise<void> {
  if (leaving) return;
  leaving = true;
  // Whatever hangs is recovered from the journal by the next start.
  setTimeout(() => process.exit(1), forcedExitMs).unref();
  await serving.stop();
  process.exit(0);
}

/** One line for the person who started it; a stack only for what we did not foresee. */
function explain(error: unknown): string {
  if (error instanceof ConfigError || error instanceof RelayError) return error.message;
  const { code, port } = (error ?? {}) as { code?: string; port?: number };
  if (code === 'EADDRINUSE') return `Port ${port} is in use; set RELAY_PORT to another one`;
  if (code === 'EACCES' || code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
    return `Relay cannot listen there: ${(error as Error).message}`;
  }
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
