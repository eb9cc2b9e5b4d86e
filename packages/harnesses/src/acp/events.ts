/** What an agent reports, as events of its session. Pure: the session stores and emits. */
import type { ContentBlock, ToolCallUpdate } from '@agentclientprotocol/sdk';
import { type AgentSessionEvent, defined } from '@relay/protocol';
import { diffOf } from './diff.ts';
import { type CallOptions, normalise, pathsOf, type ToolCallRecord } from './tool-calls.ts';

const maxChunkChars = 4 * 1024;
/** How long text is collected. */
export const chunkMs = 250;

interface Speech {
  /** Of the message; one without an id is that of its place in the conversation. */
  readonly id: string;
  readonly isThought: boolean;
}

/** Joins the pieces of a text to chunks: many arrive per second, and each event is stored. */
export class TranscriptBuffer {
  #speech: Speech | undefined;
  #text = '';
  #sequence = 0;
  #messages = 0;

  get isEmpty(): boolean {
    return this.#text === '';
  }

  /** The chunks that are complete. */
  add(
    piece: {
      readonly text: string;
      readonly messageId?: string | undefined;
      readonly isThought: boolean;
    },
    now: number,
  ): AgentSessionEvent[] {
    const { text, messageId, isThought } = piece;
    const before = this.#speech;
    const isSame =
      before !== undefined &&
      before.isThought === isThought &&
      (messageId === undefined ? before.id.startsWith(unnamed) : before.id === messageId);
    const events = isSame ? [] : this.end(now);
    if (!isSame) {
      this.#messages += 1;
      this.#speech = { id: messageId ?? `${unnamed}${this.#messages}`, isThought };
    }
    this.#text += text;
    while (this.#text.length >= maxChunkChars) events.push(...this.#take(cutAt(this.#text), now));
    return events;
  }

  /** What is left, now: the message may go on. */
  flush(now: number): AgentSessionEvent[] {
    return this.#text === '' ? [] : this.#take(this.#text.length, now);
  }

  /** At a boundary: what follows is another message. */
  end(now: number): AgentSessionEvent[] {
    const events = this.flush(now);
    this.#speech = undefined;
    this.#sequence = 0;
    return events;
  }

  #take(length: number, now: number): AgentSessionEvent[] {
    const content = this.#text.slice(0, length);
    this.#text = this.#text.slice(length);
    const { id = '', isThought = false } = this.#speech ?? {};
    this.#sequence += 1;
    const chunk = {
      id,
      at: new Date(now),
      role: 'agent',
      content,
      sequence: this.#sequence,
      ...(isThought ? { metadata: { thought: true } } : {}),
    } as const;
    return [{ type: 'transcript.chunk', chunk }];
  }
}

const unnamed = 'message-';

/** Not between the halves of a character. */
function cutAt(text: string): number {
  const code = text.charCodeAt(maxChunkChars - 1);
  return code >= 0xd800 && code <= 0xdbff ? maxChunkChars - 1 : maxChunkChars;
}

/** What is shown of content in a transcript. */
export function textOf(content: ContentBlock): string {
  switch (content.type) {
    case 'text':
      return content.text;
    case 'image':
    case 'audio':
      return `[${content.type}: ${content.mimeType}]`;
    case 'resource_link':
      return `[${content.name}](${content.uri})`;
    case 'resource':
      return 'text' in content.resource ? content.resource.text : `[${content.resource.uri}]`;
  }
}

export interface ReportOptions extends CallOptions {
  readonly now: number;
}

interface Report {
  readonly events: readonly AgentSessionEvent[];
  readonly reported: ToolCallRecord['reported'];
}

/** The call was announced, once it is known what it does. */
export function reportCall(call: ToolCallRecord, options: ReportOptions, isKnown = false): Report {
  const { reported } = call;
  const { tool, inputs, isConcrete } = normalise(call.announced, options);
  if (reported.called || !(isConcrete || isKnown)) return { events: [], reported };
  const input = inputs.length === 1 ? inputs[0] : inputs;
  return {
    events: [{ type: 'tool.called', tool, input }],
    reported: { ...reported, called: true },
  };
}

/** A command runs when it is allowed. One that is not asked for is only known to have run when it ends. */
export function reportStart(call: ToolCallRecord, options: ReportOptions): Report {
  const { reported } = call;
  const command = commandOf(call, options);
  if (reported.started || command === undefined) return { events: [], reported };
  return {
    events: [{ type: 'command.started', ...command }],
    reported: { ...reported, started: true },
  };
}

/** `update`: the one with which the call has ended. */
export function reportEnd(
  call: ToolCallRecord,
  update: ToolCallUpdate,
  options: ReportOptions,
): Report {
  const { announced, phase, permission, since } = call;
  const called = reportCall(call, options, true);
  const { tool } = normalise(announced, options);
  const durationMs = Math.max(0, options.now - since);
  const command = commandOf(call, options);
  const exitCode = exitCodeOf(update);
  const events = [...called.events];
  if (phase === 'failed') {
    const error = bounded(outputText(update) || 'The tool failed');
    if (command !== undefined && permission !== 'denied') {
      events.push(...reportStart(call, options).events);
      const failed = { command: command.command, error, ...defined({ exitCode }) };
      events.push({ type: 'command.failed', ...failed });
    }
    events.push({ type: 'tool.failed', tool, error });
    return { events, reported: { called: true, started: true } };
  }
  if (command !== undefined) {
    events.push(...reportStart(call, options).events);
    const completed = { command: command.command, durationMs, ...defined({ exitCode }) };
    events.push({ type: 'command.completed', ...completed });
  }
  if (isChange(announced.kind)) events.push(...fileChanges(call, options));
  const output = bounded(outputText(update));
  const ended = defined({ output: output === '' ? undefined : output });
  events.push({ type: 'tool.completed', tool, durationMs, ...ended });
  return { events, reported: { called: true, started: true } };
}

function commandOf({ announced }: ToolCallRecord, options: CallOptions) {
  if (announced.kind !== 'execute') return undefined;
  const [input] = normalise(announced, options).inputs;
  const command = input?.['command'];
  if (typeof command !== 'string') return undefined;
  const cwd = input?.['cwd'];
  return { command, ...defined({ cwd: typeof cwd === 'string' ? cwd : undefined }) };
}

function isChange(kind: ToolCallRecord['announced']['kind']): boolean {
  return kind === 'edit' || kind === 'delete' || kind === 'move';
}

/** A longer diff is left out: the event says that the file has changed. */
const maxDiffChars = 256 * 1024;

function fileChanges({ announced }: ToolCallRecord, options: CallOptions): AgentSessionEvent[] {
  return pathsOf(announced, options).map((path) => {
    const own = announced.changes.filter(
      (change) =>
        pathsOf({ ...announced, raw: {}, locations: [], changes: [change] }, options)[0] === path,
    );
    const isDeleted = announced.kind === 'delete';
    const isCreated =
      own.length > 0 && own.every(({ oldText }) => oldText === null || oldText === '');
    const operation = isDeleted ? 'delete' : isCreated ? 'create' : 'update';
    const text = own
      .map((change) => diffOf(path, change.oldText, change.newText, isDeleted))
      .join('\n');
    const diff = text === '' || text.length > maxDiffChars ? undefined : text;
    return { type: 'file.changed', path, operation, ...defined({ diff }) };
  });
}

const maxOutputChars = 32 * 1024;

function bounded(text: string): string {
  const rest = text.length - maxOutputChars;
  return rest <= 0 ? text : `${text.slice(0, maxOutputChars)}\n… ${rest} more characters`;
}

/** Agents report what a tool said as text, as an object, or as content. */
function outputText({ rawOutput, content }: ToolCallUpdate): string {
  if (typeof rawOutput === 'string') return rawOutput;
  if (isObject(rawOutput)) {
    const text = [rawOutput['output'], rawOutput['error'], rawOutput['stdout']].find(
      (value) => typeof value === 'string',
    );
    if (typeof text === 'string') return text;
  }
  const texts = (content ?? []).flatMap((each) =>
    each.type === 'content' ? [textOf(each.content)] : [],
  );
  if (texts.length > 0) return texts.join('\n');
  return rawOutput === undefined || rawOutput === null ? '' : JSON.stringify(rawOutput);
}

function exitCodeOf({ rawOutput, _meta }: ToolCallUpdate): number | undefined {
  const metadata = isObject(rawOutput) ? rawOutput['metadata'] : undefined;
  const terminal = _meta?.['terminal_exit'];
  const codes = [
    isObject(metadata) ? metadata['exit'] : undefined,
    isObject(terminal) ? terminal['exit_code'] : undefined,
    isObject(rawOutput) ? (rawOutput['exitCode'] ?? rawOutput['exit_code']) : undefined,
  ];
  return codes.find((code): code is number => typeof code === 'number');
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
