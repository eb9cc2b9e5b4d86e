/** The README and the guides: their commands and their other blocks of code. */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));

export interface Block {
  readonly language: string;
  readonly code: string;
}

export interface Document {
  /** From the root of the repository. */
  readonly path: string;
  readonly blocks: readonly Block[];
  /** Of the blocks in `sh`, in their order. */
  readonly commands: readonly string[];
}

export const documents: readonly Document[] = [
  'README.md',
  ...readdirSync(`${root}/docs/guides`)
    .toSorted()
    .map((name) => `docs/guides/${name}`),
].map(readDocument);

/** `path` from the root of the repository. */
export function readDocument(path: string): Document {
  const text = readFileSync(`${root}/${path}`, 'utf8');
  // Those in a list are indented.
  const fenced = text.matchAll(/^( *)```(\w*)\n(.*?)^\1```$/gms);
  const blocks = [...fenced].map(([, indent = '', language = '', code = '']) => ({
    language,
    code: code.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  }));
  const commands = blocks
    .filter(({ language }) => /^(sh|bash|shell|console)$/.test(language))
    .flatMap(({ code }) => commandsOf(code));
  return { path, blocks, commands };
}

/** One per line, but for lines that end with a backslash or within quotes, and for here-documents. */
function commandsOf(code: string): string[] {
  const commands: string[] = [];
  let command = '';
  for (const line of code.split('\n')) {
    command = command === '' ? line : `${command}\n${line}`;
    if (!isComplete(command)) continue;
    if (command.replaceAll(/^\s*#.*$/gm, '').trim() !== '') commands.push(command.trim());
    command = '';
  }
  if (command.trim() !== '') throw new Error(`A command does not end: ${command}`);
  return commands;
}

function isComplete(command: string): boolean {
  if (command.endsWith('\\')) return false;
  const [, end] = /<<-?\s*['"]?(\w+)['"]?/.exec(command) ?? [];
  if (end !== undefined) return command.split('\n').slice(1).includes(end);
  let quote: string | undefined;
  for (let index = 0; index < command.length; index += 1) {
    const character = command.charAt(index);
    if (character === quote) quote = undefined;
    else if (quote === undefined && /['"]/.test(character)) quote = character;
    else if (quote === undefined && character === '#' && /(^|\s)$/.test(command.slice(0, index))) {
      // A comment can hold an apostrophe.
      return isComplete(command.replace(/(^|\s)#[^\n]*/, '$1'));
    }
  }
  return quote === undefined;
}
