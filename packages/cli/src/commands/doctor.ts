import type { CliCommand, Context } from '../command.ts';
import { CliError } from '../errors.ts';
import { visible } from '../output/visible.ts';

export function registerDoctor(program: CliCommand): void {
  program
    .command('doctor')
    .description('diagnose problems with a server or its setup')
    .option('--remote', 'check only the server and the key, not local data')
    .examples(
      ['relay doctor', 'relay doctor --url https://relay.example.com --remote'],
      'Changes nothing. Exits with 1 if a check fails; warnings do not count.',
    )
    .handle(diagnose);
}

const marks = { ok: ['green', '✓'], warning: ['yellow', '!'], wrong: ['red', '✗'] } as const;

async function diagnose({
  environment,
  print,
  connection,
  options,
}: Context<{ remote?: boolean }>) {
  const { runChecks } = await import('../doctor/doctor.ts');
  let wrong = 0;
  const checksData = options.remote !== true;
  for await (const finding of runChecks(environment, connection, checksData)) {
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
  throw new CliError('unwell', wrong === 1 ? '1 check failed' : `${wrong} checks failed`);
}
