/** Input from a person, a file or a pipe: JSON documents, secrets and confirmations. */
import { readFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Context } from './command.ts';
import type { CliEnvironment } from './environment.ts';
import { CliError, exitCodes, usageError } from './errors.ts';

/** The API accepts bodies of at most 1 MB. */
const maxDocumentLength = 1024 * 1024;
const maxSecretLength = 64 * 1024;

/** Reads a JSON object from a file, or from standard input if `path` is `-` or missing. */
export async function readDocument(
  environment: CliEnvironment,
  path: string | undefined,
): Promise<Record<string, unknown>> {
  if (path === undefined && environment.stdin.isTTY === true) throw noDocument();
  const isFile = path !== undefined && path !== '-';
  const text = isFile
    ? readFile(resolve(environment.cwd, path))
    : await readStdin(environment, maxDocumentLength);
  if (text.trim() === '') throw noDocument();
  const source = isFile ? path : 'Standard input';
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw usageError(`${source} is not JSON: ${(error as Error).message}`);
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return value as Record<string, unknown>;
  }
  throw usageError(`${source} must contain a JSON object`);
}

function noDocument(): Error {
  return usageError('No input', 'pass a file name, or pipe JSON to standard input');
}

export function readFile(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw cannotRead(path, error);
  }
}

/** The lines of a file of any size. */
export async function readLines(path: string): Promise<AsyncIterable<string>> {
  try {
    return (await open(path)).readLines();
  } catch (error) {
    throw cannotRead(path, error);
  }
}

function cannotRead(path: string, error: unknown): CliError {
  const { code } = error as NodeJS.ErrnoException;
  return usageError(
    code === 'ENOENT' ? `No such file: ${path}` : `${path} cannot be read (${code})`,
  );
}

export async function readStdin({ stdin }: CliEnvironment, maxLength: number): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const chunk of stdin) {
    text += typeof chunk === 'string' ? chunk : decoder.decode(chunk as Buffer, { stream: true });
    if (text.length > maxLength) {
      throw usageError(`Standard input has more than ${maxLength.toLocaleString('en')} characters`);
    }
  }
  return text + decoder.decode();
}

/** Reads a secret from a prompt that does not echo it, or from a pipe. */
export async function readSecret(environment: CliEnvironment, question: string): Promise<string> {
  const isTyped = environment.stdin.isTTY === true;
  const secret = isTyped
    ? await promptSecret(environment, question)
    : await readStdin(environment, maxSecretLength);
  if (secret.trim() === '') throw usageError('No secret was given');
  return secret.trim();
}

async function promptSecret(environment: CliEnvironment, question: string): Promise<string> {
  const { isCancel, password } = await import('@clack/prompts');
  const answer = await password({
    message: question,
    input: environment.stdin,
    output: environment.stderr,
    clearOnError: true,
  });
  if (isCancel(answer)) {
    throw new CliError('interrupted', 'Nothing was changed', { exit: exitCodes.interrupted });
  }
  return answer;
}

/** Asks before an irreversible action. Without a terminal the answer is no. */
export async function confirmed(environment: CliEnvironment, question: string): Promise<boolean> {
  if (environment.stdin.isTTY !== true) return false;
  const { confirm } = await import('@clack/prompts');
  const answer = await confirm({
    message: question,
    initialValue: false,
    input: environment.stdin,
    output: environment.stderr,
  });
  return answer === true;
}

/** Throws unless the person agrees, or has agreed by `--yes`. */
export async function confirmDeletion(
  context: Pick<Context<{ readonly yes?: boolean }>, 'environment' | 'options'>,
  what: string,
): Promise<void> {
  const { environment, options } = context;
  if (options.yes === true) return;
  if (environment.stdin.isTTY !== true) {
    throw usageError(`This deletes ${what}`, 'confirm with --yes');
  }
  if (await confirmed(environment, `Delete ${what}?`)) return;
  throw new CliError('interrupted', 'Nothing was deleted', { exit: exitCodes.interrupted });
}
