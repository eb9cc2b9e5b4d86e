/**
 * Markdown as tokens, at a bounded cost: models write it, and text that they read may make them write
 * anything. What is nested too deeply or has too many parts is not Markdown but plain text.
 */
import { Lexer, type Token, Tokenizer, type Tokens } from 'marked';

/** What follows is plain text. The lexer takes quadratic time on some texts, by length and by lines. */
const maxLength = 40_000;
const maxLines = 2_000;
/** Of a paragraph, a cell or a heading. */
const maxInline = 4_000;
/** Quotes, lists and emphasis in each other. People nest three or four. */
const maxDepth = 40;
const maxTokens = 20_000;
/** Rows are filled up to the number of columns. */
const maxCells = 50_000;

/** The length of the beginning that is read as Markdown. */
export function markdownLength(text: string): number {
  let end = -1;
  for (let line = 0; line < maxLines; line += 1) {
    end = text.indexOf('\n', end + 1);
    if (end < 0 || end > maxLength) return Math.min(text.length, maxLength);
  }
  return end;
}

/** Undefined if it is to be shown as plain text. */
export function lexMarkdown(text: string): Token[] | undefined {
  if (isTooMuch(text)) return undefined;
  const lexer = createLexer();
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

/**
 * Its own rules look for an e-mail address from every character on, which takes seconds on some
 * paragraphs. Here only addresses with a scheme are links.
 */
function createLexer(): Lexer {
  const tokenizer = new Tokenizer();
  const lexer = new Lexer({ gfm: true, tokenizer });
  tokenizer.rules.inline = {
    ...tokenizer.rules.inline,
    url: /^(https?:\/\/)[^\s<]+/i,
    text: /^([`~]+|[^`~])(?:(?= {2,}\n)|[\s\S]*?(?:(?=[\\<![`*~_]|\b_|https?:\/\/|$)|[^ ](?= {2,}\n)))/,
  };
  return lexer;
}

const quoteOrItem = /[ \t]*(?:>|[-*+](?=[ \t])|\d{1,9}[.)](?=[ \t]))/y;

/** Before the lexer, which takes a step down for each. */
function isTooMuch(text: string): boolean {
  const lines = text.split('\n');
  for (const line of lines) {
    let depth = 0;
    quoteOrItem.lastIndex = 0;
    while (quoteOrItem.test(line)) {
      depth += 1;
      if (depth > maxDepth) return true;
    }
    const indentation = /^[ \t]*/.exec(line)?.[0].length ?? 0;
    if (indentation > maxDepth * 4) return true;
    if (line.split('|').length * lines.length > maxCells && line.includes('|')) return true;
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

/**
 * As text is appended, only the blocks at its end are taken apart again, and only the last row of a table; the
 * others stay the same objects.
 */
export function continueMarkdown(previous: Lexed | undefined, text: string): Lexed {
  if (previous?.text === text) return previous;
  const grown = previous === undefined ? undefined : continueTable(previous, text);
  if (grown !== undefined) return grown;
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
    const { type, raw } = tokens[at] as Token;
    // A blank line ends a table.
    if (type === 'table' && open > 0 && raw.endsWith('\n\n')) return tokens.slice(0, at + 1);
    if (type !== 'space') open += 1;
    if (open === openBlocks) return tokens.slice(0, at);
  }
  return [];
}

/** The rows of a table do not depend on each other. Undefined if the text does not go on with a table. */
function continueTable({ tokens = [], text: before }: Lexed, text: string): Lexed | undefined {
  const table = tokens.at(-1) as Tokens.Table | undefined;
  if (table?.type !== 'table' || !text.startsWith(before) || table.raw.endsWith('\n\n')) {
    return undefined;
  }
  const rows = table.rows.slice(0, -1);
  // Two lines above the first row; the last row may have been cut.
  const lines = table.raw.split('\n').slice(0, 2 + rows.length);
  const head = `${lines.slice(0, 2).join('\n')}\n`;
  const keptRaw = `${lines.join('\n')}\n`;
  const earlier = tokens.slice(0, -1);
  const keptText = earlier.map(({ raw }) => raw).join('') + keptRaw;
  if (!text.startsWith(keptText)) return undefined;
  const [next, ...rest] = lexMarkdown(head + text.slice(keptText.length)) ?? [];
  if (next?.type !== 'table' || !next.raw.startsWith(head)) return undefined;
  const grown: Token = {
    ...next,
    raw: keptRaw + next.raw.slice(head.length),
    rows: [...rows, ...(next as Tokens.Table).rows],
  };
  const isTooLong = (table.rows.length + 1) * table.header.length > maxCells;
  return {
    text,
    tokens: isTooLong || !isBounded([grown]) ? undefined : [...earlier, grown, ...rest],
  };
}

/** The text without its form. Images are their descriptions. */
export function plainText(tokens: readonly Token[]): string {
  return tokens
    .map((token) => {
      const children = childrenOf(token);
      if (children.length > 0) return plainText(children);
      const isVerbatim = token.type === 'codespan' || token.type === 'escape';
      const text = 'text' in token && typeof token.text === 'string' ? token.text : token.raw;
      return isVerbatim ? text : decodeEntities(text);
    })
    .join('');
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
