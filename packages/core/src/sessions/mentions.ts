/**
 * Mentions in the text of a message: `@handle`, as people write it. A mention addresses a member of the
 * channel by its handle: it takes part in the thread, and an agent's final answer is a reply to it.
 */

/** Code is quoted, and mentions no session. */
const code = /```[\s\S]*?(?:```|$)|`[^`\n]*`/g;

/** Not part of an e-mail address, a URL or the name of a package. */
const mention =
  /(?<![\p{L}\p{N}._%+@/\\-])@([a-z0-9][a-z0-9._-]*)(?![\p{L}\p{N}@]|\/[\p{L}\p{N}])/gu;

const longestHandle = 64;

export function isMentioned(text: string, handle: string): boolean {
  return text.includes(`@${handle}`) && mentionsIn(text).includes(handle);
}

/** A sentence may go on with punctuation that a handle may contain, too: both are found. */
export function mentionsIn(text: string): string[] {
  const handles = new Set<string>();
  for (const [, name = ''] of text.replace(code, ' ').matchAll(mention)) {
    for (let end = name.length; end > 0; end -= 1) {
      if (end <= longestHandle) handles.add(name.slice(0, end));
      if (!/[._-]/.test(name.charAt(end - 1))) break;
    }
  }
  return [...handles];
}
