const NAMED: Readonly<Record<string, string>> = {
  a: '\x07',
  b: '\b',
  e: '\x1b',
  E: '\x1b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
};
const NUMBERED = /(?:[0-7]{1,3}|x[\dA-Fa-f]{1,2}|u[\dA-Fa-f]{1,4}|U[\dA-Fa-f]{1,8})/y;

export interface AnsiText {
  readonly text: string;
  /** Where reading goes on: after the closing quote, or at the end if there is none. */
  readonly end: number;
  readonly closed: boolean;
}

/** What `$'…'` stands for; `start` is the first character after the opening quote. */
export function readAnsiQuoted(source: string, start: number): AnsiText {
  const parts: string[] = [];
  let at = start;
  while (at < source.length) {
    const char = source[at]!;
    if (char === "'") return { text: parts.join(''), end: at + 1, closed: true };
    if (char !== '\\') {
      parts.push(char);
      at += 1;
      continue;
    }
    NUMBERED.lastIndex = at + 1;
    const digits = NUMBERED.exec(source)?.[0];
    const escaped = source[at + 1] ?? '';
    if (digits !== undefined) {
      parts.push(numbered(digits));
      at += 1 + digits.length;
    } else if (escaped === 'c') {
      parts.push(' '); // a control character: never part of a name
      at += 3;
    } else {
      parts.push(NAMED[escaped] ?? escaped);
      at += 2;
    }
  }
  return { text: parts.join(''), end: source.length, closed: false };
}

function numbered(digits: string): string {
  const hex = /^[xuU]/.test(digits);
  const code = Number.parseInt(hex ? digits.slice(1) : digits, hex ? 16 : 8);
  if (code === 0) return ''; // bash ends the text here
  return String.fromCodePoint(code > 0x10_ff_ff ? 0xff_fd : code);
}
