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
 * The normalised input has what the call does, and nothing that changes without changing that, such as the
 * description of a command. Which arguments of other tools matter is not known, so all of them are part of it.
 * A call with arguments that the normalised input leaves out is not concrete: they are shown, and a person decides.
 * What is approved is bound: an update that shows another call is a difference.
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
      chars: update.toolCallId.length + sizeOf(announced),
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

function sizeOf({ kind, title = '', name = '', raw, changes, locations }: Announced): number {
  const texts = changes.map(
    ({ path, oldText, newText }) => path.length + (oldText?.length ?? 0) + newText.length,
  );
  const paths = locations.map((path) => path.length);
  // The kind may be any text.
  const named = String(kind).length + title.length + name.length + JSON.stringify(raw).length;
  return [...texts, ...paths].reduce((sum, chars) => sum + chars, named);
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

/** Of commands, files and URLs: shown to the approver, and not part of the call. */
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
/** Which part of a file is read. */
const rangeNames = ['offset', 'limit', 'line', 'start_line', 'end_line', 'view_range', 'pages'];
/** What an agent makes of an answer. */
const answerNames = ['prompt', 'format', 'max_length', 'start_index'];
const beforeNames = ['old_string', 'oldString'];
const afterNames = ['new_string', 'newString'];
const diffNames = ['diff', 'patch'];
const textNames = ['content', ...beforeNames, ...afterNames, ...diffNames];
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
      return otherCall(announced, options);
  }
}

/** The arguments that say more than those with these names, as they are. */
function othersIn(raw: Input, ...known: readonly (readonly string[])[]): Input {
  const names = new Set([...known.flat(), ...volatile]);
  return Object.fromEntries(
    Object.entries(raw).filter(([name, value]) => !names.has(name) && isSaying(value)),
  );
}

function isSaying(value: unknown): boolean {
  return value !== undefined && value !== false && value !== null && value !== '';
}

function isEmpty(input: Input): boolean {
  return Object.keys(input).length === 0;
}

function commandCall(announced: Announced, options: CallOptions, shown: Input): NormalisedCall {
  const { raw } = announced;
  const command = commandIn(raw);
  const folders = foldersIn(raw, options);
  const isOnePlace = folders.length <= 1 && folders.every((folder) => !isExpanded(folder));
  // Such as a switch that turns off the sandbox: only a person can judge what it means.
  const others = {
    ...othersIn(raw, ['command'], isOnePlace ? folderNames : [], waitingNames),
    ...picked(raw, new Set(folderNames), (value) => typeof value !== 'string' && isSaying(value)),
  };
  const rest = { ...shown, ...picked(raw, new Set(waitingNames)), ...others };
  if (command === undefined) {
    if (!isEmpty(others)) return otherCall(announced, options);
    // Gemini has it only in the title, which is a text for people.
    const input = { command: announced.title ?? '' };
    return { tool: 'bash', inputs: [input], isConcrete: false, shown: rest };
  }
  const { title, ...noTitle } = rest as { title?: unknown };
  const input = { command, ...defined({ cwd: folders.find((folder) => folder !== '.') }) };
  return {
    tool: 'bash',
    inputs: [input],
    isConcrete: isEmpty(others),
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

/** Each once; none if it names none. */
function foldersIn(raw: Input, options: CallOptions): string[] {
  const named = folderNames.map((name) => raw[name]).filter((value) => typeof value === 'string');
  return [
    ...new Set(named.filter((folder) => folder !== '').map((folder) => pathIn(folder, options))),
  ];
}

function patchCall(announced: Announced, options: CallOptions, shown: Input): NormalisedCall {
  const { raw } = announced;
  const paths = pathsOf(announced, options);
  const { title: _title, ...rest } = shown as { title?: unknown };
  if (paths.length === 0 || mixesCommand(raw)) {
    return { tool: 'patch', inputs: [raw], isConcrete: false, shown };
  }
  const diffs = paths.map((filePath) =>
    diffFor(announced, filePath, { ...options, count: paths.length }),
  );
  const hidden = {
    ...othersIn(raw, pathNames, textNames),
    ...picked(raw, new Set(['content', ...afterNames]), (value) => isHidden(value, announced)),
  };
  return {
    tool: 'patch',
    inputs: paths.map((filePath, index) => ({ filePath, ...defined({ diff: diffs[index] }) })),
    isConcrete:
      isEmpty(hidden) && diffs.every((diff) => diff !== undefined) && !paths.some(isExpanded),
    shown: { ...rest, ...hidden },
  };
}

/** Whether the diffs, which are what an approver sees, do not have a text of the arguments. */
function isHidden(text: unknown, { changes }: Announced): boolean {
  if (changes.length === 0 || !isSaying(text)) return false;
  return typeof text !== 'string' || !changes.some(({ newText }) => newText.includes(text));
}

/** Relative to the session's folder if they are in it; each once. */
export function pathsOf({ raw, changes, locations }: Announced, options: CallOptions): string[] {
  const named = pathNames.flatMap((name) => (typeof raw[name] === 'string' ? [raw[name]] : []));
  const all = [...named, ...changes.map(({ path }) => path), ...locations].filter(
    (path) => path !== '',
  );
  return [...new Set(all.map((path) => pathIn(path, options)))].toSorted();
}

/** Where it leads is up to the agent. */
function isExpanded(path: string): boolean {
  return /^[~$%]|^\w+:/.test(path);
}

function pathIn(path: string, { workspace }: Pick<CallOptions, 'workspace'>): string {
  const segments = path.split(sep).filter((segment) => segment !== '' && segment !== '.');
  const first = segments.findIndex((segment) => segment !== '..');
  // Where it leads depends on links, so that no rule may allow it (core/src/sessions/agent-tools.ts).
  if (first >= 0 && segments.includes('..', first)) {
    return isAbsolute(path) ? path : `${workspace}${sep}${path}`;
  }
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
  const text = firstText(raw, diffNames);
  if (text !== undefined) return text;
  const change = changeOf(raw, filePath);
  return change && diffOf(filePath, change.oldText, change.newText);
}

/** By the arguments of the edit tools that agents have. */
function changeOf(raw: Input, path: string): Change | undefined {
  const before = firstText(raw, beforeNames);
  const after = firstText(raw, afterNames);
  if (before !== undefined || after !== undefined) {
    return { path, oldText: before ?? '', newText: after ?? '' };
  }
  const content = raw['content'];
  return typeof content === 'string' ? { path, oldText: null, newText: content } : undefined;
}

function readCall(announced: Announced, options: CallOptions, shown: Input): NormalisedCall {
  const { raw, changes } = announced;
  const paths = pathsOf(announced, options);
  const others = othersIn(raw, pathNames, rangeNames);
  const isRead = paths.length > 0 && !mixesCommand(raw);
  return {
    tool: 'read',
    inputs: isRead ? paths.map((filePath) => ({ filePath })) : [raw],
    isConcrete: isRead && isEmpty(others) && changes.length === 0 && !paths.some(isExpanded),
    shown: { ...shown, ...others },
  };
}

function fetchCall({ raw }: Announced, _options: CallOptions, shown: Input): NormalisedCall {
  const url = raw['url'];
  const isFetch = typeof url === 'string' && url !== '' && !mixesCommand(raw);
  // Such as a body that is sent.
  const others = othersIn(raw, ['url'], answerNames, waitingNames);
  return {
    tool: 'fetch',
    inputs: [isFetch ? { url } : raw],
    isConcrete: isFetch && isEmpty(others),
    shown: { ...shown, ...others },
  };
}

/** A call that is named as harmless and has a command is not what its kind says. */
function mixesCommand(raw: Input): boolean {
  return raw['command'] !== undefined;
}

const maxNameChars = 100;

/** The name, where the agent gives one: titles have arguments in them, and no rule could name those. */
function otherCall({ raw, name, title }: Announced, { harness }: CallOptions): NormalisedCall {
  const text = (name ?? title ?? 'unknown').replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, ' ').trim();
  return {
    tool: `${harness}.${text.slice(0, maxNameChars)}`,
    inputs: [raw],
    // Another tool may have a name that begins like this.
    isConcrete: !isEmpty(raw) && text.length <= maxNameChars,
    shown: defined({ title }),
  };
}

function firstText(raw: Input, names: readonly string[]): string | undefined {
  const values = names.map((name) => raw[name]);
  return values.find((value): value is string => typeof value === 'string' && value !== '');
}

function picked(
  raw: Input,
  names: ReadonlySet<string>,
  isPicked: (value: unknown) => boolean = () => true,
): Input {
  return Object.fromEntries(
    Object.entries(raw).filter(([name, value]) => names.has(name) && isPicked(value)),
  );
}

/**
 * What an update shows that differs from what was approved, for people; undefined if it is the same call, or
 * says nothing about it. Agents report a change in other words than they ask for it: an edit of one word
 * becomes the lines around it. So a diff is the same if one of the two is a part of the other. They are not
 * compared any more when the call has ended: a formatter may have changed the file.
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
  if (later.name !== undefined && approved.name !== undefined && later.name !== approved.name) {
    return `the tool ${JSON.stringify(later.name)} instead of ${JSON.stringify(approved.name)}`;
  }
  const ended = update.status === 'completed' || update.status === 'failed';
  if (approved.kind === 'execute') return differenceOfCommand(approved, later, options);
  return (
    differenceOfArguments(approved, later, options) ??
    differenceOfFiles(approved, later, { ...options, ended })
  );
}

function differenceOfCommand(
  approved: Announced,
  later: Announced,
  options: CallOptions,
): string | undefined {
  const [asked, shown] = [commandIn(approved.raw), commandIn(later.raw)];
  if (shown !== undefined && shown !== asked) {
    return `the command ${JSON.stringify(shown)} instead of ${JSON.stringify(asked ?? null)}`;
  }
  const named = foldersIn(approved.raw, options);
  const known = named.length === 0 ? ['.'] : named;
  const to = foldersIn(later.raw, options).find((folder) => !known.includes(folder));
  if (to !== undefined) {
    return `the folder ${JSON.stringify(to)} instead of ${JSON.stringify(known.at(-1))}`;
  }
  return differenceOfArguments(approved, later, options);
}

function differenceOfFiles(
  approved: Announced,
  later: Announced,
  options: CallOptions & { readonly ended: boolean },
): string | undefined {
  const asked = pathsOf(approved, options);
  const other = pathsOf(later, options).find((path) => !asked.includes(path));
  if (other !== undefined) return `the file ${JSON.stringify(other)}, which was not asked for`;
  if (options.ended || !isChanging(approved)) return undefined;
  const [path = ''] = asked;
  const byArguments = asked.length === 1 ? changeOf(later.raw, path) : undefined;
  const changes = [...later.changes, ...(byArguments === undefined ? [] : [byArguments])];
  const changed = changes.find((change) => !isKnown(change, approved, options));
  if (changed === undefined) return undefined;
  return `another change of ${JSON.stringify(pathIn(changed.path, options))}`;
}

function isChanging({ kind }: Announced): boolean {
  return kind === 'edit' || kind === 'delete' || kind === 'move';
}

function differenceOfArguments(
  approved: Announced,
  later: Announced,
  options: CallOptions,
): string | undefined {
  const ignored = new Set(ignoredNames(approved));
  // What an edit does is known by its diffs, and where nothing was known a person has decided nevertheless.
  const isComplete = !isChanging(approved) && normalise(approved, options).isConcrete;
  const field = Object.entries(later.raw).find(([name, value]) => {
    if (ignored.has(name)) return false;
    const asked = approved.raw[name];
    if (asked === undefined) return isComplete && isSaying(value);
    return canonicalJson(asked) !== canonicalJson(value);
  });
  return field === undefined ? undefined : `another value of ${JSON.stringify(field[0])}`;
}

/** What does not say what the call does, or was compared before. */
function ignoredNames({ kind, raw }: Announced): readonly string[] {
  switch (kind) {
    case 'execute':
      return commandIn(raw) === undefined
        ? []
        : ['command', ...volatile, ...folderNames, ...waitingNames];
    case 'edit':
    case 'delete':
    case 'move':
      return [...volatile, ...pathNames, ...textNames.filter((name) => raw[name] === undefined)];
    case 'read':
      return [...volatile, ...pathNames, ...rangeNames];
    case 'fetch':
      return [...volatile, ...answerNames, ...waitingNames];
    default:
      return [];
  }
}

function isKnown(change: Change, approved: Announced, options: CallOptions): boolean {
  const filePath = pathIn(change.path, options);
  const own = approved.changes.filter(({ path }) => pathIn(path, options) === filePath);
  const byArguments = changeOf(approved.raw, filePath);
  const known = own.length === 0 && byArguments !== undefined ? [byArguments] : own;
  // Only the path was known, and shown.
  return known.length === 0 || known.some((each) => isSameChange(each, change));
}

function isSameChange(approved: Change, later: Change): boolean {
  const [asked, shown] = [approved, later].map(({ newText }) => linesEnd(newText));
  if (asked === shown) return true;
  const isPart = shown !== '' && linesEnd(approved.newText).includes(shown ?? '');
  return isPart || isMadeBy(approved, later) || isMadeBy(later, approved);
}

/** The whole has the lines around the part. */
function isMadeBy({ oldText, newText }: Change, whole: Change): boolean {
  const [before, after] = [`${linesEnd(whole.oldText ?? '')}\n`, linesEnd(whole.newText)];
  const old = oldText?.replaceAll('\r\n', '\n') ?? '';
  const now = newText.replaceAll('\r\n', '\n');
  if (old === '' || !before.includes(old)) return false;
  if (linesEnd(before.replaceAll(old, () => now)) === after) return true;
  let same = 0;
  while (same < before.length && before[same] === after[same]) same += 1;
  let at = before.lastIndexOf(old, same);
  for (let tried = 0; at >= 0 && tried < maxPlaces; tried += 1) {
    if (linesEnd(before.slice(0, at) + now + before.slice(at + old.length)) === after) return true;
    at = at === 0 ? -1 : before.lastIndexOf(old, at - 1);
  }
  return false;
}

/** Where the text that is replaced may be. */
const maxPlaces = 20;

/** Agents show the end of a file with and without its line break. */
function linesEnd(text: string): string {
  return text.replaceAll('\r\n', '\n').trimEnd();
}
