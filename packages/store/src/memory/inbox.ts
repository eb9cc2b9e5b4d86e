import type { QueuedRunCommand } from '@relay/core';
import { type MemoryRun, stored } from './state.ts';

/** Repeating the same mail changes nothing. */
export function post(run: MemoryRun, mail: QueuedRunCommand): void {
  const place = run.mail.findIndex(({ id }) => id === mail.id);
  if (place === -1) run.mail.push(stored(mail));
  else run.mail[place] = stored(mail);
}
