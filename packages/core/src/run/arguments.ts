/**
 * The arguments of a call, in one form: they are matched, shown, stored and executed as read here.
 *
 * A tool's schema may add defaults or normalize what a model wrote. That happens once, before rules
 * decide. A schema that would change its own output again has no such form, and its calls are refused.
 */
import { canonicalJson } from '@relay/protocol';
import type { Engine } from '../engine.ts';
import type { PathResolution, ResolvedPaths, Tool } from '../ports/index.ts';
import { errorText, textOfIssues } from './errors.ts';

export type Arguments = Record<string, unknown>;

export type ParsedArguments =
  | { readonly ok: true; readonly input: Arguments; readonly value: unknown }
  | { readonly ok: false; readonly problem: string };

/** Reads arguments by the tool's own schema. It never throws, whatever the schema does. */
export function parseArguments(tool: Tool, given: unknown): ParsedArguments {
  try {
    const first = validated(tool, given);
    if (!first.ok) return first;
    // Keys keep their order, because approvers are shown these arguments.
    const input = JSON.parse(JSON.stringify(first.value)) as unknown;
    if (!isObject(input)) return { ok: false, problem: 'The arguments are not an object' };
    const again = validated(tool, input);
    if (!again.ok || canonicalJson(again.value) !== canonicalJson(input)) {
      return {
        ok: false,
        problem: 'The tool’s schema is not stable: parsing its own output gives a different value',
      };
    }
    return { ok: true, input, value: again.value };
  } catch (error) {
    return { ok: false, problem: errorText(error) };
  }
}

type Validated = { ok: true; value: unknown } | { ok: false; problem: string };

function validated(tool: Tool, given: unknown): Validated {
  const validation = tool.validate(given);
  return validation.ok ? validation : { ok: false, problem: textOfIssues(validation.issues) };
}

export function isObject(value: unknown): value is Arguments {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Resolves the path parameters of a call. A tool that throws refuses the call. */
export async function resolvePaths(
  tool: Tool | undefined,
  input: unknown,
): Promise<PathResolution> {
  if (tool?.resolvePaths === undefined || typeof input !== 'object' || input === null) {
    return { ok: true };
  }
  try {
    return await tool.resolvePaths(input as Readonly<Arguments>);
  } catch (error) {
    return { ok: false, problem: errorText(error) };
  }
}

/** Whether the paths of a call lead where they led when the call was shown. */
export function resolveToSamePaths(
  shown: Readonly<Record<string, string>> = {},
  resolved: ResolvedPaths | undefined,
): boolean {
  const paths = resolved?.paths ?? {};
  const names = new Set([...Object.keys(shown), ...Object.keys(paths)]);
  return [...names].every((name) => shown[name] === paths[name]);
}

interface DigestedCall {
  readonly name: string;
  readonly input: unknown;
  readonly resolvedPaths?: Readonly<Record<string, string>> | undefined;
}

/** What a decision is bound to: the tool, exactly these arguments, and the resolved paths. */
export function digestOfCall(
  engine: Pick<Engine, 'digest'>,
  { name, input, resolvedPaths }: DigestedCall,
): string {
  const paths = resolvedPaths === undefined ? {} : { resolvedPaths };
  return engine.digest(canonicalJson({ tool: name, input, ...paths }));
}

const maxDepth = 64;

/**
 * Whether JSON text nests deeper than any reasonable value. It scans the text, because walking such a
 * value would overflow the stack.
 */
export function isNestedTooDeep(json: string): boolean {
  let depth = 0;
  let inString = false;
  for (let at = 0; at < json.length; at += 1) {
    const char = json[at];
    if (inString) {
      if (char === '\\') at += 1;
      else if (char === '"') inString = false;
    } else if (char === '"') inString = true;
    else if (char === '{' || char === '[') {
      depth += 1;
      if (depth > maxDepth) return true;
    } else if (char === '}' || char === ']') depth -= 1;
  }
  return false;
}
