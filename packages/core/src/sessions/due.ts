/** Sessions that need attention without a request: those whose `dueAt` has come. */
import type { Engine } from '../engine.ts';
import type { SessionChange } from '../ports/index.ts';

/** Wakes those of the sessions that these changes make due. */
export function wakeDue(
  { clock, sessionDue }: Pick<Engine, 'clock' | 'sessionDue'>,
  tenantId: string,
  changes: readonly SessionChange[],
): void {
  const now = clock.now();
  for (const { sessionId, dueBy, progress } of changes) {
    if ((dueBy ?? progress?.dueAt ?? Infinity) <= now) sessionDue?.({ tenantId, sessionId });
  }
}
