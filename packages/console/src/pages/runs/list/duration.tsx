import type { Run } from '@relay/protocol/wire';
import { formatDuration, useNow } from '../../../ui/values.tsx';

/** How long a run took, or has taken so far. */
export function Duration({ run }: { readonly run: Run }) {
  const now = useNow();
  if (run.startedAt === undefined) return null;
  const to = run.endedAt === undefined ? now : Date.parse(run.endedAt);
  return (
    <span className="whitespace-nowrap">{formatDuration(to - Date.parse(run.startedAt))}</span>
  );
}
