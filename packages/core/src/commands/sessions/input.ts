/** Typing into the terminal of a session. What is typed may be a password: it is neither journaled nor audited. */
import { RelayError } from '@relay/protocol';
import type { Engine } from '../../engine.ts';
import type { NewAuditEntry, SessionRecord, TerminalInput } from '../../ports/index.ts';
import { askProgram } from './ask-program.ts';

/** Throws `capability_missing` for a session without a terminal, and `session_conflict`. */
export function requireTerminal({ handle, status, state, capabilities }: SessionRecord): void {
  const { emits } = capabilities.events;
  if (state.host === undefined || !emits.includes('terminal.output'))
    throw noTerminal(handle, emits);
  const { lifecycle, connection } = state;
  const hasEnded = lifecycle === 'releasing' || lifecycle === 'released' || lifecycle === 'failed';
  if (!hasEnded && connection === 'reachable') return;
  throw new RelayError(
    'session_conflict',
    `The session @${handle} is ${status}: its terminal cannot be reached`,
  );
}

export function noTerminal(handle: string, offered: readonly string[]): RelayError {
  return new RelayError(
    'capability_missing',
    `The session @${handle} has no terminal that can be typed into`,
    { capability: { path: 'events.emits', asked: 'terminal.output', offered: [...offered] } },
  );
}

/** For a session that lives on another node. Throws as above, `command_failed` and `command_timed_out`. */
export async function requestInput(
  engine: Engine,
  session: SessionRecord,
  input: TerminalInput,
  audit: readonly NewAuditEntry[],
): Promise<void> {
  const check = requireTerminal;
  await askProgram(engine, session, { command: 'input', args: input, check, audit });
}
