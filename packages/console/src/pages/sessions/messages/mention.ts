/** The handles in a message while it is written. */

export interface Mention {
  /** Where the `@` is. */
  readonly start: number;
  /** Handles that begin with what was typed, at least one. */
  readonly matches: readonly string[];
}

const mostMatches = 8;

/** The mention that is being typed before the cursor, unless it is complete. */
export function mentionAt(
  text: string,
  cursor: number,
  handles: readonly string[],
): Mention | undefined {
  const typed = /(?:^|[\s(])@([a-z0-9._-]*)$/.exec(text.slice(0, cursor))?.[1];
  if (typed === undefined) return undefined;
  const matches = handles.filter((handle) => handle.startsWith(typed)).slice(0, mostMatches);
  const isComplete = matches.length === 1 && matches[0] === typed;
  if (matches.length === 0 || isComplete) return undefined;
  return { start: cursor - typed.length - 1, matches };
}

/** Handles that the text mentions and that are not among these. Code mentions none. */
export function mentionsOfOthers(text: string, handles: readonly string[]): readonly string[] {
  const words = text.replaceAll(/```[^]*?(?:```|$)|`[^`\n]*`/g, ' ');
  const found = [...words.matchAll(/(?<=^|[\s(])@([a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)/g)].map(
    ([, handle = '']) => handle,
  );
  return [...new Set(found)].filter((handle) => !handles.includes(handle));
}
