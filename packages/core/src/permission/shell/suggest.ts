/*
 * The rule to propose for commands like one that a person was asked about. Only what reads is
 * proposed: for whatever else, the command to the letter is what "always" grants.
 */
import { grantsCommand } from './grant.ts';
import { plainCommands } from './parse.ts';

const READERS: ReadonlySet<string> = new Set(
  (
    'basename cat cmp comm cut date df diff dirname du echo file fold grep head id ls md5sum nl od ' +
    'printenv pwd readlink realpath rg sha256sum sort stat tail tr tree uniq uname wc which whoami'
  ).split(' '),
);

const READING_SUBCOMMANDS: ReadonlyMap<string, ReadonlySet<string>> = new Map([
  [
    'git',
    new Set('blame describe diff log ls-files ls-tree rev-parse shortlog show status'.split(' ')),
  ],
  ['npm', new Set(['ls', 'outdated', 'view'])],
  ['cargo', new Set(['tree', 'metadata'])],
]);

/** A pattern that covers this command and others that only read; undefined where none is safe. */
export function suggestedPattern(command: string): string | undefined {
  const [only, ...others] = plainCommands(command) ?? [];
  if (only === undefined || others.length > 0) return undefined;
  const [name = '', subcommand = ''] = only.words;
  const prefix = READERS.has(name)
    ? name
    : READING_SUBCOMMANDS.get(name)?.has(subcommand) === true
      ? `${name} ${subcommand}`
      : undefined;
  if (prefix === undefined) return undefined;
  const pattern = `${prefix}*`;
  // Only what the gate itself would let pass by it.
  return grantsCommand(command, [pattern]) ? pattern : undefined;
}
