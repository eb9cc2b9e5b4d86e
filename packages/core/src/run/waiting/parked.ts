import type { LiveRun } from '../live-run.ts';
import { decide } from '../state/machine.ts';

/** What was parked goes on; what goes on already is left alone. */
export function resume(run: LiveRun): void {
  const decision = decide(run.state, { type: 'resume' });
  if (decision.ok) run.journal.stage(decision.events);
}
