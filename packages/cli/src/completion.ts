/** What a shell offers for a line that is being typed. The shells only ask; the answer is made here. */
import type { Command, Option } from 'commander';

export interface Candidate {
  readonly word: string;
  readonly about: string;
}

/** The last word is the one that is being typed; it may be empty. */
export function candidates(program: Command, words: readonly string[]): Candidate[] {
  const before = words.slice(0, -1);
  const typed = words.at(-1) ?? '';
  const { command, pending } = walk(program, before);
  return offered(command, pending, typed).filter(({ word }) => word.startsWith(typed));
}

/** The command that the words lead to, and the option that waits for its value. */
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

function offered(command: Command, pending: Option | undefined, typed: string): Candidate[] {
  if (pending !== undefined && !(pending.variadic && typed.startsWith('-'))) {
    return (pending.argChoices ?? []).map((word) => ({ word, about: '' }));
  }
  if (typed.startsWith('-')) {
    return [
      ...optionsOf(command).flatMap(({ long, description }) =>
        long === undefined || long === null ? [] : { word: long, about: description },
      ),
      { word: '--help', about: 'show this help' },
    ];
  }
  if (command.name() === 'completion') {
    return ['bash', 'zsh', 'fish'].map((word) => ({ word, about: '' }));
  }
  return subcommands(command).map((each) => ({ word: each.name(), about: each.description() }));
}

function subcommands(command: Command): readonly Command[] {
  return command.commands.filter((each) => !each.name().startsWith('__'));
}

/** Its own, and those that hold everywhere. */
function optionsOf(command: Command): readonly Option[] {
  const above = command.parent === null ? [] : optionsOf(command.parent);
  return [...command.options, ...above.filter(({ long }) => long !== '--version')];
}

const bash = `# relay completion for bash
_relay() {
  local words=("\${COMP_WORDS[@]:1:COMP_CWORD}")
  local IFS=$'\\n'
  COMPREPLY=($(relay __complete -- "\${words[@]}" 2>/dev/null | cut -f1))
  # Nothing of ours: perhaps a file.
  if [ \${#COMPREPLY[@]} -eq 0 ]; then compopt -o default 2>/dev/null; fi
}
complete -F _relay relay
`;

const zsh = `#compdef relay
_relay() {
  local -a offered
  local word about
  while IFS=$'\\t' read -r word about; do
    offered+=("\${word}:\${about}")
  done < <(relay __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( \${#offered} )); then _describe 'relay' offered; else _files; fi
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
