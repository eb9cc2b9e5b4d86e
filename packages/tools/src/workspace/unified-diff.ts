/**
 * A unified diff of two versions of a file, for approvers. It is bounded: what is not shown is counted.
 * The digest covers all of it except line numbers, so that it stays the same while a change elsewhere
 * in the file only moves the lines.
 */
import { createHash } from 'node:crypto';

export interface UnifiedDiff {
  readonly text: string;
  readonly digest: string;
}

const contextLines = 3;
const maxLines = 400;
const maxLineChars = 2_000;
const maxChars = 60_000;

/** `before` is undefined for a new file. */
export function unifiedDiff(path: string, before: string | undefined, after: string): UnifiedDiff {
  const name = /[\p{Cc}"\\]/u.test(path) ? JSON.stringify(path) : path;
  const header = [before === undefined ? '--- /dev/null' : `--- ${name}`, `+++ ${name}`];
  const hunks = hunksOf(linesOf(before ?? ''), linesOf(after));
  if (hunks === undefined) {
    const digest = createHash('sha256')
      .update(JSON.stringify([path, before, after]))
      .digest('hex');
    return { text: [...header, tooManyChanges].join('\n'), digest };
  }
  const hash = createHash('sha256').update(header.join('\n'));
  for (const { lines } of hunks) hash.update(`\n${lines.join('\n')}`);
  const all = hunks.flatMap(({ position, lines }) => [position, ...lines]);
  return { text: [...header, ...bounded(all)].join('\n'), digest: hash.digest('hex') };
}

function bounded(lines: readonly string[]): string[] {
  const shown: string[] = [];
  let chars = 0;
  for (const line of lines) {
    if (shown.length >= maxLines || chars > maxChars) break;
    const hidden = line.length - maxLineChars;
    const cut = `${line.slice(0, maxLineChars)} … ${hidden} more characters not shown`;
    shown.push(hidden > 0 ? cut : line);
    chars += Math.min(line.length, maxLineChars);
  }
  const rest = lines.length - shown.length;
  return rest === 0 ? shown : [...shown, `… ${rest} more lines not shown`];
}

const noNewline = '\n\\ No newline at end of file';

/** The end of a file without a line break is part of its last line. */
function linesOf(text: string): string[] {
  if (text === '') return [];
  const lines = text.split('\n');
  if (lines.at(-1) === '') lines.pop();
  else lines.push(`${lines.pop() ?? ''}${noNewline}`);
  return lines;
}

const tooManyChanges = '… too many lines differ: none of them is shown';

type Change = readonly [sign: ' ' | '-' | '+', line: string];

interface Hunk {
  readonly position: string;
  readonly lines: readonly string[];
}

/** Undefined if too many lines differ. */
function hunksOf(before: readonly string[], after: readonly string[]): Hunk[] | undefined {
  const most = Math.min(before.length, after.length);
  let start = 0;
  while (start < most && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < most - start && before[before.length - 1 - end] === after[after.length - 1 - end])
    end += 1;
  if (before.length + after.length - 2 * (start + end) > maxCompared) return undefined;
  const from = Math.max(0, start - contextLines);
  const kept = (lines: readonly string[]): Change[] => lines.map((line) => [' ', line]);
  const changes: Change[] = [
    ...kept(before.slice(from, start)),
    ...changesBetween(
      before.slice(start, before.length - end),
      after.slice(start, after.length - end),
    ),
    ...kept(before.slice(before.length - end, before.length - end + contextLines)),
  ];
  return splitIntoHunks(changes, from);
}

/** Leaves out unchanged lines that are not next to a change. `offset` lines precede the changes. */
function splitIntoHunks(changes: readonly Change[], offset: number): Hunk[] {
  const hunks: Hunk[] = [];
  let [oldLine, newLine] = [offset + 1, offset + 1];
  let at = 0;
  while (at < changes.length) {
    let next = at;
    while (next < changes.length && changes[next]?.[0] === ' ') next += 1;
    if (next === changes.length) break;
    const skipped = Math.max(0, next - contextLines - at);
    oldLine += skipped;
    newLine += skipped;
    const first = at + skipped;
    let end = next;
    for (let same = 0; end < changes.length && same <= 2 * contextLines; end += 1) {
      same = changes[end]?.[0] === ' ' ? same + 1 : 0;
    }
    while (end > next && trailingContext(changes, end) > contextLines) end -= 1;
    const part = changes.slice(first, end);
    const oldCount = part.filter(([sign]) => sign !== '+').length;
    const newCount = part.filter(([sign]) => sign !== '-').length;
    const range = (line: number, count: number) => `${count === 0 ? line - 1 : line},${count}`;
    hunks.push({
      position: `@@ -${range(oldLine, oldCount)} +${range(newLine, newCount)} @@`,
      lines: part.map(([sign, line]) => sign + line),
    });
    oldLine += oldCount;
    newLine += newCount;
    at = end;
  }
  return hunks;
}

function trailingContext(changes: readonly Change[], end: number): number {
  let count = 0;
  while (count < end && changes[end - 1 - count]?.[0] === ' ') count += 1;
  return count;
}

/** A diff of more lines could not be read anyway. */
const maxCompared = 20_000;
/** More would take too long to compare line by line: all lines are then shown as replaced. */
const maxDistance = 200;

/** The shortest edit script, by Myers' greedy algorithm. */
function changesBetween(before: readonly string[], after: readonly string[]): Change[] {
  const trace = traceOf(before, after);
  if (trace === undefined) {
    return [
      ...before.map((line): Change => ['-', line]),
      ...after.map((line): Change => ['+', line]),
    ];
  }
  const changes: Change[] = [];
  let [x, y] = [before.length, after.length];
  for (let distance = trace.length - 1; distance >= 0; distance -= 1) {
    const reached = trace[distance] ?? new Map<number, number>();
    const k = x - y;
    const down = k === -distance || (k !== distance && at(reached, k - 1) < at(reached, k + 1));
    const fromX = distance === 0 ? 0 : down ? at(reached, k + 1) : at(reached, k - 1);
    const fromY = distance === 0 ? 0 : fromX - (down ? k + 1 : k - 1);
    while (x > fromX && y > fromY) {
      x -= 1;
      y -= 1;
      changes.push([' ', before[x] ?? '']);
    }
    if (distance === 0) break;
    changes.push(down ? ['+', after[fromY] ?? ''] : ['-', before[fromX] ?? '']);
    [x, y] = [fromX, fromY];
  }
  return changes.toReversed();
}

function at(reached: ReadonlyMap<number, number>, k: number): number {
  return reached.get(k) ?? -1;
}

/** How far each diagonal was reached before each step; undefined if the texts differ too much. */
function traceOf(
  before: readonly string[],
  after: readonly string[],
): Map<number, number>[] | undefined {
  const trace: Map<number, number>[] = [];
  const reached = new Map([[1, 0]]);
  for (let distance = 0; distance <= maxDistance; distance += 1) {
    trace.push(new Map(reached));
    for (let k = -distance; k <= distance; k += 2) {
      const down = k === -distance || (k !== distance && at(reached, k - 1) < at(reached, k + 1));
      let x = down ? at(reached, k + 1) : at(reached, k - 1) + 1;
      while (x < before.length && x - k < after.length && before[x] === after[x - k]) x += 1;
      reached.set(k, x);
      if (x >= before.length && x - k >= after.length) return trace;
    }
  }
  return undefined;
}
