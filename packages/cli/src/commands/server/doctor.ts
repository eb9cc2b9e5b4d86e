import { runningServers } from '@relay/server/registration';
import type { CliCommand, Context } from '../../command.ts';
import { connectionOf, type Target } from '../../connection.ts';
import type { CheckedConnection } from '../../doctor/key.ts';
import { type CliEnvironment, setting } from '../../environment.ts';
import { CliError } from '../../errors.ts';
import { isServerUnclear, localUrl } from '../../local-server.ts';
import { escapeUnsafe } from '../../output/escape.ts';

export function registerDoctor(program: CliCommand): void {
  program
    .command('doctor')
    .description('diagnose problems with a server or its setup')
    .option('--remote', 'check only the server and the key, not local data')
    .option('--data-dir <folder>', 'data folder (or $RELAY_DATA_DIR; default: of the server here)')
    .examples(
      [
        'relay doctor',
        'relay doctor --data-dir /var/lib/relay',
        'relay doctor --url https://relay.example.com --remote',
      ],
      'Changes nothing. Exits with 1 if a check fails; warnings do not count.',
    )
    .handle(diagnose);
}

/** A file with keys that others can read is reported like any other problem. */
function connectionToCheck(
  { environment, options }: Context,
  dataDir: Target['dataDir'],
): CheckedConnection {
  try {
    return connectionOf(environment, { ...options, dataDir });
  } catch (error) {
    const isNamed = (options.profile ?? setting(environment, 'RELAY_PROFILE')) !== undefined;
    // The file says which server the profile is for.
    if (!(error instanceof CliError) || error.code !== 'file_not_private' || isNamed) throw error;
    const given = options.url ?? setting(environment, 'RELAY_URL');
    const url = given ?? localUrl(environment, dataDir);
    return { url, apiKey: undefined, keyFrom: undefined, keyProblem: error };
  }
}

/** The server that other commands use; that of the data folder, if these would have to choose. */
function serverToCheck(context: Context<Options>, installation: CliEnvironment): CheckedConnection {
  const { remote, dataDir } = context.options;
  const checked = setting(installation, 'RELAY_DATA_DIR');
  const isUsed = runningServers(installation.env).some((server) => server.dataDir === checked);
  try {
    const folder = isUsed && remote !== true ? checked : dataDir;
    return connectionToCheck(context, folder);
  } catch (error) {
    if (!isServerUnclear(error) || remote === true) throw error;
    return connectionToCheck(context, checked);
  }
}

const marks = { ok: ['green', '✓'], warning: ['yellow', '!'], wrong: ['red', '✗'] } as const;

interface Options {
  readonly remote?: boolean;
  readonly dataDir?: string;
}

async function diagnose(context: Context<Options>): Promise<void> {
  const { print, options } = context;
  const installation = await context.installation(options.dataDir);
  const connection = serverToCheck(context, installation);
  const { runChecks } = await import('../../doctor/doctor.ts');
  let failed = 0;
  const checksData = options.remote !== true;
  for await (const finding of runChecks(installation, connection, checksData)) {
    if (finding.state === 'wrong') failed += 1;
    if (print.json) {
      print.value(finding);
      continue;
    }
    const [style, mark] = marks[finding.state];
    const { check, message, fix, excerpt } = finding;
    print.raw(`${print.paint(style, mark)} ${check.padEnd(12)} ${escapeUnsafe(message)}\n`);
    if (excerpt !== undefined) print.raw(`\n${escapeUnsafe(excerpt)}\n\n`);
    if (fix !== undefined) print.raw(`  ${' '.repeat(12)} → ${escapeUnsafe(fix)}\n`);
  }
  if (failed === 0) return;
  throw new CliError('unhealthy', failed === 1 ? '1 check failed' : `${failed} checks failed`);
}
