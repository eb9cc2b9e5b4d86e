import type { Command } from 'commander';
import { acting } from '../call.ts';
import { usageError } from '../failures.ts';
import { examples } from '../help.ts';
import type { World } from '../world.ts';

export function registerCompletion(program: Command, world: World): void {
  const completion = program
    .command('completion <shell>')
    .description('a script that completes these commands: bash, zsh or fish')
    .action(
      acting(world, async ({ print }, [shell = '']) => {
        const { scripts } = await import('../completion.ts');
        const script = Object.hasOwn(scripts, shell) ? scripts[shell] : undefined;
        if (script === undefined) throw usageError(`"${shell}" is not bash, zsh or fish`);
        print.raw(script);
      }),
    );
  examples(completion, [
    "echo 'source <(relay completion bash)' >> ~/.bashrc",
    'relay completion zsh > "${fpath[1]}/_relay"',
    'relay completion fish > ~/.config/fish/completions/relay.fish',
  ]);
  // What those scripts call: the words before the cursor, the last of them unfinished.
  program
    .command('__complete [words...]', { hidden: true })
    .allowUnknownOption()
    .helpOption(false)
    .action(
      acting(world, async ({ print }, words) => {
        const { candidates } = await import('../completion.ts');
        for (const { word, about } of candidates(program, words)) print.raw(`${word}\t${about}\n`);
      }),
    );
}
