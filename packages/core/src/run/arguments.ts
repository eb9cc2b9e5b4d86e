/**
 * The arguments of a call, in one form: they are matched, shown, stored and executed as read here.
 *
 * A tool's schema may add defaults or normalize what a model wrote. That happens once, before rules
 * decide. A schema that would change its own output again has no such form, and its calls are refused.
 */
import { canonicalJson, defined, type FieldIssue, type Preview } from '@relay/protocol';
import type { Engine } from '../engine.ts';
import type { PathResolution, ResolvedPaths, Tool } from '../ports/index.ts';
import { relativeTo } from '../permission/path.ts';
import { errorText, textOfIssues } from './errors.ts';

export type Arguments = Record<string, unknown>;

export type ParsedArguments =
  | { readonly ok: true; readonly input: Arguments; readonly value: unknown }
  | Refused;

/** `problem` is the issues as one text. */
interface Refused {
  readonly ok: false;
  readonly problem: string;
  readonly issues: readonly FieldIssue[];
}

/** Reads arguments by the tool's own schema. It never throws, whatever the schema does. */
export function parseArguments(tool: Tool, given: unknown): ParsedArguments {
  try {
    const first = validated(tool, given);
    if (!first.ok) return first;
    // Keys keep their order, because approvers are shown these arguments.
    const input = JSON.parse(JSON.stringify(first.value)) as unknown;
    if (!isObject(input)) return refused('The arguments are not an object');
    const again = validated(tool, input);
    if (!again.ok || canonicalJson(again.value) !== canonicalJson(input)) {
      return refused(
        'The tool’s schema is not stable: parsing its own output gives a different value',
      );
    }
    return { ok: true, input, value: again.value };
  } catch (error) {
    return refused(errorText(error));
  }
}

function refused(problem: string): Refused {
  return { ok: false, problem, issues: [{ path: '', message: problem }] };
}

function validated(tool: Tool, given: unknown): { ok: true; value: unknown } | Refused {
  const validation = tool.validate(given);
  if (validation.ok) return validation;
  const { issues } = validation;
  return { ok: false, problem: textOfIssues(issues), issues };
}

/** What a tool passes on, so that another system executes each call once. */
export function idempotencyKeyOf(runId: string, toolCallId: string): string {
  return `${runId}:${toolCallId}`;
}

export function isObject(value: unknown): value is Arguments {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Resolves the path parameters of a call. A tool that throws refuses the call. */
export async function resolvePaths(
  tool: Pick<Tool, 'resolvePaths'> | undefined,
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

/** What an approver is shown of a call besides its arguments; undefined if there is nothing to add. */
export async function previewCall(
  tool: Pick<Tool, 'preview'> | undefined,
  input: unknown,
  resolvedPaths: ResolvedPaths | undefined,
): Promise<Preview | undefined> {
  if (tool === undefined || !isObject(input)) return undefined;
  const preview = await previewOf(tool, input, resolvedPaths?.paths ?? {});
  const links = [...linksOf(input, resolvedPaths), ...(preview.links ?? [])];
  const { diff, execution, digest } = preview;
  const all = defined({
    links: links.length === 0 ? undefined : links,
    diff,
    execution,
    digest,
  });
  return Object.keys(all).length === 0 ? undefined : all;
}

async function previewOf(
  tool: Pick<Tool, 'preview'>,
  input: Arguments,
  paths: ResolvedPaths['paths'],
): Promise<Preview> {
  try {
    return (await tool.preview?.(input, paths)) ?? {};
  } catch (error) {
    return { diff: `There is no preview of this call: ${errorText(error)}` };
  }
}

/** The path parameters that links or `..` lead elsewhere than their text says. */
function linksOf(input: Arguments, resolved: ResolvedPaths | undefined): Preview['links'] & {} {
  const { root = '', paths = {} } = resolved ?? {};
  return Object.entries(paths).flatMap(([name, target]) => {
    const path = Object.hasOwn(input, name) ? input[name] : undefined;
    const shown = relativeTo(root, target);
    if (typeof path !== 'string') return [];
    return isSameText(path, shown) || isSameText(path, target)
      ? []
      : [{ name, path, target: shown }];
  });
}

/** Apart from `.` and repeated slashes, which nobody misreads. */
function isSameText(path: string, target: string): boolean {
  const parts = (text: string) => text.split('/').filter((part) => part !== '' && part !== '.');
  return path.startsWith('/') === target.startsWith('/') && samePartsAs(parts(path), parts(target));
}

function samePartsAs(some: readonly string[], others: readonly string[]): boolean {
  return some.length === others.length && some.every((part, at) => part === others[at]);
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
  readonly preview?: Preview | undefined;
}

/** What a decision is bound to: the tool, exactly these arguments, and what was shown with them. */
export function digestOfCall(
  engine: Pick<Engine, 'digest'>,
  { name, input, resolvedPaths, preview }: DigestedCall,
): string {
  const shown = defined({ resolvedPaths, preview: preview?.digest });
  return engine.digest(canonicalJson({ tool: name, input, ...shown }));
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
