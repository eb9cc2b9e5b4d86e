/**
 * A process for each terminal, between the server and the program in it.
 *
 * The descriptors of a terminal are inherited by every process that is started later, and writing to a
 * program that does not read blocks. Neither may happen in the server, which has many terminals and runs other
 * commands. It also keeps the work of interpreting output, which may be endless, out of the server.
 *
 * When its input ends, because the session, the program or the server has ended, it ends the program and all
 * that the program has started.
 */
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { killOwnProcesses, ownMarker } from '@relay/processes';
import type { TerminalReport, TerminalRequest, TerminalStart } from './host-messages.ts';
import { TerminalProgram } from './terminal.ts';

/** From the end of its terminal to SIGKILL. */
const exitGraceMs = 2_000;

let program: TerminalProgram | undefined;
/** Aborted when the program has exited. */
const exited = new AbortController();
let isEnding = false;

// Without a reader there is no server.
process.stdout.on('error', () => void end());

function report(message: TerminalReport): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
  if (message.type === 'exited') exited.abort();
}

const lines = createInterface({ input: process.stdin });
lines.on('line', (line) => {
  const message = JSON.parse(line) as TerminalStart | TerminalRequest;
  if (message.type !== 'start') {
    void program?.handle(message);
    return;
  }
  const env = { ...message.env, ...ownMarker() };
  program = new TerminalProgram({ ...message, env }, report);
  report({ type: 'started' });
});
lines.on('close', () => void end());

async function end(): Promise<void> {
  if (isEnding) return;
  isEnding = true;
  // Shells ignore SIGTERM; SIGHUP is what a closed terminal sends.
  for (const signal of ['SIGHUP', 'SIGTERM', 'SIGCONT'] as const) signalGroup(signal);
  await sleep(exitGraceMs, undefined, exited).catch(() => undefined);
  signalGroup('SIGKILL');
  await killOwnProcesses();
  process.exit(0);
}

function signalGroup(signal: NodeJS.Signals): void {
  try {
    if (program !== undefined) process.kill(-program.pid, signal);
  } catch {
    // It has exited.
  }
}
