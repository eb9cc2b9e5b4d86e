/**
 * The two ways to change a text: edits that name what they replace, and a unified diff of one file. A
 * change that does not apply throws, and nothing is guessed. A hunk applies at the line its header
 * names, or else at the only position where all of its lines match. The counts in a header are not
 * trusted, because models miscount.
 */

export interface Edit {
  readonly old: string;
  readonly new: string;
  readonly all?: boolean | undefined;
}

export class EditRefused extends Error {
  override readonly name = 'EditRefused';
}

/** `before` is undefined if there is no file yet; the only edit then has the whole text. */
export function applyEdits(before: string | undefined, edits: readonly Edit[]): string {
  if (before === undefined) {
    const [first] = edits;
    if (edits.length === 1 && first?.old === '') return first.new;
    throw new EditRefused('There is no such file; to create it, give one edit with an empty "old"');
  }
  return edits.reduce((text, edit, index) => applyEdit(text, edit, `edits[${index}]`), before);
}

function applyEdit(text: string, { old, new: replacement, all = false }: Edit, at: string): string {
  if (old === '') {
    if (text === '') return replacement;
    throw new EditRefused(`${at}: the file exists already, so "old" must say what to replace`);
  }
  if (old === replacement) throw new EditRefused(`${at}: "old" and "new" are the same`);
  const first = text.indexOf(old);
  if (first < 0)
    throw new EditRefused(`${at}: the file does not contain this text: ${excerpt(old)}`);
  if (all) return text.replaceAll(old, () => replacement);
  const second = text.indexOf(old, first + 1);
  if (second >= 0) {
    throw new EditRefused(
      `${at}: the file contains this text more than once (lines ${lineOf(text, first)} and ${lineOf(text, second)}); ` +
        'include more of the surrounding text, or set "all"',
    );
  }
  return text.slice(0, first) + replacement + text.slice(first + old.length);
}

function lineOf(text: string, at: number): number {
  return text.slice(0, at).split('\n').length;
}

interface Hunk {
  /** Counted from 1, as in the header. */
  readonly line: number;
  readonly before: readonly string[];
  readonly after: readonly string[];
  /** Whether the last line, before and after, has no line break. */
  readonly noNewlineBefore: boolean;
  readonly noNewlineAfter: boolean;
}

const header = /^@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@/;

export function applyDiff(before: string | undefined, diff: string): string {
  const hunks = parseDiff(diff);
  if (before === undefined) {
    const [only] = hunks;
    if (hunks.length !== 1 || only === undefined || only.before.length > 0) {
      throw new EditRefused('There is no such file, and the diff does not create it');
    }
    return joined(only.after, only.noNewlineAfter);
  }
  const lines = before.split('\n');
  const endsOpen = lines.at(-1) !== '';
  if (!endsOpen) lines.pop();
  let open = endsOpen;
  let shift = 0;
  let from = 0;
  for (const [index, hunk] of hunks.entries()) {
    const at = positionOf(lines, hunk, { expected: hunk.line - 1 + shift, from, index });
    const last = at + hunk.before.length === lines.length;
    if (hunk.noNewlineBefore && !(last && open))
      throw hunkError(index, 'the file does not end there');
    lines.splice(at, hunk.before.length, ...hunk.after);
    if (last && hunk.after.length > 0)
      open = hunk.noNewlineAfter || (open && !hunk.noNewlineBefore && hasSameLastLine(hunk));
    shift += hunk.after.length - hunk.before.length;
    from = at + hunk.after.length;
  }
  return joined(lines, open);
}

/** A hunk that ends in a context line leaves the end of the file as it is. */
function hasSameLastLine({ before, after }: Hunk): boolean {
  return before.at(-1) === after.at(-1);
}

function joined(lines: readonly string[], open: boolean): string {
  return lines.length === 0 ? '' : lines.join('\n') + (open ? '' : '\n');
}

function positionOf(
  lines: readonly string[],
  { before }: Hunk,
  { expected, from, index }: { expected: number; from: number; index: number },
): number {
  // A hunk that only adds lines adds them after the line that its header names.
  if (before.length === 0) return Math.min(Math.max(expected + 1, from), lines.length);
  const matches = (at: number): boolean =>
    at >= from && before.every((line, offset) => lines[at + offset] === line);
  if (matches(expected)) return expected;
  const positions: number[] = [];
  for (let at = from; at + before.length <= lines.length && positions.length < 2; at += 1) {
    if (matches(at)) positions.push(at);
  }
  const [position, another] = positions;
  if (position === undefined) {
    throw hunkError(index, `the file does not contain these lines: ${excerpt(before.join('\n'))}`);
  }
  if (another === undefined) return position;
  throw hunkError(index, 'its lines are not where it says, and match at more than one position');
}

function hunkError(index: number, why: string): EditRefused {
  return new EditRefused(`Hunk ${index + 1} of the diff: ${why}`);
}

function parseDiff(diff: string): Hunk[] {
  const lines = diff.split('\n');
  if (lines.at(-1) === '') lines.pop();
  const starts = lines.flatMap((line, at) => (header.test(line) ? [at] : []));
  if (starts.length === 0) {
    throw new EditRefused('The diff has no hunk: each starts with a line like "@@ -1,3 +1,4 @@"');
  }
  if (lines.slice(0, starts[0]).some((line) => line.startsWith('+++ /dev/null'))) {
    throw new EditRefused('A diff cannot delete a file');
  }
  if (lines.slice(0, starts[0]).filter((line) => line.startsWith('+++ ')).length > 1) {
    throw new EditRefused('The diff changes more than one file');
  }
  return starts.map((at, index) => parseHunk(lines.slice(at, starts[index + 1]), index));
}

function parseHunk([head = '', ...body]: readonly string[], index: number): Hunk {
  const before: string[] = [];
  const after: string[] = [];
  let [noNewlineBefore, noNewlineAfter] = [false, false];
  let last = '';
  for (const line of body) {
    const [sign = ' ', text] = [line[0], line.slice(1)];
    if (sign === ' ' || sign === '-') before.push(text);
    if (sign === ' ' || sign === '+') after.push(text);
    if (sign === '\\') {
      noNewlineBefore ||= last !== '+';
      noNewlineAfter ||= last !== '-';
    } else if (line.startsWith('diff ')) {
      throw new EditRefused('The diff changes more than one file');
    } else if (!' -+'.includes(sign)) {
      throw hunkError(index, `a line must start with " ", "-" or "+": ${excerpt(line)}`);
    }
    last = sign;
  }
  return {
    line: Number(header.exec(head)?.[1] ?? 1),
    before,
    after,
    noNewlineBefore,
    noNewlineAfter,
  };
}

function excerpt(text: string): string {
  return JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text);
}
