import type { QueuedRunCommand } from '@relay/core';
import { type MemoryRun, stored } from './state.ts';

/** Repeating the same commands changes nothing. */
export function post(run: MemoryRun, queued: QueuedRunCommand): void {
  const place = run.queued.findIndex(({ id }) => id === queued.id);
  if (place === -1) run.queued.push(stored(queued));
  else run.queued[place] = stored(queued);
}
