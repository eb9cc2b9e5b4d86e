import {
  all,
  ANY_CODE,
  AT_END,
  type CodeRanges,
  complement,
  either,
  except,
  type GlobNode,
  many,
  maybe,
  NOT_DOT,
  NOT_END,
  one,
  rangesOf,
  textNode,
  union,
} from './tree.ts';

/** What a match of the rule does. In case of doubt an allow rule does not match, and a deny rule does. */
export type Effect = 'allow' | 'deny';

/** What precedes a wildcard decides its meaning; groups and separators count as `text`. */
type Preceding = 'slash' | 'star' | 'class' | 'text';

const MAX_DEPTH = 32;
const LINE_ENDS = rangesOf('\n\r\u2028\u2029');
const SLASH = rangesOf('/');
const WITHOUT_LINE_ENDS = complement(LINE_ENDS);
/** What a question mark matches in an allow rule, and at the start of a segment. */
const VISIBLE_CHAR = except(WITHOUT_LINE_ENDS, SLASH);
const VISIBLE_START = except(WITHOUT_LINE_ENDS, rangesOf('/.'));

// picomatch has three compilers, and so three meanings of a star. In patterns without any of these
// characters it stops before a hidden name (`/.x`), in all others only at a leading dot…
const FREE_STARS = /^[*!]|[/()[\]{}"]/;
// …and these forms accept one slash at the end; some of them require a non-empty tail then.
const SHORT_FORM =
  /^(\*\*\/\*\.\*|\*\*\/\.\*|\*\*\/\*|\*\*|\*\/\*|\*\.\*|\.\*|\*)((?:\.[A-Za-z0-9_]+)*)$/;
const NON_EMPTY_TAIL: ReadonlySet<string> = new Set(['**/*.*', '**/.*', '*/*', '*.*', '.*']);
const BRACE_RANGE = /^-?[A-Za-z0-9]+\.\.-?[A-Za-z0-9]+(?:\.\.-?[A-Za-z0-9]+)?$/;

/** The pattern as a tree, or a message that says why it is refused. */
export function parseGlob(pattern: string, effect: Effect): GlobNode | string {
  const parser = new GlobParser(pattern, effect);
  const node = parser.whole();
  return parser.fault ?? node;
}

class GlobParser {
  fault: string | undefined;
  readonly #chars: readonly string[];
  readonly #allow: boolean;
  readonly #short: { readonly base: string; readonly suffix: string } | undefined;
  readonly #preceding: Preceding[] = [];
  readonly #wildcard: CodeRanges;
  readonly #anything: GlobNode;
  readonly #visible: GlobNode;
  #at = 0;
  #depth = 0;

  constructor(pattern: string, effect: Effect) {
    this.#chars = Array.from(pattern);
    this.#allow = effect === 'allow';
    const short = SHORT_FORM.exec(pattern);
    this.#short = short === null ? undefined : { base: short[1]!, suffix: short[2]! };
    this.#wildcard = this.#allow ? WITHOUT_LINE_ENDS : ANY_CODE;
    const free = many(one(this.#wildcard));
    this.#visible = this.#allow ? many(either(one(VISIBLE_CHAR), visibleSlash())) : free;
    const guarded =
      this.#short === undefined
        ? !FREE_STARS.test(pattern)
        : this.#short.base === '**' && this.#short.suffix !== '';
    this.#anything = guarded ? this.#visible : free;
  }

  whole(): GlobNode {
    if (this.#chars[0] === '!') {
      this.#refuse('A pattern cannot be negated; write "\\!" for a leading exclamation mark.');
    }
    const nodes = [...this.#sequence('')];
    const short = this.#short;
    if (short?.suffix === '' && NON_EMPTY_TAIL.has(short.base) && this.#allow) {
      nodes.splice(-1, 0, NOT_END);
    }
    if (short !== undefined || this.#preceding.at(-1) === 'class') nodes.push(maybe(one(SLASH)));
    return all(...nodes);
  }

  #sequence(stops: string): readonly GlobNode[] {
    const nodes: GlobNode[] = [];
    while (this.#at < this.#chars.length && !stops.includes(this.#chars[this.#at]!)) {
      nodes.push(this.#item(nodes));
    }
    return nodes;
  }

  #item(earlier: GlobNode[]): GlobNode {
    const char = this.#chars[this.#at]!;
    if ('?*+@!'.includes(char) && this.#chars[this.#at + 1] === '(') return this.#extglob(char);
    switch (char) {
      case '*':
        return this.#stars(earlier);
      case '?':
        return this.#questionMark();
      case '[':
        return this.#bracket();
      case '{':
        return this.#braces();
      case '(':
        return this.#parens();
      case '/':
        this.#at += 1;
        this.#preceding.push('slash');
        return one(SLASH);
      case '\\':
        this.#at += 1;
        if (this.#at === this.#chars.length) {
          return this.#refuse('The pattern ends with a backslash; write "\\\\" for the character.');
        }
        return this.#literal();
      default:
        return this.#literal();
    }
  }

  #literal(): GlobNode {
    const char = this.#chars[this.#at]!;
    this.#at += 1;
    this.#preceding.push('text');
    return one(rangesOf(char));
  }

  #questionMark(): GlobNode {
    const visible = this.#startsSegment() ? VISIBLE_START : VISIBLE_CHAR;
    this.#at += 1;
    this.#preceding.push('text');
    return one(this.#allow ? visible : this.#wildcard);
  }

  #stars(earlier: GlobNode[]): GlobNode {
    const starts = this.#startsSegment();
    let end = this.#at;
    while (this.#chars[end] === '*') end += 1;
    if (this.#chars[end] === '(') end -= 1;
    const count = end - this.#at;
    this.#at = end;
    if (count === 2 && starts && (end === this.#chars.length || this.#chars[end] === '/')) {
      return this.#globstar(earlier);
    }
    this.#preceding.push('star');
    return starts ? this.#leading(this.#anything) : this.#anything;
  }

  /** `**` as a whole segment matches any number of folders, but no `/.`. */
  #globstar(earlier: GlobNode[]): GlobNode {
    while (this.#repeatsGlobstar()) this.#at += 3;
    const first = this.#preceding.length === 0;
    const rooted = this.#preceding.length === 1;
    const afterStar = this.#preceding.at(-2) === 'star';
    const ends = this.#at === this.#chars.length;
    this.#preceding.push('star');
    if (first && ends) return this.#leading(this.#visible);
    if (first) {
      this.#takeSlash();
      return maybe(all(this.#leading(this.#visible), one(SLASH)));
    }
    if (ends && !rooted && !afterStar) {
      earlier.pop();
      return either(all(one(SLASH), this.#visible), AT_END);
    }
    if (ends || (rooted && this.#allow)) return this.#visible;
    earlier.pop();
    this.#takeSlash();
    const folders = either(all(one(SLASH), this.#visible, one(SLASH)), one(SLASH));
    return this.#at < this.#chars.length ? either(folders, AT_END) : folders;
  }

  #bracket(): GlobNode {
    const found = parseClass(this.#chars, this.#at);
    if (typeof found === 'string') return this.#refuse(found);
    this.#at = found.next;
    this.#preceding.push('class');
    if (found.negated) {
      const rest = complement(found.ranges);
      return one(this.#allow ? except(rest, union(SLASH, LINE_ENDS)) : rest);
    }
    if (found.literal === undefined) return one(found.ranges);
    return either(one(found.ranges), textNode(found.literal));
  }

  #extglob(operator: string): GlobNode {
    if (operator === '!') {
      return this.#refuse(
        'A negated group "!(…)" is not supported; write "\\!(" for the characters.',
      );
    }
    this.#at += 1;
    const node = either(...this.#group('|', ')').map((branch) => branch.node));
    if (operator === '@') return node;
    return { kind: 'repeat', node, min: operator === '+' ? 1 : 0, many: operator !== '?' };
  }

  #parens(): GlobNode {
    const branches = this.#group('|', ')');
    if (branches.length > 1) return either(...branches.map((branch) => branch.node));
    return all(textNode('('), ...branches.map((branch) => branch.node), textNode(')'));
  }

  #braces(): GlobNode {
    const branches = this.#group(',', '}');
    const range = branches.find((branch) => BRACE_RANGE.test(branch.text));
    if (range !== undefined) {
      return this.#refuse(
        `The range "{${range.text}}" is not supported; list its values, as in {1,2,3}, or use [1-3].`,
      );
    }
    if (branches.length > 1) return either(...branches.map((branch) => branch.node));
    return all(textNode('{'), ...branches.map((branch) => branch.node), textNode('}'));
  }

  #group(separator: string, close: string): readonly { node: GlobNode; text: string }[] {
    const open = this.#chars[this.#at]!;
    const opened = this.#at;
    const branches: { node: GlobNode; text: string }[] = [];
    this.#depth += 1;
    if (this.#depth > MAX_DEPTH) this.#refuse(`The pattern nests more than ${MAX_DEPTH} groups.`);
    let closed = false;
    while (!closed && this.fault === undefined) {
      this.#at += 1;
      this.#preceding.push('text');
      const from = this.#at;
      const node = all(...this.#sequence(separator + close));
      branches.push({ node, text: this.#chars.slice(from, this.#at).join('') });
      closed = this.#chars[this.#at] === close;
      if (this.#at >= this.#chars.length) {
        this.#refuse(
          `The "${open}" at character ${opened + 1} is never closed; ` +
            `write "\\${open}" for the character.`,
        );
      }
    }
    this.#at += 1;
    this.#preceding.push('text');
    this.#depth -= 1;
    return branches;
  }

  #takeSlash(): void {
    this.#at += 1;
    this.#preceding.push('slash');
  }

  #leading(wildcard: GlobNode): GlobNode {
    return this.#allow ? all(NOT_DOT, wildcard) : wildcard;
  }

  #startsSegment(): boolean {
    return this.#preceding.length === 0 || this.#preceding.at(-1) === 'slash';
  }

  #repeatsGlobstar(): boolean {
    const ahead = this.#chars.slice(this.#at, this.#at + 4).join('');
    return ahead === '/**' || ahead === '/**/';
  }

  #refuse(message: string): GlobNode {
    this.fault ??= message;
    this.#at = this.#chars.length;
    return all();
  }
}

function visibleSlash(): GlobNode {
  return all(one(SLASH), NOT_DOT);
}

/** A bracket expression. */
interface BracketClass {
  readonly ranges: CodeRanges;
  readonly negated: boolean;
  /** `[abc]` without special characters also matches its own text, as in `app/[id]/page`. */
  readonly literal: string | undefined;
  /** The index of the character after it. */
  readonly next: number;
}

const POSIX: ReadonlyMap<string, CodeRanges> = new Map(
  Object.entries({
    alnum: [0x30, 0x39, 0x41, 0x5a, 0x61, 0x7a],
    alpha: [0x41, 0x5a, 0x61, 0x7a],
    ascii: [0, 0x7f],
    blank: [0x09, 0x09, 0x20, 0x20],
    cntrl: [0, 0x1f, 0x7f, 0x7f],
    digit: [0x30, 0x39],
    graph: [0x21, 0x7e],
    lower: [0x61, 0x7a],
    print: [0x20, 0x7e],
    punct: [0x21, 0x2f, 0x3a, 0x40, 0x5b, 0x60, 0x7b, 0x7e],
    space: [0x09, 0x0d, 0x20, 0x20],
    upper: [0x41, 0x5a],
    word: [0x30, 0x39, 0x41, 0x5a, 0x5f, 0x5f, 0x61, 0x7a],
    xdigit: [0x30, 0x39, 0x41, 0x46, 0x61, 0x66],
  }),
);

/** Parses the bracket expression whose `[` is at `start`; returns an error message if it is invalid. */
function parseClass(chars: readonly string[], start: number): BracketClass | string {
  const negated = chars[start + 1] === '!' || chars[start + 1] === '^';
  const first = negated ? start + 2 : start + 1;
  const parts: CodeRanges[] = [];
  let plain = !negated;
  let at = first;
  while (chars[at] !== ']' || at === first) {
    const named = posixName(chars, at);
    if (named !== undefined) {
      const ranges = POSIX.get(named);
      if (ranges === undefined) return `The character class "[:${named}:]" is unknown.`;
      parts.push(ranges);
      plain = false;
      at += named.length + 4;
      continue;
    }
    const low = readChar(chars, at);
    if (low === undefined) {
      return `The "[" at character ${start + 1} is never closed; write "\\[" for the character.`;
    }
    plain &&= !'-*+?.^${}(|)[]\\'.includes(chars[at]!);
    const high = rangeEnd(chars, low.next);
    if (high === undefined) {
      parts.push(rangesOf(low.char));
      at = low.next;
      continue;
    }
    const codes = [low.char.codePointAt(0)!, high.char.codePointAt(0)!] as const;
    if (codes[0] > codes[1]) {
      return `The range "${low.char}-${high.char}" is reversed; write "${high.char}-${low.char}".`;
    }
    parts.push(codes);
    plain = false;
    at = high.next;
  }
  const literal = plain ? chars.slice(start, at + 1).join('') : undefined;
  return { ranges: union(...parts), negated, literal, next: at + 1 };
}

function posixName(chars: readonly string[], at: number): string | undefined {
  if (chars[at] !== '[' || chars[at + 1] !== ':') return undefined;
  let end = at + 2;
  while (end < chars.length && /^[a-z]$/i.test(chars[end]!)) end += 1;
  return chars[end] === ':' && chars[end + 1] === ']'
    ? chars.slice(at + 2, end).join('')
    : undefined;
}

function readChar(
  chars: readonly string[],
  at: number,
): { readonly char: string; readonly next: number } | undefined {
  const escaped = chars[at] === '\\';
  const char = chars[escaped ? at + 1 : at];
  return char === undefined ? undefined : { char, next: escaped ? at + 2 : at + 1 };
}

function rangeEnd(chars: readonly string[], dash: number): ReturnType<typeof readChar> {
  if (chars[dash] !== '-' || chars[dash + 1] === ']') return undefined;
  return posixName(chars, dash + 1) === undefined ? readChar(chars, dash + 1) : undefined;
}
