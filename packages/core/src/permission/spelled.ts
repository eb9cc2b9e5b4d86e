/**
 * How many characters at the front of a pattern stand for themselves: all that comes before its
 * first wildcard or group. What is spelled is what the writer of a rule has seen.
 */
export function spelledLength(pattern: string): number {
  for (let at = 0; at < pattern.length; at += 1) {
    const char = pattern[at]!;
    if ('*?[{(\\'.includes(char)) return at;
    if ('+@!'.includes(char) && pattern[at + 1] === '(') return at;
  }
  return pattern.length;
}
