/** A secret from whoever has it: typed where nothing shows it, or piped in. */
import { CliError, exitCodes, usageError } from './failures.ts';
import type { World } from './world.ts';

export async function readSecret(world: World, question: string): Promise<string> {
  const secret = world.stdin.isTTY === true ? await typed(world, question) : await piped(world);
  if (secret === '') throw usageError('Nothing was given');
  return secret;
}

async function typed(world: World, question: string): Promise<string> {
  const { isCancel, password } = await import('@clack/prompts');
  const answer = await password({
    message: question,
    input: world.stdin,
    output: world.stderr,
    clearOnError: true,
  });
  if (isCancel(answer)) {
    throw new CliError('interrupted', 'Nothing was changed', { exit: exitCodes.interrupted });
  }
  return answer.trim();
}

/** No secret is that long; whatever is was piped in by mistake. */
const longest = 64 * 1024;

async function piped({ stdin }: World): Promise<string> {
  let text = '';
  for await (const chunk of stdin) {
    text += String(chunk);
    if (text.length > longest) throw usageError('What was piped in is too long for a secret');
  }
  return text.trim();
}

/** Whether to go on with what cannot be taken back. Nobody there to ask: no. */
export async function confirmed(world: World, question: string): Promise<boolean> {
  if (world.stdin.isTTY !== true) return false;
  const { confirm } = await import('@clack/prompts');
  const answer = await confirm({
    message: question,
    initialValue: false,
    input: world.stdin,
    output: world.stderr,
  });
  return answer === true;
}
