/** Where the path parameters of calls lead now. Whatever goes wrong with that is a reason to refuse the call. */
import type { ResolvedPaths, Locating, Tool } from '../ports/index.ts';
import { textOfError } from './error-text.ts';

export async function locate(tool: Tool | undefined, input: unknown): Promise<Locating> {
  if (tool?.locate === undefined || typeof input !== 'object' || input === null) {
    return { ok: true };
  }
  try {
    return await tool.locate(input as Readonly<Record<string, unknown>>);
  } catch (error) {
    return { ok: false, problem: textOfError(error) };
  }
}

/** Whether a call still leads where it led when it was shown. */
export function leadsThere(
  shown: Readonly<Record<string, string>> | undefined,
  now: ResolvedPaths | undefined,
): boolean {
  const [then, paths] = [shown ?? {}, now?.paths ?? {}];
  const names = new Set([...Object.keys(then), ...Object.keys(paths)]);
  return [...names].every((name) => then[name] === paths[name]);
}
