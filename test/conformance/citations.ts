export interface Citations {
  readonly ids: readonly string[];
  /** Calls whose arguments are not all quoted ids: they cannot be counted from the text. */
  readonly unreadable: readonly string[];
}

const comment = String.raw`\/\/[^\n]*|\/\*[\s\S]*?\*\/`;
const quoted = String.raw`'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"`;
const template = String.raw`\`(?:\\[\s\S]|[^\`\\])*\``;
const call = String.raw`(?<![\w$.])verifies\s*\((?<args>(?:${comment}|${quoted}|[^)'"])*)\)`;

/**
 * The ids that a test file cites in calls of `verifies`. Comments and strings are consumed first,
 * so that a commented-out test or a text about one is no citation.
 */
export function citationsIn(source: string): Citations {
  const ids: string[] = [];
  const unreadable: string[] = [];
  const tokens = new RegExp(`${comment}|${quoted}|${template}|${call}`, 'g');
  for (const { 0: token, groups } of source.matchAll(tokens)) {
    const args = groups?.['args'];
    if (args === undefined) continue;
    const list = withoutComments(args);
    const found = list.match(new RegExp(quoted, 'g')) ?? [];
    const rest = list.replace(new RegExp(quoted, 'g'), '').replace(/[\s,]/g, '');
    if (found.length === 0 || rest !== '') {
      unreadable.push(token.replace(/\s+/g, ' '));
    } else {
      ids.push(...found.map((literal) => literal.slice(1, -1)));
    }
  }
  return { ids, unreadable };
}

function withoutComments(text: string): string {
  return text.replace(new RegExp(`(${quoted})|${comment}`, 'g'), '$1');
}
