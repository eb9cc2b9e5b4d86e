/** The lines of a diff, with their numbers. */
import type { ChangeObject } from 'diff';

export type DiffLine =
  /** Between the changes: the names of files, and where a part starts. */
  | { readonly kind: 'file' | 'part' | 'note'; readonly text: string }
  | {
      readonly kind: 'same' | 'added' | 'removed';
      readonly text: string;
      readonly before?: number;
      readonly after?: number;
      /** The line that it replaces, or that replaces it. */
      readonly counterpart?: string;
    };

const partHeader = /^@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@/;

/** Takes any text: every line of it is in the result. */
export function parseDiff(text: string): DiffLine[] {
  const lines: DiffLine[] = [];
  let [before, after] = [1, 1];
  /** Lines of the part that are still to come: `--- x` is a removed line in a part, else a file. */
  let [leftBefore, leftAfter] = [0, 0];
  let isInPart = false;
  const source = text.endsWith('\n') ? text.slice(0, -1) : text;
  for (const line of source.split('\n')) {
    const part = leftBefore > 0 || leftAfter > 0 ? null : partHeader.exec(line);
    if (part !== null) {
      const [, start, count = '1', newStart, newCount = '1'] = part;
      [before, after] = [Number(start), Number(newStart)];
      [leftBefore, leftAfter] = [Number(count), Number(newCount)];
      isInPart = true;
      lines.push({ kind: 'part', text: line });
      continue;
    }
    const isHeader =
      leftBefore <= 0 && leftAfter <= 0 && /^(?:--- |\+\+\+ |diff |index )/.test(line);
    if (!isInPart || isHeader) {
      isInPart = false;
      lines.push({ kind: 'file', text: line });
      continue;
    }
    const rest = line.slice(1);
    switch (line[0]) {
      case '+':
        lines.push({ kind: 'added', text: rest, after });
        after += 1;
        leftAfter -= 1;
        break;
      case '-':
        lines.push({ kind: 'removed', text: rest, before });
        before += 1;
        leftBefore -= 1;
        break;
      case ' ':
      case undefined:
        lines.push({ kind: 'same', text: rest, before, after });
        before += 1;
        after += 1;
        leftBefore -= 1;
        leftAfter -= 1;
        break;
      default:
        lines.push({ kind: 'note', text: line });
    }
  }
  return withCounterparts(lines);
}

const noLineBreak = { kind: 'note', text: '\\ No line break at the end' } as const;

/** From the comparison of two texts. */
export function linesOfChanges(changes: readonly ChangeObject<string>[]): DiffLine[] {
  const lines: DiffLine[] = [];
  let [before, after] = [1, 1];
  /** Whether the old and the new text end with a line break; undefined if they are empty. */
  const ends: { before?: boolean; after?: boolean } = {};
  for (const { value, added, removed } of changes) {
    const isComplete = value.endsWith('\n');
    for (const text of (isComplete ? value.slice(0, -1) : value).split('\n')) {
      if (added) lines.push({ kind: 'added', text, after });
      else if (removed) lines.push({ kind: 'removed', text, before });
      else lines.push({ kind: 'same', text, before, after });
      if (!added) before += 1;
      if (!removed) after += 1;
    }
    if (!added) ends.before = isComplete;
    if (!removed) ends.after = isComplete;
  }
  // That neither has one is nothing to look at: most texts that are compared are parts of files.
  const isOther =
    ends.before !== undefined && ends.after !== undefined && ends.before !== ends.after;
  if (isOther) lines.push(noLineBreak);
  return withCounterparts(lines);
}

/** Removed lines and the same number of added lines after them replace each other. */
function withCounterparts(lines: readonly DiffLine[]): DiffLine[] {
  const result = [...lines];
  let removed: number[] = [];
  let added: number[] = [];
  const pair = () => {
    if (removed.length === added.length) {
      for (const [index, at] of removed.entries()) {
        const to = added[index] ?? at;
        const [old, replacement] = [lines[at], lines[to]];
        if (old?.kind !== 'removed' || replacement?.kind !== 'added') continue;
        result[at] = { ...old, counterpart: replacement.text };
        result[to] = { ...replacement, counterpart: old.text };
      }
    }
    [removed, added] = [[], []];
  };
  for (const [at, { kind }] of lines.entries()) {
    // A note is about the line before it.
    if (kind === 'note') continue;
    if (kind !== 'added' && added.length > 0) pair();
    if (kind === 'removed') removed.push(at);
    else if (kind === 'added') added.push(at);
    else removed = [];
  }
  pair();
  return result;
}

function unchangedFrom(lines: readonly DiffLine[], from: number): readonly DiffLine[] {
  let end = from;
  while (lines[end]?.kind === 'same') end += 1;
  return lines.slice(from, end);
}

export interface Fold {
  readonly kind: 'fold';
  readonly lines: readonly DiffLine[];
}

/** Unchanged lines around a change that stay visible. */
const context = 3;

/** Long unchanged regions as one row each. */
export function foldUnchanged(lines: readonly DiffLine[]): (DiffLine | Fold)[] {
  const rows: (DiffLine | Fold)[] = [];
  let at = 0;
  while (at < lines.length) {
    const run = unchangedFrom(lines, at);
    const line = lines[at];
    if (run.length === 0) {
      if (line !== undefined) rows.push(line);
      at += 1;
      continue;
    }
    const first = at === 0 ? 0 : context;
    const last = at + run.length === lines.length ? run.length : run.length - context;
    // A fold takes a line itself.
    if (last - first > 4) {
      rows.push(...run.slice(0, first));
      rows.push({ kind: 'fold', lines: run.slice(first, last) });
      rows.push(...run.slice(last));
    } else rows.push(...run);
    at += run.length;
  }
  return rows;
}

export interface Words {
  readonly text: string;
  readonly isChanged: boolean;
}

/** The words of a line, with those marked that its counterpart does not have. */
export function wordsOf(
  changes: readonly ChangeObject<string>[],
  side: 'added' | 'removed',
): Words[] {
  const words = changes
    .filter((change) => (side === 'added' ? !change.removed : !change.added))
    .map(({ value, added, removed }) => ({ text: value, isChanged: added || removed }));
  const length = (of: readonly Words[]) => of.reduce((sum, { text }) => sum + text.length, 0);
  const changed = length(words.filter(({ isChanged }) => isChanged));
  // Two different lines: marks everywhere say nothing.
  return changed > length(words) * 0.7
    ? words.map(({ text }) => ({ text, isChanged: false }))
    : words;
}
