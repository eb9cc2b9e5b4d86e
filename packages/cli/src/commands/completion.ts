/** Shell completion: the scripts call `relay __complete`, which computes the candidates. */
import type { RelayClient } from '@relay/sdk';
import type { Command, Option } from 'commander';
import type { CliCommand, Context } from '../command.ts';
import { usageError } from '../errors.ts';
import type { IdKind } from '../ids.ts';
import { cutTo, escapeLine } from '../output/escape.ts';
import { shortId } from '../output/short-id.ts';

export function registerCompletion(program: CliCommand): void {
  program
    .command('completion <shell>')
    .description('print a completion script for bash, zsh or fish')
    .examples([
      "echo 'source <(relay completion bash)' >> ~/.bashrc",
      "echo 'source <(relay completion zsh)' >> ~/.zshrc",
      'relay completion fish > ~/.config/fish/completions/relay.fish',
    ])
    .handle(({ print }, [shell = '']) => {
      const script = Object.hasOwn(scripts, shell) ? scripts[shell] : undefined;
      if (script !== undefined) print.raw(script);
      else throw usageError(`Unknown shell "${shell}"`, 'use bash, zsh or fish');
    });
  // The scripts call this with the words up to the cursor.
  program
    .command('__complete [words...]', { hidden: true })
    .allowUnknownOption()
    .helpOption(false)
    .handle(async (context, words) => {
      const known = candidates(program, words);
      const found = known.length > 0 ? known : await storedCandidates(context, program, words);
      for (const { word, description } of found) context.print.raw(`${word}\t${description}\n`);
    });
}

export interface Candidate {
  readonly word: string;
  readonly description: string;
}

/** Completions for the last word, which may be incomplete or empty. */
export function candidates(program: Command, words: readonly string[]): Candidate[] {
  const before = words.slice(0, -1);
  const typed = words.at(-1) ?? '';
  const { command, pending } = walk(program, before);
  return candidatesFor(command, pending, typed).filter(({ word }) => word.startsWith(typed));
}

/** A shell waits no longer for a server. */
const timeoutMs = 1_500;
const mostIds = 30;

/** Ids or names of what the next argument is. None if the server does not respond: a shell shows no errors. */
async function storedCandidates(
  context: Context,
  program: Command,
  words: readonly string[],
): Promise<readonly Candidate[]> {
  const { command, name } = nextArgument(program, words.slice(0, -1));
  const kind = idArguments[name];
  const named = nameArguments[name];
  if (kind === undefined && named === undefined) return [];
  const typed = words.at(-1) ?? '';
  try {
    const [{ pendingApprovals, recentIds }, { createClient }] = await Promise.all([
      import('../ids.ts'),
      import('@relay/sdk'),
    ]);
    const { url: baseUrl, apiKey } = context.connection;
    const client = createClient({ baseUrl, apiKey, maxRetries: 0, timeoutMs });
    if (kind === undefined) {
      const offered = (await named?.(client)) ?? [];
      return offered.filter(({ word }) => word.startsWith(typed));
    }
    const found =
      kind === 'approval' && decisions.has(command.name())
        ? await pendingApprovals(client, mostIds)
        : await recentIds(client, kind, mostIds);
    return found.flatMap(({ id, text }) => {
      const word = id.startsWith(typed) && typed !== '' ? id : shortId(id);
      const description = cutTo(escapeLine(text), 60);
      return word.startsWith(typed) ? [{ word, description }] : [];
    });
  } catch {
    return [];
  }
}

/** The names of arguments and of values of options that are ids. */
const idArguments: Readonly<Record<string, IdKind>> = {
  run: 'run',
  runs: 'run',
  approval: 'approval',
  conversation: 'conversation',
  message: 'message',
  messages: 'message',
  deliveries: 'delivery',
  memories: 'memory',
  grants: 'grant',
  key: 'key',
  keys: 'key',
  webhook: 'webhook',
  webhooks: 'webhook',
  session: 'session',
  sessions: 'session',
};

/** Those that are names. */
const nameArguments: Readonly<Record<string, (client: RelayClient) => Promise<Candidate[]>>> = {
  agent: async ({ agents }) =>
    (await agents.list().page()).items.map(({ name, description = '' }) => ({
      word: name,
      description,
    })),
  model: async (client) =>
    (await client.models()).models.map(({ id, provider }) => ({ word: id, description: provider })),
};

/** The commands for which only a pending approval is useful. */
const decisions: ReadonlySet<string> = new Set(['approve', 'answer', 'deny']);

/** The command, and the name of its argument, or of the value of its option, that comes next after these words. */
function nextArgument(program: Command, words: readonly string[]) {
  const { command, pending, taken } = walk(program, words);
  if (pending !== undefined) return { command, name: /<(\w+)>/.exec(pending.flags)?.[1] ?? '' };
  const expected = command.registeredArguments;
  const next = expected[taken] ?? expected.findLast(({ variadic }) => variadic);
  return { command, name: next?.name() ?? '' };
}

/** The command that the words select, the option whose value comes next, and the arguments so far. */
function walk(program: Command, words: readonly string[]) {
  let command = program;
  let taken = 0;
  let pending: Option | undefined;
  for (const word of words) {
    if (pending !== undefined && !(pending.variadic && word.startsWith('-'))) {
      if (!pending.variadic) pending = undefined;
      continue;
    }
    const option = optionsOf(command).find(({ short, long }) => word === short || word === long);
    pending = option?.required === true || option?.variadic === true ? option : undefined;
    const named = option === undefined ? subcommands(command) : [];
    const selected = named.find((each) => each.name() === word);
    if (selected === undefined && option === undefined && !word.startsWith('-')) taken += 1;
    if (selected !== undefined) taken = 0;
    command = selected ?? command;
  }
  return { command, pending, taken };
}

function candidatesFor(command: Command, pending: Option | undefined, typed: string): Candidate[] {
  if (pending !== undefined && !(pending.variadic && typed.startsWith('-'))) {
    return (pending.argChoices ?? []).map((word) => ({ word, description: '' }));
  }
  if (typed.startsWith('-')) {
    return [
      ...optionsOf(command).flatMap(({ long, description }) =>
        long === undefined || long === null ? [] : { word: long, description },
      ),
      { word: '--help', description: 'show this help' },
    ];
  }
  if (command.name() === 'completion') {
    return Object.keys(scripts).map((word) => ({ word, description: '' }));
  }
  return subcommands(command).map((each) => ({
    word: each.name(),
    description: each.description(),
  }));
}

function subcommands(command: Command): readonly Command[] {
  return command.commands.filter((each) => !each.name().startsWith('__'));
}

/** The options of the command and its parents. */
function optionsOf(command: Command): readonly Option[] {
  const inherited = command.parent === null ? [] : optionsOf(command.parent);
  return [...command.options, ...inherited.filter(({ long }) => long !== '--version')];
}

const bash = `# relay completion for bash
_relay() {
  local words=("\${COMP_WORDS[@]:1:COMP_CWORD}")
  local IFS=$'\\n'
  COMPREPLY=($(relay __complete -- "\${words[@]}" 2>/dev/null | cut -f1))
  # No candidates: complete file names.
  if [ \${#COMPREPLY[@]} -eq 0 ]; then compopt -o default 2>/dev/null; fi
}
complete -F _relay relay
`;

const zsh = `#compdef relay
_relay() {
  local -a candidates
  local word description
  while IFS=$'\\t' read -r word description; do
    candidates+=("\${word//:/\\:}:\${description}")
  done < <(relay __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( \${#candidates} )); then _describe 'relay' candidates; else _files; fi
}
if [ "$funcstack[1]" = "_relay" ]; then
  _relay "$@"
else
  (( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i; }
  compdef _relay relay
fi
`;

const fish = `# relay completion for fish
function __relay_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l found (relay __complete -- $words[2..-1] 2>/dev/null)
  # No candidates: complete file names.
  if set -q found[1]; printf '%s\\n' $found; else; __fish_complete_path (commandline -ct); end
end
complete -c relay -f -a '(__relay_complete)'
`;

export const scripts: Readonly<Record<string, string>> = { bash, zsh, fish };
