/** The command, from its words to its exit code. */
import { CommanderError } from 'commander';
import { exitCodes, type Failure, failureOf } from './failures.ts';
import { paintFor } from './paint.ts';
import { createProgram } from './program.ts';
import { visible } from './visible.ts';
import { processWorld, type World } from './world.ts';

export async function runCli(
  args: readonly string[],
  world: World = processWorld(),
): Promise<number> {
  // A reader that has seen enough, such as `head`, is no failure. It may be noticed after the end.
  world.stdout.on('error', leaveQuietly);
  try {
    await createProgram(world).parseAsync([...args], { from: 'user' });
    return exitCodes.ok;
  } catch (error) {
    if (error instanceof CommanderError) {
      if (error.exitCode === 0) return exitCodes.ok;
      complain(world, args, usageFailure(error, args));
      return exitCodes.usage;
    }
    const failure = failureOf(error);
    complain(world, args, failure);
    return failure.exit;
  }
}

function leaveQuietly(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error;
  process.exit(exitCodes.ok);
}

/** One line: what is wrong, its code, and what to do. */
function complain(world: World, args: readonly string[], failure: Failure): void {
  const { error, code, hint } = failure;
  if (error === '') return;
  if (args.includes('--json')) {
    const line = { error, code, ...(hint === undefined ? {} : { hint }) };
    world.stderr.write(`${JSON.stringify(line)}\n`);
    return;
  }
  const paint = paintFor(world, world.stderr);
  const more = hint === undefined ? '' : ` – ${hint}`;
  const text = visible(error).replaceAll('\n', ' ');
  world.stderr.write(`${paint('red', 'relay:')} ${text} [${code}]${more}\n`);
}

function usageFailure(error: CommanderError, args: readonly string[]): Failure {
  const message = error.message.replace(/^error: /, '');
  const { exit, ...usage } = { code: 'usage', exit: exitCodes.usage };
  if (error.code === 'commander.help') return { error: '', ...usage, exit };
  if (
    error.code === 'commander.unknownOption' &&
    args.some((arg) => /^--(api-?)?key\b/.test(arg))
  ) {
    const hint = 'a key is never an argument: set RELAY_API_KEY, or name a --profile';
    return { error: message.split('\n')[0] ?? message, hint, ...usage, exit };
  }
  return { error: message, hint: '--help shows how it is used', ...usage, exit };
}
