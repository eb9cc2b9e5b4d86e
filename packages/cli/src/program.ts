/** The tree of commands. Only their words are here: what they do is loaded when it is done. */
import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { registerApprovals } from './commands/approvals.ts';
import { registerAudit } from './commands/audit.ts';
import { registerBackup } from './commands/backup.ts';
import { registerBootstrap } from './commands/bootstrap.ts';
import { registerChat } from './commands/chat.ts';
import { registerCompletion } from './commands/completion.ts';
import { registerCredentials } from './commands/credentials.ts';
import { registerDoctor } from './commands/doctor.ts';
import { registerExplain } from './commands/explain.ts';
import { registerGrants } from './commands/grants.ts';
import { registerKeys } from './commands/keys.ts';
import { registerMasterKey } from './commands/master-key.ts';
import { registerMemories } from './commands/memories.ts';
import { registerPolicy } from './commands/policy.ts';
import { registerRuns } from './commands/runs.ts';
import { registerServe } from './commands/serve.ts';
import { registerTools } from './commands/tools.ts';
import { registerWebhooks } from './commands/webhooks.ts';
import { examples } from './help.ts';
import type { World } from './world.ts';

export function createProgram(world: World): Command {
  const program = new Command('relay')
    .description('Runs AI agents durably, and asks you before their tools do anything')
    .version(versionOfThis(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'show this help')
    .option('--url <url>', 'the server (default: $RELAY_URL, or http://127.0.0.1:4000)')
    .option('--profile <name>', 'a server and its key from your profiles (or $RELAY_PROFILE)')
    .option('--json', 'one JSON value a line, for programs')
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => void world.stdout.write(text),
      writeErr: (text) => void world.stderr.write(text),
      getOutHelpWidth: () => world.stdout.columns ?? 80,
      getErrHelpWidth: () => world.stderr.columns ?? 80,
      // The one line about a mistake is written where all others are.
      outputError: () => {},
    })
    .exitOverride();
  program.commandsGroup('Use it:');
  registerChat(program, world);
  registerRuns(program, world);
  registerApprovals(program, world);
  registerGrants(program, world);
  registerTools(program, world);
  registerExplain(program, world);
  registerMemories(program, world);
  program.commandsGroup('Run it:');
  registerServe(program, world);
  registerBootstrap(program, world);
  registerKeys(program, world);
  registerCredentials(program, world);
  registerPolicy(program, world);
  registerAudit(program, world);
  registerWebhooks(program, world);
  registerMasterKey(program, world);
  registerBackup(program, world);
  registerDoctor(program, world);
  program.commandsGroup('Other:');
  registerCompletion(program, world);
  program.helpCommand('help [command]', 'show the help of a command');
  return examples(program, ['relay serve', 'relay chat', 'relay approvals list', 'relay doctor'], {
    after:
      'The key comes from $RELAY_API_KEY, a profile, or the data folder of a server on this ' +
      'machine; it is never an argument. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not ' +
      'found, 4 not allowed, 5 conflict, 6 server unreachable, 7 the run failed, 130 interrupted.',
  });
}

export function versionOfThis(): string {
  const manifest = readFileSync(new URL('../package.json', import.meta.url), 'utf8');
  return (JSON.parse(manifest) as { version: string }).version;
}
