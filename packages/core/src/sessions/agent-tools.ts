/**
 * The calls of agents that Relay judges like those of its own tools: shell commands, files and URLs. Rules,
 * grants and digests of `bash`, `patch`, `read` and `fetch` mean the same for both.
 *
 * A path is one of the tenant's workspace. An agent gives it relative to the folder of its session, or as an
 * absolute path; here it becomes relative to the workspace, as rules have it. One that goes back over `..` in
 * the middle is left as it is, and a person is asked: where it leads depends on links.
 */
import { defined } from '@relay/protocol';
import type { PathResolution, Tool, ToolRegistry } from '../ports/index.ts';
import type { ParameterKind } from '../permission/match.ts';
import { normalizePath, relativeTo } from '../permission/path.ts';
import { type Arguments, isObject } from '../run/arguments.ts';

interface KnownTool {
  /** Without this text nothing concrete is known of a call. */
  readonly required: string;
  readonly kinds: Readonly<Record<string, ParameterKind>>;
}

const known: Readonly<Record<string, KnownTool>> = {
  bash: { required: 'command', kinds: { command: 'command', cwd: 'path' } },
  patch: { required: 'filePath', kinds: { filePath: 'path' } },
  read: { required: 'filePath', kinds: { filePath: 'path' } },
  fetch: { required: 'url', kinds: { url: 'url' } },
};

function toolLike(name: string): KnownTool | undefined {
  return Object.hasOwn(known, name) ? known[name] : undefined;
}

export type AgentTool = Pick<
  Tool,
  'needsApproval' | 'kinds' | 'sensitive' | 'resolvePaths' | 'preview'
>;

/**
 * Undefined for a tool that only the agent knows. Paths are those of the workspace; `folder` is that of the
 * session in it, where commands run.
 */
export function agentTool(
  tools: ToolRegistry,
  name: string,
  folder: string | null = null,
): AgentTool | undefined {
  const like = toolLike(name);
  if (like === undefined) return undefined;
  const own = tools.find(name);
  const { resolvePaths: resolve } = own ?? {};
  const inFolder = (input: Arguments): Arguments =>
    name === 'bash' && folder !== null && input['cwd'] === undefined
      ? { ...input, cwd: folder }
      : input;
  const resolvePaths =
    resolve &&
    (async (input: Readonly<Arguments>): Promise<PathResolution> =>
      typeof input[like.required] === 'string' ? resolve(inFolder(input)) : { ok: true });
  return {
    kinds: { ...like.kinds, ...own?.kinds },
    sensitive: own?.sensitive ?? Object.keys(like.kinds),
    ...defined({
      needsApproval: own?.needsApproval,
      resolvePaths,
      // An agent makes the changes of its `patch` itself, from other arguments.
      preview: name === 'patch' ? undefined : own?.preview,
    }),
  };
}

interface Place {
  /** Of the session, in the workspace. */
  readonly folder: string | null;
  /** The tenant's workspace; undefined if there is none. */
  readonly root: string | undefined;
}

/** The arguments as rules read them. Not concrete: no rule may allow the call. */
export function readArguments(
  name: string,
  input: unknown,
  place: Place,
): { readonly input: unknown; readonly isConcrete: boolean } {
  if (!isObject(input)) return { input, isConcrete: false };
  const { required } = toolLike(name) ?? {};
  if (required !== undefined && typeof input[required] !== 'string') {
    return { input, isConcrete: false };
  }
  let isConcrete = true;
  const read = withPaths(name, input, (path) => {
    const relative = pathIn(path, place);
    if (relative === undefined) isConcrete = false;
    return relative ?? path;
  });
  return { input: read, isConcrete };
}

/** Arguments whose paths are those of the workspace, for a program in any folder. */
export function withAbsolutePaths(
  name: string,
  input: Arguments,
  root: string | undefined,
): Arguments {
  if (root === undefined) return input;
  return withPaths(name, input, (path) => (path.startsWith('/') ? path : `${root}/${path}`));
}

function withPaths(name: string, input: Arguments, change: (path: string) => string): Arguments {
  const { kinds = {} } = toolLike(name) ?? {};
  const entries = Object.entries(input).map(([parameter, value]) => {
    const isPath = kinds[parameter] === 'path' && typeof value === 'string';
    return [parameter, isPath ? change(value) : value];
  });
  return Object.fromEntries(entries);
}

/** Relative to the workspace, if it lies inside. Undefined if links decide where it leads. */
function pathIn(path: string, { folder, root }: Place): string | undefined {
  const segments = path.split('/').filter((segment) => segment !== '' && segment !== '.');
  const first = segments.findIndex((segment) => segment !== '..');
  if (first >= 0 && segments.includes('..', first)) return undefined;
  if (root === undefined) return path;
  const absolute = path.startsWith('/') ? path : `${root}/${folder ?? '.'}/${path}`;
  return relativeTo(root, normalizePath(absolute));
}
