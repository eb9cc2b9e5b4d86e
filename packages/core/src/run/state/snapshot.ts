/**
 * The fold of a journal, put aside so that recovery need not begin at the beginning. It is a matter
 * of speed alone: one that another version of Relay wrote is left, and the journal is folded anew.
 */
import type { RunState } from './state.ts';

/** Raised with every change of `RunState`. */
const version = 3;

export function writeSnapshot(state: RunState): string {
  return JSON.stringify({ version, state });
}

/** Undefined where there is none, or none that this version reads. */
export function readSnapshot(text: string | null): RunState | undefined {
  if (text === null) return undefined;
  const snapshot = JSON.parse(text) as { version?: number; state?: RunState };
  return snapshot.version === version ? snapshot.state : undefined;
}
