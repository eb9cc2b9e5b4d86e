import type { Command } from 'commander';
import { acting, type Call } from '../call.ts';
import { CliError } from '../failures.ts';
import { examples } from '../help.ts';
import { visible } from '../visible.ts';
import type { World } from '../world.ts';

export function registerDoctor(program: Command, world: World): void {
  const command = program
    .command('doctor')
    .description('what is wrong with a set-up, and how to mend it')
    .option('--remote', 'only the server and the key: its data folder is elsewhere')
    .action(acting(world, examine));
  examples(command, ['relay doctor', 'relay doctor --url https://relay.example.com --remote'], {
    after: 'It changes nothing. Exits with 1 if something is wrong; a warning is not.',
  });
}

const marks = { ok: ['green', '✓'], warning: ['yellow', '!'], wrong: ['red', '✗'] } as const;

async function examine({ world, print, connection, options }: Call<{ remote?: boolean }>) {
  const { examinations } = await import('../doctor/doctor.ts');
  let wrong = 0;
  const scope = { world, connection, isRemote: options.remote === true };
  for await (const finding of examinations(scope)) {
    if (finding.state === 'wrong') wrong += 1;
    if (print.json) {
      print.value(finding);
      continue;
    }
    const [style, mark] = marks[finding.state];
    const { check, message, mend } = finding;
    print.raw(`${print.paint(style, mark)} ${check.padEnd(12)} ${visible(message)}\n`);
    if (mend !== undefined) print.raw(`  ${' '.repeat(12)} → ${visible(mend)}\n`);
  }
  if (wrong === 0) return;
  const what = wrong === 1 ? 'One thing is' : `${wrong} things are`;
  throw new CliError('unwell', `${what} wrong`);
}
