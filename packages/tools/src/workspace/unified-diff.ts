/**
 * A unified diff of one file. A hunk applies where its header says, or else at the only place where
 * all of its lines fit; lines are never guessed. The counts in a header are not trusted: models
 * miscount.
 */
import { EditRefused, excerpt } from './edits.ts';

interface Hunk {
  /** Counted from 1, as the header says. */
  readonly line: number;
  readonly before: readonly string[];
  readonly after: readonly string[];
  /** Whether the last line, before and after, has no line break. */
  readonly openBefore: boolean;
  readonly openAfter: boolean;
}

const header = /^@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@/;

export function applyDiff(before: string | undefined, diff: string): string {
  const hunks = parseDiff(diff);
  if (before === undefined) {
    const [only] = hunks;
    if (hunks.length !== 1 || only === undefined || only.before.length > 0) {
      throw new EditRefused('There is no such file, and the diff does not make it');
    }
    return joined(only.after, only.openAfter);
  }
  const lines = before.split('\n');
  const endsOpen = lines.at(-1) !== '';
  if (!endsOpen) lines.pop();
  let open = endsOpen;
  let shift = 0;
  let from = 0;
  for (const [index, hunk] of hunks.entries()) {
    const at = placeOf(lines, hunk, { expected: hunk.line - 1 + shift, from, index });
    const last = at + hunk.before.length === lines.length;
    if (hunk.openBefore && !(last && open)) throw misfit(index, 'the file does not end there');
    lines.splice(at, hunk.before.length, ...hunk.after);
    if (last && hunk.after.length > 0)
      open = hunk.openAfter || (open && !hunk.openBefore && endsAlike(hunk));
    shift += hunk.after.length - hunk.before.length;
    from = at + hunk.after.length;
  }
  return joined(lines, open);
}

/** A hunk that ends in a line of context leaves the end of the file as it is. */
function endsAlike({ before, after }: Hunk): boolean {
  return before.at(-1) === after.at(-1);
}

function joined(lines: readonly string[], open: boolean): string {
  return lines.length === 0 ? '' : lines.join('\n') + (open ? '' : '\n');
}

function placeOf(
  lines: readonly string[],
  { before }: Hunk,
  { expected, from, index }: { expected: number; from: number; index: number },
): number {
  // A hunk without a line of its own stands after the line that its header names.
  if (before.length === 0) return Math.min(Math.max(expected + 1, from), lines.length);
  const fits = (at: number): boolean =>
    at >= from && before.every((line, offset) => lines[at + offset] === line);
  if (fits(expected)) return expected;
  const places: number[] = [];
  for (let at = from; at + before.length <= lines.length && places.length < 2; at += 1) {
    if (fits(at)) places.push(at);
  }
  const [place, another] = places;
  if (place === undefined) {
    throw misfit(index, `the file does not hold these lines: ${excerpt(before.join('\n'))}`);
  }
  if (another === undefined) return place;
  throw misfit(index, `its lines are not where it says, and fit in more than one place`);
}

function misfit(index: number, why: string): EditRefused {
  return new EditRefused(`Hunk ${index + 1} of the diff: ${why}`);
}

function parseDiff(diff: string): Hunk[] {
  const lines = diff.split('\n');
  if (lines.at(-1) === '') lines.pop();
  const starts = lines.flatMap((line, at) => (header.test(line) ? [at] : []));
  if (starts.length === 0) {
    throw new EditRefused('The diff has no hunk: each begins with a line like "@@ -1,3 +1,4 @@"');
  }
  if (lines.slice(0, starts[0]).some((line) => line.startsWith('+++ /dev/null'))) {
    throw new EditRefused('A diff cannot delete a file');
  }
  if (lines.slice(0, starts[0]).filter((line) => line.startsWith('+++ ')).length > 1) {
    throw new EditRefused('The diff is about more than one file');
  }
  return starts.map((at, index) => parseHunk(lines.slice(at, starts[index + 1]), index));
}

function parseHunk([head = '', ...body]: readonly string[], index: number): Hunk {
  const before: string[] = [];
  const after: string[] = [];
  let [openBefore, openAfter] = [false, false];
  let last = '';
  for (const line of body) {
    const [sign = ' ', text] = [line[0], line.slice(1)];
    if (sign === ' ' || sign === '-') before.push(text);
    if (sign === ' ' || sign === '+') after.push(text);
    if (sign === '\\') {
      openBefore ||= last !== '+';
      openAfter ||= last !== '-';
    } else if (line.startsWith('diff ')) {
      throw new EditRefused('The diff is about more than one file');
    } else if (!' -+'.includes(sign)) {
      throw misfit(index, `a line must begin with " ", "-" or "+": ${excerpt(line)}`);
    }
    last = sign;
  }
  return { line: Number(header.exec(head)?.[1] ?? 1), before, after, openBefore, openAfter };
}
