import { CommandDraft, EXPANSION, type ShellScan, type SimpleCommand } from './words.ts';

const EXPANDED = /(?:\w+|[@*#$!?-])?/y;
const SIGN = /[<>][<>&|-]*/y;
const BLANK = /[\s\p{Cc}\ufeff]/u;

/**
 * The commands of a shell text if quotes meant nothing: every separator ends one, be it quoted or
 * commented out, and quotes and backslashes vanish from the words. It finds more than runs, and
 * whatever runs: for texts whose quotes are in doubt. Hence a backslash before a line break is read
 * both ways, too.
 */
export function scanBlind(source: string): readonly SimpleCommand[] {
  const text = source.replaceAll(EXPANSION, '');
  const joined = text.replaceAll('\\\n', '');
  return joined === text ? scan(text) : [...scan(text), ...scan(joined)];
}

function scan(text: string): readonly SimpleCommand[] {
  const found: ShellScan = { commands: [], doubt: true, deep: false };
  const draft = new CommandDraft(found);
  let at = 0;
  while (at < text.length) {
    const char = text[at]!;
    let width = 1;
    if ('\n;&|(){}`'.includes(char)) {
      draft.endCommand(at);
    } else if (char === '<' || char === '>') {
      width = lengthOf(SIGN, text, at);
      draft.redirect(at, width);
      if (text[at + width] === '(') draft.endCommand(at + width);
    } else if (char === '$') {
      const name = lengthOf(EXPANDED, text, at + 1);
      if (name > 0 || !`'"`.includes(text[at + 1] ?? ' '))
        draft.append(EXPANSION, at).expands = true;
      width += name;
    } else if (BLANK.test(char)) {
      draft.endWord(at);
    } else if (!`'"\\`.includes(char) && (char !== '#' || draft.inWord)) {
      draft.append(char, at);
    }
    at += width;
  }
  draft.endCommand(at);
  return found.commands.map(({ words }) => ({ words, end: undefined }));
}

/** `pattern` is sticky, so that nothing but the place itself is looked at. */
function lengthOf(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0].length ?? 0;
}
