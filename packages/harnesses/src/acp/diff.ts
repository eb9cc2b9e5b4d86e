/** The change of a file as a unified diff, complete: it is what an approver sees and what is approved. */

const contextLines = 3;

/** `before` is null for a new file. The lines between the first and the last that differ are one hunk. */
export function diffOf(
  path: string,
  before: string | null,
  after: string,
  isDeleted = false,
): string {
  const name = /[\p{Cc}"\\]/u.test(path) ? JSON.stringify(path) : path;
  const header = `--- ${before === null ? '/dev/null' : name}\n+++ ${isDeleted ? '/dev/null' : name}`;
  const [old, now] = [linesOf(before ?? ''), linesOf(after)];
  const most = Math.min(old.length, now.length);
  let start = 0;
  while (start < most && old[start] === now[start]) start += 1;
  let end = 0;
  while (end < most - start && old.at(-1 - end) === now.at(-1 - end)) end += 1;
  if (old.length === start + end && now.length === start + end) return header;
  const from = Math.max(0, start - contextLines);
  const last = Math.min(contextLines, end);
  const removed = old.slice(start, old.length - end);
  const added = now.slice(start, now.length - end);
  const around = start - from + last;
  const range = (count: number) => `${count === 0 ? from : from + 1},${count}`;
  return [
    header,
    `@@ -${range(around + removed.length)} +${range(around + added.length)} @@`,
    ...old.slice(from, start).map((line) => ` ${line}`),
    ...removed.map((line) => `-${line}`),
    ...added.map((line) => `+${line}`),
    ...old.slice(old.length - end, old.length - end + last).map((line) => ` ${line}`),
  ].join('\n');
}

/** The end of a file without a line break is part of its last line. */
function linesOf(text: string): string[] {
  if (text === '') return [];
  const lines = text.split('\n');
  if (lines.at(-1) === '') lines.pop();
  else lines.push(`${lines.pop() ?? ''}\n\\ No newline at end of file`);
  return lines;
}
