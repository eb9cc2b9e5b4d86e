import type { Command } from 'commander';
import { acting, type Call } from '../call.ts';
import { CliError } from '../failures.ts';
import { examples } from '../help.ts';
import type { World } from '../world.ts';

interface Options {
  readonly host?: string;
  readonly port?: string;
  readonly dataDir?: string;
}

export function registerServe(program: Command, world: World): void {
  const command = program
    .command('serve')
    .description('start a server here')
    .option('--host <address>', 'where it listens (or $RELAY_HOST)')
    .option('--port <port>', 'on which port (or $RELAY_PORT)')
    .option('--data-dir <folder>', 'what it keeps (or $RELAY_DATA_DIR)')
    .action(acting(world, serve));
  examples(command, ['relay serve', 'relay serve --port 4100 --data-dir /var/lib/relay'], {
    after: 'The other settings are environment variables, and relay.config.ts in this folder.',
  });
}

async function serve({ world, options }: Call<Options>): Promise<void> {
  const { explainStartError, serveProcess } = await import('@relay/server');
  const { host, port, dataDir } = options;
  const env = {
    ...world.env,
    ...(host === undefined ? {} : { RELAY_HOST: host }),
    ...(port === undefined ? {} : { RELAY_PORT: port }),
    ...(dataDir === undefined ? {} : { RELAY_DATA_DIR: dataDir }),
  };
  try {
    await serveProcess({ env, cwd: world.cwd });
  } catch (error) {
    const why = explainStartError(error);
    if (why === undefined) throw error;
    throw new CliError('start_failed', why, { hint: '"relay doctor" looks closer' });
  }
}
