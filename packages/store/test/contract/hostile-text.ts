/** Texts that a store might change, cut or take for something else, by what they are. */
export const hostileText: Readonly<Record<string, string>> = {
  NUL: 'a\u0000b',
  'a lone high surrogate': 'a\uD83Db',
  'a lone low surrogate': '\uDE00',
  emoji: '👩‍👩‍👧‍👦🏳️‍🌈',
  'control characters': '\u0001\u001f\u007f\u0080\u2028\u2029\ufeff',
  quotes: `'"\`;--/* */ \\ \\u0000 ? $1 :a @b %s`,
  'frame-like lines': 'x\n\ndata: {}\r\n\revent: y',
  nothing: '',
  'a non-character': '\uFFFE\uFFFF',
};
