/** Runs the CLI: from its arguments to its exit code. */
import { CommanderError } from 'commander';
import { type CliEnvironment, processEnvironment, relay } from './environment.ts';
import { exitCodes, type Failure, failureOf } from './errors.ts';
import { paintFor } from './output/paint.ts';
import { escapeLine, escapeUnsafe } from './output/escape.ts';
import { createProgram } from './program.ts';

export async function runCli(
  args: readonly string[],
  environment: CliEnvironment = processEnvironment(),
): Promise<number> {
  // A reader that closes the pipe early, such as `head`, is not an error.
  environment.stdout.on('error', exitOnClosedPipe);
  try {
    await createProgram(environment).parseAsync([...args], { from: 'user' });
    return exitCodes.ok;
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return exitCodes.ok;
    const failure = error instanceof CommanderError ? usageFailure(error, args) : failureOf(error);
    if (failure !== undefined) printFailure(environment, args, failure);
    return failure?.exit ?? exitCodes.usage;
  }
}

function exitOnClosedPipe(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error;
  process.exit(exitCodes.ok);
}

/** One line: what is wrong, its code, and how to fix it. */
function printFailure(
  environment: CliEnvironment,
  args: readonly string[],
  { error, code, hint, candidates, excerpt }: Failure,
): void {
  if (args.includes('--json')) {
    environment.stderr.write(`${JSON.stringify({ error, code, hint, candidates, excerpt })}\n`);
    return;
  }
  const paint = paintFor(environment, environment.stderr);
  const more = hint === undefined ? '' : ` – ${hint}`;
  const text = escapeUnsafe(error).replaceAll('\n', ' ');
  environment.stderr.write(`${paint('red', 'relay:')} ${text} [${code}]${more}\n`);
  if (excerpt !== undefined) environment.stderr.write(`\n${escapeUnsafe(excerpt)}\n\n`);
  for (const each of candidates ?? []) environment.stderr.write(`  ${escapeLine(each)}\n`);
}

/** `undefined`: commander has printed the help of a command that lacks its subcommand. */
function usageFailure(error: CommanderError, args: readonly string[]): Failure | undefined {
  if (error.code === 'commander.help') return undefined;
  const message = error.message.replace(/^error: /, '');
  const usage = { code: 'usage', exit: exitCodes.usage };
  const isKey =
    error.code === 'commander.unknownOption' && args.some((arg) => /^--(api-?)?key\b/.test(arg));
  if (error.code === 'commander.unknownCommand') {
    return { error: message, hint: `"${relay} help" lists all commands`, ...usage };
  }
  if (!isKey) return { error: message, hint: 'run the command with --help', ...usage };
  const hint = 'a key is never an argument: set RELAY_API_KEY, or use --profile';
  return { error: message.split('\n')[0] ?? message, hint, ...usage };
}
