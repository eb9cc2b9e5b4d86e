import type { CliCommand, Context } from '../../command.ts';
import { type ServeOptions, serverOptions } from '../server/serve.ts';

export function registerDev(program: CliCommand): void {
  serverOptions(program.command('dev'))
    .description('start a server that restarts when its configuration changes')
    .examples(
      ['relay dev', 'relay dev --port 4100'],
      'Watches relay.config.ts, the files it imports, and .env. Runs continue after a restart. ' +
        'Provider keys come from the environment or .env (OPENAI_API_KEY, ANTHROPIC_API_KEY, ' +
        'GEMINI_API_KEY).',
    )
    .handle(dev);
}

async function dev({ environment, options }: Context<ServeOptions>): Promise<void> {
  const { DevServer } = await import('../../dev/dev-server.ts');
  const { host, port, dataDir } = options;
  const args = Object.entries({ '--host': host, '--port': port, '--data-dir': dataDir });
  // A closed terminal does not end it: it waits for the server, which waits for its tools.
  environment.stdout.removeAllListeners('error').on('error', () => {});
  const server = new DevServer({
    args: args.flatMap(([name, value]) => (value === undefined ? [] : [name, value])),
    env: environment.env,
    cwd: environment.cwd,
    print: (line) => environment.stdout.write(`${line}\n`),
  });
  // A terminal sends Ctrl-C to both processes: the server takes both signals as one.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => server.stop(signal));
  }
  process.exitCode = await server.run();
}
