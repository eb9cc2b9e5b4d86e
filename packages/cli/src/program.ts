/** The command tree. It loads no SDK and no server, so that help is fast. */
import { readFileSync } from 'node:fs';
import { registerActions } from './commands/agents/actions.ts';
import { registerAgents } from './commands/agents/agents.ts';
import { registerApprovals } from './commands/agents/approvals.ts';
import { registerAudit } from './commands/server/audit.ts';
import { registerBackup } from './commands/server/backup.ts';
import { registerBootstrap } from './commands/server/bootstrap.ts';
import { registerChannels } from './commands/agents/channels.ts';
import { registerChat } from './commands/agents/chat.ts';
import { registerCompletion } from './commands/completion.ts';
import { registerConsole } from './commands/server/console.ts';
import { registerConversations } from './commands/agents/conversations.ts';
import { registerCredentials } from './commands/server/credentials.ts';
import { registerDev } from './commands/project/dev.ts';
import { registerDoctor } from './commands/server/doctor.ts';
import { registerExplain } from './commands/agents/explain.ts';
import { registerInit } from './commands/project/init.ts';
import { registerGrants } from './commands/agents/grants.ts';
import { registerKeys } from './commands/server/keys.ts';
import { registerLogin } from './commands/sign-in/login.ts';
import { registerMasterKey } from './commands/server/master-key.ts';
import { registerMemories } from './commands/agents/memories.ts';
import { registerMessages } from './commands/agents/messages.ts';
import { registerModels } from './commands/server/models.ts';
import { registerPause } from './commands/server/pause.ts';
import { registerPolicy } from './commands/server/policy.ts';
import { registerProfile } from './commands/sign-in/profile.ts';
import { registerRuns } from './commands/agents/runs.ts';
import { registerServe } from './commands/server/serve.ts';
import { registerSessions } from './commands/agents/sessions.ts';
import { registerStatus } from './commands/sign-in/status.ts';
import { registerTools } from './commands/agents/tools.ts';
import { registerUsage } from './commands/server/usage.ts';
import { registerWebhooks } from './commands/server/webhooks.ts';
import { CliCommand } from './command.ts';
import { type CliEnvironment, terminalWidth } from './environment.ts';

export function createProgram(environment: CliEnvironment): CliCommand {
  const program = new CliCommand(environment, 'relay')
    .description('Run AI agents durably, with human approval for tool calls')
    .version(cliVersion(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'show this help')
    .option('--url <url>', 'server to use (default: $RELAY_URL, or the one that runs here)')
    .option('--profile <name>', 'profile with a server and its key (or $RELAY_PROFILE)')
    .option('--json', 'print one JSON value per line')
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => void environment.stdout.write(text),
      writeErr: (text) => void environment.stderr.write(text),
      getOutHelpWidth: () => terminalWidth(environment.stdout),
      getErrHelpWidth: () => terminalWidth(environment.stderr),
      // `runCli` prints all errors in one format.
      outputError: () => {},
    })
    .exitOverride();
  program.commandsGroup('Use agents:');
  registerChat(program);
  registerConversations(program);
  registerRuns(program);
  registerAgents(program);
  registerSessions(program);
  registerMessages(program);
  registerChannels(program);
  registerActions(program);
  registerApprovals(program);
  registerGrants(program);
  registerTools(program);
  registerExplain(program);
  registerMemories(program);
  program.commandsGroup('Sign in:');
  registerLogin(program);
  registerProfile(program);
  registerStatus(program);
  program.commandsGroup('Work on a project:');
  registerInit(program);
  registerDev(program);
  program.commandsGroup('Operate a server:');
  registerServe(program);
  registerConsole(program);
  registerBootstrap(program);
  registerKeys(program);
  registerCredentials(program);
  registerModels(program);
  registerUsage(program);
  registerPause(program);
  registerPolicy(program);
  registerAudit(program);
  registerWebhooks(program);
  registerMasterKey(program);
  registerBackup(program);
  registerDoctor(program);
  program.commandsGroup('Other:');
  registerCompletion(program);
  program.helpCommand('help [command]', 'show help for a command');
  return program.examples(
    ['relay serve', 'relay chat', 'relay approvals list', 'relay doctor'],
    'The API key comes from $RELAY_API_KEY, "relay login", or the data folder of a server on this ' +
      'machine; it is never an argument. Exit codes: 0 success, 1 failure, 2 usage error, 3 not ' +
      'found, 4 not allowed, 5 conflict, 6 server unreachable, 7 run failed, 8 waiting for ' +
      'approval, 124 timeout, 130 interrupted.',
  );
}

export function cliVersion(): string {
  const manifest = readFileSync(new URL('../package.json', import.meta.url), 'utf8');
  return (JSON.parse(manifest) as { version: string }).version;
}
