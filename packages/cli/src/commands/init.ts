import { createInterface } from 'node:readline/promises';
import type { CliCommand, Context } from '../command.ts';
import type { CliEnvironment } from '../environment.ts';
import { CliError } from '../errors.ts';

interface Options {
  readonly yes?: boolean;
  readonly install: boolean;
  readonly packages?: string;
}

export function registerInit(program: CliCommand): void {
  program
    .command('init [folder]')
    .description('make a project with an agent, a tool that needs approval, and a test')
    .option('-y, --yes', 'ask nothing: the folder is my-bot unless it is given')
    .option('--no-install', 'do not install the dependencies')
    .option('--packages <folder>', 'install from the tarballs in this folder, without a registry')
    .examples(['relay init my-bot', 'relay init my-bot --packages ./tarballs'])
    .handle(init);
}

async function init(context: Context<Options>, [folder]: readonly string[]): Promise<void> {
  const { createProject, CreateError } = await import('create-relay');
  const { environment, options } = context;
  const { yes, install, packages } = options;
  try {
    await createProject(
      { folder, yes, install, packages },
      {
        cwd: environment.cwd,
        env: environment.env,
        ask:
          environment.stdin.isTTY === true ? (...asked) => ask(environment, ...asked) : undefined,
        print: (line) => environment.stdout.write(`${line}\n`),
      },
    );
  } catch (error) {
    if (!(error instanceof CreateError)) throw error;
    throw new CliError('init_failed', error.message);
  }
}

async function ask({ stdin, stdout }: CliEnvironment, question: string, fallback: string) {
  const terminal = createInterface({ input: stdin, output: stdout });
  try {
    return (await terminal.question(`${question} (${fallback}) `)).trim() || fallback;
  } finally {
    terminal.close();
  }
}
