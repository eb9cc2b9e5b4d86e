/** The words of a shell command, which may have several pieces: `"$(date)"`. */
import type { CommandRole, CommandSegment } from '@relay/protocol/wire';

export interface CommandWord {
  readonly pieces: readonly CommandSegment[];
  /** What it is, in words. Empty if its text says it. */
  readonly label: string;
}

const labels: Readonly<Record<CommandRole, string>> = {
  command: 'command',
  'possible-command': 'maybe a command',
  wrapper: 'runs the next',
  option: 'option',
  argument: 'argument',
  assignment: 'variable',
  keyword: 'keyword',
  operator: '',
  redirection: 'redirection',
  expansion: 'filled in by the shell',
  comment: 'comment',
  space: '',
  unparsed: 'not understood',
};

/** Strings are the space between words. All texts together are the command. */
export function wordsOfCommand(segments: readonly CommandSegment[]): (string | CommandWord)[] {
  const words: (string | CommandWord)[] = [];
  let pieces: CommandSegment[] = [];
  const end = () => {
    if (pieces.length > 0) words.push({ pieces, label: labelOf(pieces) });
    pieces = [];
  };
  for (const segment of segments) {
    const isSpace = segment.text.trim() === '';
    // Commands on both sides of an operator have labels of their own.
    const isAlone = segment.role === 'operator' || segment.role === 'unparsed';
    if (isSpace || isAlone) end();
    if (isSpace) words.push(segment.text);
    else pieces.push(segment);
    if (isAlone) end();
  }
  end();
  return words;
}

function labelOf(pieces: readonly CommandSegment[]): string {
  const roles = new Set(pieces.map(({ role }) => role));
  // The quotes around an expansion.
  if (roles.size > 1) roles.delete('argument');
  return [...roles].map((role) => labels[role]).join(', ');
}
