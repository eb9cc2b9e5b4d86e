/** Shell completion: the scripts call `relay __complete`, which computes the candidates. */
import type { Command, Option } from 'commander';
import type { CliCommand } from '../command.ts';
import { usageError } from '../errors.ts';

export function registerCompletion(program: CliCommand): void {
  program
    .command('completion <shell>')
    .description('print a completion script for bash, zsh or fish')
    .examples([
      "echo 'source <(relay completion bash)' >> ~/.bashrc",
      'relay completion zsh > "${fpath[1]}/_relay"',
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
    .handle(({ print }, words) => {
      for (const { word, description } of candidates(program, words)) {
        print.raw(`${word}\t${description}\n`);
      }
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

/** The command that the words select, and the option whose value comes next. */
function walk(program: Command, words: readonly string[]) {
  let command = program;
  let pending: Option | undefined;
  for (const word of words) {
    if (pending !== undefined && !(pending.variadic && word.startsWith('-'))) {
      if (!pending.variadic) pending = undefined;
      continue;
    }
    const option = optionsOf(command).find(({ short, long }) => word === short || word === long);
    pending = option?.required === true || option?.variadic === true ? option : undefined;
    const named = option === undefined ? subcommands(command) : [];
    command = named.find((each) => each.name() === word) ?? command;
  }
  return { command, pending };
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
    candidates+=("\${word}:\${description}")
  done < <(relay __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( \${#candidates} )); then _describe 'relay' candidates; else _files; fi
}
if [ "$funcstack[1]" = "_relay" ]; then _relay "$@"; else compdef _relay relay; fi
`;

const fish = `# relay completion for fish
function __relay_complete
  set -l words (commandline -opc) (commandline -ct)
  relay __complete -- $words[2..-1] 2>/dev/null
end
complete -c relay -f -a '(__relay_complete)'
`;

export const scripts: Readonly<Record<string, string>> = { bash, zsh, fish };
