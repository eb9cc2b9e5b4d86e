import { Option } from 'commander';
import type { CliCommand, Context } from '../../command.ts';
import { CliError } from '../../errors.ts';
import { tellDev } from '../../dev/messages.ts';
import { port } from '../../options.ts';
import { relay } from '../../environment.ts';

export interface ServeOptions {
  readonly host?: string;
  readonly port?: string;
  readonly dataDir?: string;
  readonly development?: boolean;
}

export function registerServe(program: CliCommand): void {
  serverOptions(program.command('serve'))
    .description('start a server')
    .addOption(new Option('--development', 'read .env, and provider keys from it').hideHelp())
    .examples(
      ['relay serve', 'relay serve --port 4100 --data-dir /var/lib/relay'],
      'Other settings: environment variables, and relay.config.ts in the current folder.',
    )
    .handle(serve);
}

export function serverOptions(command: CliCommand): CliCommand {
  return command
    .option('--host <address>', 'address to listen on (or $RELAY_HOST)')
    .option('--port <port>', 'port to listen on (or $RELAY_PORT)', port)
    .option('--data-dir <folder>', 'data folder (or $RELAY_DATA_DIR)');
}

async function serve({ environment, options }: Context<ServeOptions>): Promise<void> {
  const { explainStartError, serveProcess, startErrorExcerpt } = await import('@relay/server');
  const { host, dataDir, development } = options;
  const { env, cwd } = environment;
  const overrides = {
    RELAY_HOST: host ?? env['RELAY_HOST'],
    RELAY_PORT: options.port ?? env['RELAY_PORT'],
    RELAY_DATA_DIR: dataDir ?? env['RELAY_DATA_DIR'],
  };
  try {
    const serving = serveProcess({
      env: { ...env, ...overrides },
      cwd,
      ...(development && { development }),
    });
    if (development === true) {
      // Not earlier: before `serveProcess` handles signals, they must end the process.
      for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
        process.once(signal, () => tellDev({ stopping: true }));
      }
    }
    await serving;
    if (development === true) tellDev({ listening: true });
  } catch (error) {
    const reason = explainStartError(error);
    if (reason === undefined) throw error;
    const hint = `run "${relay} doctor" for a diagnosis`;
    throw new CliError('start_failed', reason, { hint, excerpt: startErrorExcerpt(error) });
  }
}
