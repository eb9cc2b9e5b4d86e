/**
 * The tool calls of an agent, as it has announced them so far.
 *
 * An agent tells what it is going to do in several pieces: the request for permission may have the arguments, or
 * only an earlier update (Codex sends the diff of a change before the request, and not with it). What is asked
 * for is therefore the request together with everything that was announced before it.
 *
 * A call is normalised, so that rules, grants and digests match those of the workspace tools:
 *
 *   execute            bash {command, cwd?}; without a command (Codex: tools of MCP servers) as anything else
 *   edit, delete, move patch {filePath, diff}, once for each file
 *   read               read {filePath}
 *   fetch              fetch {url}
 *   anything else      <harness>.<name or title>, with the arguments as they are
 *
 * The normalised input has what the call does, and nothing that changes without changing that, such as its
 * description. What is approved is bound: an update that shows another call is a difference.
 */
import { isAbsolute, relative, resolve, sep } from 'node:path';
import type { ToolCallContent, ToolCallUpdate, ToolKind } from '@agentclientprotocol/sdk';
import { canonicalJson, defined } from '@relay/protocol';
import { diffOf } from './diff.ts';

export type Input = Readonly<Record<string, unknown>>;

/** What an approver decides about. */
export interface NormalisedCall {
  /** As rules name it. */
  readonly tool: string;
  /** Each of them is judged, and all must be allowed. */
  readonly inputs: readonly Input[];
  /** False: what the call would do is not known, so no rule and no grant may allow it. */
  readonly isConcrete: boolean;
  /** What the approver sees beside the call. */
  readonly shown: Input;
}

export interface CallOptions {
  /** The name of the harness. */
  readonly harness: string;
  /** The folder that the agent works in, as a real path. */
  readonly workspace: string;
}

interface Change {
  readonly path: string;
  readonly oldText: string | null;
  readonly newText: string;
}

/** What was announced of a call. */
interface Announced {
  readonly kind: ToolKind | undefined;
  readonly title: string | undefined;
  readonly name: string | undefined;
  readonly raw: Input;
  readonly changes: readonly Change[];
  readonly locations: readonly string[];
}

export type CallPhase = 'announced' | 'completed' | 'failed';

export interface ToolCallRecord {
  readonly id: string;
  readonly announced: Announced;
  readonly phase: CallPhase;
  /** When it was announced, or allowed. */
  readonly since: number;
  /** `withdrawn`: it was allowed, and then changed. */
  readonly permission: 'none' | 'asked' | 'allowed' | 'denied' | 'withdrawn';
  /** What was asked for last. */
  readonly approved?: Announced;
  /** What was reported of it as events. */
  readonly reported: { readonly called: boolean; readonly started: boolean };
  readonly chars: number;
}

const nothing: Announced = {
  kind: undefined,
  title: undefined,
  name: undefined,
  raw: {},
  changes: [],
  locations: [],
};

/** More is forgotten, the oldest first: a call that was forgotten is not concrete. */
const maxCalls = 1_000;
const maxChars = 16 * 1024 * 1024;
/** Nothing that is larger can be shown to an approver. */
export const maxInputChars = 1_000_000;

export class ToolCalls {
  readonly #calls = new Map<string, ToolCallRecord>();
  readonly #openCalls = new Set<string>();
  #chars = 0;

  /** Whether a call was announced and has not ended. Its status does not tell whether it has begun. */
  get isAnyOpen(): boolean {
    return this.#openCalls.size > 0;
  }

  get(id: string): ToolCallRecord | undefined {
    return this.#calls.get(id);
  }

  /** Adds what an update or a request says of a call. */
  merge(update: ToolCallUpdate, now: number): ToolCallRecord {
    const before = this.#calls.get(update.toolCallId);
    const announced = merged(before?.announced ?? nothing, announcedBy(update));
    const ended = update.status === 'completed' || update.status === 'failed';
    return this.#set({
      ...(before ?? {
        id: update.toolCallId,
        phase: 'announced',
        since: now,
        permission: 'none',
        reported: { called: false, started: false },
      }),
      announced,
      ...(ended ? { phase: update.status } : {}),
      chars: sizeOf(announced),
    } as ToolCallRecord);
  }

  change(id: string, change: Partial<Omit<ToolCallRecord, 'id' | 'chars'>>): void {
    const call = this.#calls.get(id);
    if (call !== undefined) this.#set({ ...call, ...change });
  }

  forget(id: string): void {
    this.#chars -= this.#calls.get(id)?.chars ?? 0;
    this.#calls.delete(id);
    this.#openCalls.delete(id);
  }

  /** The turn has ended, and with it all of its calls but those of requests that are still open. */
  clear(open: ReadonlySet<string>): void {
    for (const id of this.#calls.keys()) if (!open.has(id)) this.forget(id);
  }

  #set(call: ToolCallRecord): ToolCallRecord {
    this.#chars += call.chars - (this.#calls.get(call.id)?.chars ?? 0);
    this.#calls.set(call.id, call);
    if (call.phase === 'announced') this.#openCalls.add(call.id);
    else this.#openCalls.delete(call.id);
    for (const id of this.#calls.keys()) {
      if (this.#calls.size <= maxCalls && this.#chars <= maxChars) break;
      if (id !== call.id) this.forget(id);
    }
    return call;
  }
}

function sizeOf({ raw, changes, locations }: Announced): number {
  const texts = changes.map(
    ({ path, oldText, newText }) => path.length + (oldText?.length ?? 0) + newText.length,
  );
  const paths = locations.map((path) => path.length);
  return [...texts, ...paths].reduce((sum, chars) => sum + chars, JSON.stringify(raw).length);
}

export function announcedBy(update: ToolCallUpdate): Announced {
  const { kind, title, name, rawInput, content, locations } = update;
  return {
    kind: kind ?? undefined,
    title: title ?? undefined,
    name: name ?? undefined,
    raw: isObject(rawInput) ? rawInput : {},
    changes: (content ?? []).flatMap(changeIn),
    locations: (locations ?? []).map(({ path }) => path),
  };
}

function changeIn(content: ToolCallContent): Change[] {
  if (content.type !== 'diff') return [];
  return [{ path: content.path, oldText: content.oldText ?? null, newText: content.newText }];
}

/** What comes later replaces what it names. Arguments are added to: agents send them in different shapes. */
function merged(before: Announced, later: Announced): Announced {
  return {
    kind: later.kind ?? before.kind,
    title: later.title ?? before.title,
    name: later.name ?? before.name,
    raw: { ...before.raw, ...later.raw },
    changes: later.changes.length > 0 ? later.changes : before.changes,
    locations: later.locations.length > 0 ? later.locations : before.locations,
  };
}

function isObject(value: unknown): value is Input {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Shown to the approver, and not part of the call. */
const volatile = new Set([
  'description',
  'explanation',
  'justification',
  'reason',
  'title',
  'instruction',
]);

const pathNames = ['filePath', 'file_path', 'filepath', 'path', 'absolute_path', 'notebook_path'];
const folderNames = ['cwd', 'workdir', 'directory', 'dir_path', 'working_directory'];
/** Of a command: they change how it is waited for, not what it does. */
const waitingNames = [
  'timeout',
  'timeoutMs',
  'timeout_ms',
  'run_in_background',
  'is_background',
  'background',
];

export function normalise(announced: Announced, options: CallOptions): NormalisedCall {
  const { kind, raw, title } = announced;
  const shown = { ...defined({ title }), ...picked(raw, volatile) };
  switch (kind) {
    case 'execute':
      return commandCall(announced, options, shown);
    case 'edit':
    case 'delete':
    case 'move':
      return patchCall(announced, options, shown);
    case 'read':
      return readCall(announced, options, shown);
    case 'fetch':
      return fetchCall(announced, options, shown);
    default:
      return otherCall(announced, options, shown);
  }
}

function commandCall(announced: Announced, options: CallOptions, shown: Input): NormalisedCall {
  const { raw } = announced;
  const command = commandIn(raw);
  const cwd = folderIn(raw, options);
  const known = new Set(['command', ...folderNames, ...waitingNames, ...volatile]);
  // Such as a switch that turns off the sandbox: only a person can judge what it means.
  const others = Object.entries(raw).filter(
    ([name, value]) => !known.has(name) && value !== false && value !== null && value !== '',
  );
  const rest = { ...shown, ...picked(raw, new Set(waitingNames)), ...Object.fromEntries(others) };
  if (command === undefined) {
    if (others.length > 0) return otherCall(announced, options, shown);
    // Gemini has it only in the title, which is a text for people.
    const input = { command: announced.title ?? '' };
    return { tool: 'bash', inputs: [input], isConcrete: false, shown: rest };
  }
  const { title, ...noTitle } = rest as { title?: unknown };
  const input = { command, ...defined({ cwd }) };
  return {
    tool: 'bash',
    inputs: [input],
    isConcrete: others.length === 0,
    shown: title === command ? noTitle : rest,
  };
}

/** A list of words is quoted as a shell would read it. */
function commandIn({ command }: Input): string | undefined {
  if (typeof command === 'string') return command === '' ? undefined : command;
  if (!Array.isArray(command) || command.length === 0) return undefined;
  const words = command.filter((word) => typeof word === 'string');
  return words.length < command.length ? undefined : words.map(quoted).join(' ');
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}

/** Undefined if it is the folder of the session. */
function folderIn(raw: Input, options: CallOptions): string | undefined {
  const folder = firstText(raw, folderNames);
  if (folder === undefined) return undefined;
  const path = pathIn(folder, options);
  return path === '.' ? undefined : path;
}

function patchCall(announced: Announced, options: CallOptions, shown: Input): NormalisedCall {
  const paths = pathsOf(announced, options);
  const { title: _title, ...rest } = shown as { title?: unknown };
  if (paths.length === 0 || mixesCommand(announced.raw)) {
    return { tool: 'patch', inputs: [announced.raw], isConcrete: false, shown };
  }
  const diffs = paths.map((filePath) =>
    diffFor(announced, filePath, { ...options, count: paths.length }),
  );
  return {
    tool: 'patch',
    inputs: paths.map((filePath, index) => ({ filePath, ...defined({ diff: diffs[index] }) })),
    isConcrete: diffs.every((diff) => diff !== undefined),
    shown: rest,
  };
}

/** Relative to the session's folder if they are in it; each once. */
export function pathsOf({ raw, changes, locations }: Announced, options: CallOptions): string[] {
  const named = pathNames.flatMap((name) => (typeof raw[name] === 'string' ? [raw[name]] : []));
  const all = [...named, ...changes.map(({ path }) => path), ...locations].filter(
    (path) => path !== '',
  );
  return [...new Set(all.map((path) => pathIn(path, options)))].toSorted();
}

function pathIn(path: string, { workspace }: Pick<CallOptions, 'workspace'>): string {
  const absolute = resolve(workspace, path);
  const inside = relative(workspace, absolute);
  if (inside === '') return '.';
  const isOutside = inside === '..' || inside.startsWith(`..${sep}`) || isAbsolute(inside);
  return isOutside ? absolute : inside;
}

/** What changes in the file: by the diffs, else by the arguments of the edit tools that agents have. */
function diffFor(
  { kind, raw, changes }: Announced,
  filePath: string,
  options: CallOptions & { readonly count: number },
): string | undefined {
  const own = changes.filter(({ path }) => pathIn(path, options) === filePath);
  if (own.length > 0) {
    return own
      .map(({ oldText, newText }) => diffOf(filePath, oldText, newText, kind === 'delete'))
      .join('\n');
  }
  if (kind === 'delete') return diffOf(filePath, '', '', true);
  if (options.count > 1) return undefined;
  const text = firstText(raw, ['diff', 'patch']);
  if (text !== undefined) return text;
  const before = firstText(raw, ['old_string', 'oldString']);
  const after = firstText(raw, ['new_string', 'newString']);
  if (before !== undefined || after !== undefined) {
    return diffOf(filePath, before ?? '', after ?? '');
  }
  const content = raw['content'];
  return typeof content === 'string' ? diffOf(filePath, null, content) : undefined;
}

function readCall(announced: Announced, options: CallOptions, shown: Input): NormalisedCall {
  const paths = pathsOf(announced, options);
  const isConcrete = paths.length > 0 && !mixesCommand(announced.raw);
  const inputs = isConcrete ? paths.map((filePath) => ({ filePath })) : [announced.raw];
  return { tool: 'read', inputs, isConcrete, shown };
}

function fetchCall({ raw }: Announced, _options: CallOptions, shown: Input): NormalisedCall {
  const url = raw['url'];
  const isConcrete = typeof url === 'string' && url !== '' && !mixesCommand(raw);
  return { tool: 'fetch', inputs: [isConcrete ? { url } : raw], isConcrete, shown };
}

/** A call that is named as harmless and has a command is not what its kind says. */
function mixesCommand(raw: Input): boolean {
  return raw['command'] !== undefined;
}

const maxNameChars = 100;

/** The name, where the agent gives one: titles have arguments in them, and no rule could name those. */
function otherCall(
  { raw, name, title }: Announced,
  { harness }: CallOptions,
  shown: Input,
): NormalisedCall {
  const text = (name ?? title ?? 'unknown').replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, ' ').trim();
  const input = Object.fromEntries(Object.entries(raw).filter(([field]) => !volatile.has(field)));
  return {
    tool: `${harness}.${text.slice(0, maxNameChars)}`,
    inputs: [input],
    isConcrete: Object.keys(input).length > 0,
    shown,
  };
}

function firstText(raw: Input, names: readonly string[]): string | undefined {
  const values = names.map((name) => raw[name]);
  return values.find((value): value is string => typeof value === 'string' && value !== '');
}

function picked(raw: Input, names: ReadonlySet<string>): Input {
  return Object.fromEntries(Object.entries(raw).filter(([name]) => names.has(name)));
}

/**
 * What an update shows that differs from what was approved, for people; undefined if it is the same call, or
 * says nothing about it. Agents report a change in other words than they ask for it: an edit of one word
 * becomes the lines around it. So diffs are the same if one contains the other, and are not compared any more
 * when the call has ended: a formatter may have changed the file.
 */
export function differenceOf(
  approved: Announced,
  update: ToolCallUpdate,
  options: CallOptions,
): string | undefined {
  const later = announcedBy(update);
  if (later.kind !== undefined && approved.kind !== undefined && later.kind !== approved.kind) {
    return `the kind ${later.kind} instead of ${approved.kind}`;
  }
  if (approved.kind === 'execute') {
    const [asked, shown] = [commandIn(approved.raw), commandIn(later.raw)];
    if (shown !== undefined && shown !== asked) {
      return `the command ${JSON.stringify(shown)} instead of ${JSON.stringify(asked ?? null)}`;
    }
    const [from, to] = [approved, later].map(({ raw }) => folderIn(raw, options) ?? '.');
    if (firstText(later.raw, folderNames) !== undefined && from !== to) {
      return `the folder ${JSON.stringify(to)} instead of ${JSON.stringify(from)}`;
    }
  } else {
    const asked = pathsOf(approved, options);
    const other = pathsOf(later, options).find((path) => !asked.includes(path));
    if (other !== undefined) return `the file ${JSON.stringify(other)}, which was not asked for`;
    const ended = update.status === 'completed' || update.status === 'failed';
    const changed = ended
      ? undefined
      : later.changes.find((change) => !isKnown(change, approved, options));
    if (changed !== undefined)
      return `another change of ${JSON.stringify(pathIn(changed.path, options))}`;
  }
  const ignored = new Set(['command', ...volatile, ...pathNames, ...folderNames, ...waitingNames]);
  const field = Object.entries(later.raw).find(
    ([name, value]) =>
      !ignored.has(name) &&
      approved.raw[name] !== undefined &&
      canonicalJson(approved.raw[name]) !== canonicalJson(value),
  );
  return field === undefined ? undefined : `another value of ${JSON.stringify(field[0])}`;
}

function isKnown(change: Change, { changes }: Announced, options: CallOptions): boolean {
  const own = changes.filter(({ path }) => pathIn(path, options) === pathIn(change.path, options));
  // Only the path was known, and shown.
  if (own.length === 0) return true;
  const text = change.newText.trimEnd();
  return own.some(({ newText }) => newText.includes(text) || text.includes(newText.trimEnd()));
}
