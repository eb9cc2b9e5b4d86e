/**
 * What `read` does not show of a text and a change must not lose: a mark at its beginning, and line
 * ends of two characters. A change that says nothing of them is made without them, and they are put
 * back; one that holds a carriage return itself is taken to the letter.
 */
import type { Edit } from './edits.ts';

export interface LineEndings {
  off(text: string): string;
  on(text: string): string;
}

const mark = '\ufeff';

export function lineEndingsOf(
  before: string | undefined,
  diff: string,
  edits: readonly Edit[],
): LineEndings {
  const isToTheLetter = [diff, ...edits.flatMap((edit) => [edit.old, edit.new])].some((text) =>
    text.includes('\r'),
  );
  const isMarked = before?.startsWith(mark) === true;
  const isReturned = !isToTheLetter && before !== undefined && endsAllLinesWithReturn(before);
  return {
    off(text) {
      const unmarked = isMarked ? text.slice(mark.length) : text;
      return isReturned ? unmarked.replaceAll('\r\n', '\n') : unmarked;
    },
    on(text) {
      const ended = isReturned ? text.replaceAll('\n', '\r\n') : text;
      return isMarked ? mark + ended : ended;
    },
  };
}

/** Where some lines end in the one way and some in the other, nothing can be put back. */
function endsAllLinesWithReturn(text: string): boolean {
  return text.includes('\r\n') && !/(?<!\r)\n/.test(text) && !/\r(?!\n)/.test(text);
}
