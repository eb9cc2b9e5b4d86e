/**
 * Markdown as tokens, at a bounded cost: models write it, and text that they read may make them write
 * anything. What is nested too deeply or has too many parts is not Markdown but plain text.
 */
import { Lexer, type Token } from 'marked';

/** Quotes, lists and emphasis in each other. People nest three or four. */
const maxDepth = 40;
const maxTokens = 20_000;
/** The characters of a paragraph, a cell or a heading. The lexer takes quadratic time on some texts. */
const maxInline = 10_000;

/** Undefined if it is to be shown as plain text. */
export function lexMarkdown(text: string): Token[] | undefined {
  if (isDeeplyNested(text)) return undefined;
  const lexer = new Lexer({ gfm: true });
  try {
    const tokens = lexer.blockTokens(text, []);
    // The lexer appends to its queue while it works on it.
    for (const { src, tokens: inline } of lexer.inlineQueue) {
      if (src.length > maxInline) inline.push({ type: 'text', raw: src, text: src });
      else lexer.inlineTokens(src, inline);
    }
    return isBounded(tokens) ? tokens : undefined;
  } catch {
    // The lexer refuses a text that it cannot take apart, or exceeds the stack.
    return undefined;
  }
}

const quoteOrItem = /[ \t]*(?:>|[-*+](?=[ \t])|\d{1,9}[.)](?=[ \t]))/y;

/** Before the lexer, which takes a step down for each. */
function isDeeplyNested(text: string): boolean {
  for (const line of text.split('\n')) {
    let depth = 0;
    quoteOrItem.lastIndex = 0;
    while (quoteOrItem.test(line)) {
      depth += 1;
      if (depth > maxDepth) return true;
    }
    const indentation = /^[ \t]*/.exec(line)?.[0].length ?? 0;
    if (indentation > maxDepth * 4) return true;
  }
  return false;
}

function isBounded(tokens: readonly Token[]): boolean {
  const pending = tokens.map((token) => ({ token, depth: 1 }));
  let count = 0;
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const { token, depth } = next;
    count += 1;
    if (count > maxTokens || depth > maxDepth) return false;
    for (const child of childrenOf(token)) pending.push({ token: child, depth: depth + 1 });
  }
  return true;
}

function childrenOf(token: Token): readonly Token[] {
  if (token.type === 'list' && 'items' in token) return token.items as Token[];
  if (token.type === 'table' && 'rows' in token) {
    const { header, rows } = token as { header: Cell[]; rows: Cell[][] };
    return [...header, ...rows.flat()].flatMap(({ tokens }) => tokens);
  }
  return 'tokens' in token && token.tokens !== undefined ? token.tokens : [];
}

interface Cell {
  readonly tokens: Token[];
}

export interface Lexed {
  readonly text: string;
  /** Undefined: plain text. */
  readonly tokens: readonly Token[] | undefined;
}

/** Blocks at the end that more text may change: a list may go on after the line that follows it. */
const openBlocks = 2;

/** As text is appended, only the blocks at its end are taken apart again; the others stay the same objects. */
export function continueMarkdown(previous: Lexed | undefined, text: string): Lexed {
  if (previous?.text === text) return previous;
  const kept = previous === undefined ? [] : closedBlocks(previous, text);
  const keptText = kept.map(({ raw }) => raw).join('');
  const isPrefix = text.startsWith(keptText);
  const rest = lexMarkdown(isPrefix ? text.slice(keptText.length) : text);
  if (rest === undefined) return { text, tokens: undefined };
  return { text, tokens: isPrefix ? [...kept, ...rest] : rest };
}

function closedBlocks({ tokens = [], text: before }: Lexed, text: string): readonly Token[] {
  if (!text.startsWith(before)) return [];
  let open = 0;
  for (let at = tokens.length - 1; at >= 0; at -= 1) {
    if (tokens[at]?.type !== 'space') open += 1;
    if (open === openBlocks) return tokens.slice(0, at);
  }
  return [];
}

const entities: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  nbsp: '\u00a0',
};

/** Character references, which HTML would replace. */
export function decodeEntities(text: string): string {
  return text.replaceAll(
    /&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|([a-z]{2,4}));/g,
    (whole, ...of) => {
      const [decimal, hex, name] = of as (string | undefined)[];
      if (name !== undefined) return entities[name] ?? whole;
      const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16);
      return code > 0 && code <= 0x10_ffff ? String.fromCodePoint(code) : whole;
    },
  );
}
