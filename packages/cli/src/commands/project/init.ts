import type { CliCommand, Context } from '../../command.ts';
import { CliError, exitCodes } from '../../errors.ts';

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
  const { cwd, env, stdin, stdout } = environment;
  const { yes, install, packages } = options;
  try {
    await createProject(
      { folder, yes, install, packages },
      {
        cwd,
        env,
        terminal: stdin.isTTY === true ? { input: stdin, output: stdout } : undefined,
        print: (line) => stdout.write(`${line}\n`),
      },
    );
  } catch (error) {
    if (!(error instanceof CreateError)) throw error;
    const exit = error.exitCode;
    const code = exit === exitCodes.interrupted ? 'interrupted' : 'init_failed';
    throw new CliError(code, error.message, { exit });
  }
}
