/**
 * The order of the rows. Nothing moves under the pointer: while a person points at the list or has
 * scrolled it, rows that are in view keep their places. Approvals that were decided meanwhile stay where
 * they are, and new ones that belong above or among them are counted instead.
 */

export interface Arrangement {
  readonly ids: readonly string[];
  /** New approvals that are held back, because they would move rows in view. */
  readonly held: number;
}

interface Situation {
  /** The ids in the order in which they should be. */
  readonly wanted: readonly string[];
  /** The rows down to this index must not move; -1: all may. */
  readonly lastFixed: number;
  /** The approval that is open: it keeps its row although it was decided. */
  readonly open: string | undefined;
}

export function arrange(
  shown: readonly string[],
  { wanted, lastFixed, open }: Situation,
): Arrangement {
  const fixed = shown.slice(0, lastFixed + 1);
  if (fixed.every((id, index) => wanted[index] === id)) {
    return { ids: withOpen(shown, wanted, open), held: 0 };
  }
  // What belongs below the fixed rows can follow them; what belongs above or among them must wait.
  const isFixed = new Set(fixed);
  const wasShown = new Set(shown);
  const start = wanted.findLastIndex((id) => isFixed.has(id)) + 1;
  const held = wanted.slice(0, start).filter((id) => !wasShown.has(id)).length;
  const below = wanted.filter(
    (id, index) => !isFixed.has(id) && (index >= start || wasShown.has(id)),
  );
  return { ids: withOpen(shown, [...fixed, ...below], open), held };
}

function withOpen(
  shown: readonly string[],
  ids: readonly string[],
  open: string | undefined,
): readonly string[] {
  const at = open === undefined ? -1 : shown.indexOf(open);
  if (open === undefined || at === -1 || ids.includes(open)) return ids;
  return ids.toSpliced(Math.min(at, ids.length), 0, open);
}
