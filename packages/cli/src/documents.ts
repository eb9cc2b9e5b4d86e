/** A JSON object from a file, or from whoever pipes it in. */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { usageError } from './failures.ts';
import type { World } from './world.ts';

/** No document that is sent from here is longer: a body of the API has at most 1 MB. */
const longest = 1024 * 1024;

/** `-`, or nothing where something is piped in: standard input. */
export async function readDocument(
  world: World,
  path: string | undefined,
): Promise<Record<string, unknown>> {
  if (path === undefined && world.stdin.isTTY === true) throw nothingGiven();
  const from = path === undefined || path === '-' ? undefined : path;
  const where = from ?? 'Standard input';
  const text = from === undefined ? await piped(world) : read(resolve(world.cwd, from));
  if (text.trim() === '') throw nothingGiven();
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw usageError(`${where} is not JSON: ${error instanceof Error ? error.message : 'unread'}`);
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return value as Record<string, unknown>;
  }
  throw usageError(`${where} must hold a JSON object`);
}

function nothingGiven(): Error {
  return usageError('Nothing was given', 'name a file, or pipe it in');
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw usageError(
      code === 'ENOENT' ? `There is no file ${path}` : `${path} cannot be read (${code})`,
    );
  }
}

async function piped({ stdin }: World): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const chunk of stdin) {
    text += typeof chunk === 'string' ? chunk : decoder.decode(chunk as Buffer, { stream: true });
    if (text.length > longest) throw usageError('What was piped in is too long');
  }
  return text + decoder.decode();
}
