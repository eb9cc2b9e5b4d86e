/**
 * An ACP agent whose model is the text of its prompt: a prompt with `<<[…]>>` is a list of steps, any other is
 * answered with its text. It runs in the process of a test, or as a program:
 *
 *   node scripted-agent.ts '{"steering": true, "log": "/tmp/log"}'
 *
 * As a program it keeps its conversations in its home, so that another process can resume them. What it reads
 * and does is in its log, one JSON per line: an oracle that does not depend on Relay.
 */
import { execFile } from 'node:child_process';
import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import {
  agent,
  type AgentContext,
  type ContentBlock,
  type McpServer,
  ndJsonStream,
  type PermissionOption,
  type RequestPermissionRequest,
  type SessionUpdate,
  type StopReason,
  type ToolCallUpdate,
} from '@agentclientprotocol/sdk';

export type Step =
  /** `times`: with a pause after each piece, until the turn is cancelled or steered. */
  | {
      readonly say: string;
      readonly id?: string;
      readonly times?: number;
      readonly pauseMs?: number;
    }
  | { readonly think: string }
  | { readonly update: SessionUpdate }
  /** Runs the command if it is allowed. `shows`: what an update shows in its place, after the permission. */
  | {
      readonly bash: string;
      readonly shows?: string;
      readonly asks?: boolean;
      readonly cwd?: string;
    }
  | { readonly write: string; readonly content: string }
  /** Only the request, as it is. */
  | { readonly ask: ToolCallUpdate; readonly options?: PermissionOption[] }
  | { readonly elicit: Record<string, unknown> }
  /** Calls a tool of Relay's MCP server. */
  | { readonly mcp: string; readonly arguments: Record<string, unknown> }
  /** Waits until the file exists. */
  | { readonly until: string }
  | { readonly exit: number }
  | { readonly fail: string }
  | { readonly end: StopReason }
  /** Asks for permission after the end of the turn. */
  | { readonly later: ToolCallUpdate };

export interface ScriptedOptions {
  readonly steering?: boolean;
  readonly resume?: boolean;
  readonly load?: boolean;
  readonly close?: boolean;
  readonly fork?: boolean;
  readonly image?: boolean;
  readonly mcp?: boolean;
  /** What happens to the turn when a call is denied. Default: it goes on. */
  readonly denied?: 'end' | 'cancel';
  readonly tokens?: number;
  /** A file. */
  readonly log?: string;
}

export interface Logged {
  readonly kind: string;
  readonly [field: string]: unknown;
}

/** Where conversations are kept: their prompts, by id. */
export interface Conversations {
  read(id: string): string[] | undefined;
  write(id: string, prompts: readonly string[]): void;
}

export function inMemory(): Conversations {
  const kept = new Map<string, string[]>();
  return {
    read: (id) => kept.get(id),
    write: (id, prompts) => void kept.set(id, [...prompts]),
  };
}

interface Session {
  readonly id: string;
  readonly cwd: string;
  readonly mcpServers: readonly McpServer[];
  prompts: string[];
  turn: AbortController | undefined;
  /** What was steered and is not read yet. */
  steered: string[];
  /** Aborts what the model is saying. */
  saying: AbortController | undefined;
}

const once: PermissionOption[] = [
  { optionId: 'once', kind: 'allow_once', name: 'Yes' },
  { optionId: 'always', kind: 'allow_always', name: 'Always' },
  { optionId: 'no', kind: 'reject_once', name: 'No' },
];

export interface ScriptedAgent {
  readonly app: ReturnType<typeof agent>;
  readonly log: Logged[];
  /** As the end of its process: no turn goes on. */
  readonly stop: () => void;
}

export function scriptedAgent(
  options: ScriptedOptions = {},
  conversations: Conversations = inMemory(),
): ScriptedAgent {
  const log: Logged[] = [];
  const note = (entry: Logged) => {
    log.push(entry);
    const line = JSON.stringify({ ...entry, pid: process.pid });
    if (options.log !== undefined) appendFileSync(options.log, `${line}\n`);
  };
  const sessions = new Map<string, Session>();
  let calls = 0;

  function opened(
    id: string,
    { cwd, mcpServers = [] }: { cwd: string; mcpServers?: McpServer[] },
    prompts: readonly string[],
  ): Session {
    const session: Session = {
      id,
      cwd,
      mcpServers,
      prompts: [...prompts],
      turn: undefined,
      steered: [],
      saying: undefined,
    };
    sessions.set(id, session);
    return session;
  }

  function sessionOf(id: string): Session {
    const session = sessions.get(id);
    if (session === undefined) throw new Error(`No session ${id}`);
    return session;
  }

  function known(id: string): string[] {
    const prompts = conversations.read(id);
    if (prompts === undefined) throw new Error(`No conversation ${id}`);
    return prompts;
  }

  async function runTurn(
    session: Session,
    client: AgentContext,
    text: string,
  ): Promise<StopReason> {
    const turn = new AbortController();
    session.turn = turn;
    const queue = [...stepsIn(text)];
    try {
      for (;;) {
        const steered = session.steered.splice(0);
        if (steered.length > 0)
          queue.splice(0, queue.length, ...steered.flatMap(stepsIn), ...queue);
        if (turn.signal.aborted) return 'cancelled';
        const step = queue.shift();
        if (step === undefined) return 'end_turn';
        const end = await take(step, session, client, turn.signal);
        if (end !== undefined) return end;
      }
    } finally {
      session.turn = undefined;
    }
  }

  const updating = (session: Session, client: AgentContext) => (update: SessionUpdate) =>
    client.notify('session/update', { sessionId: session.id, update });

  async function take(
    step: Step,
    session: Session,
    client: AgentContext,
    signal: AbortSignal,
  ): Promise<StopReason | undefined> {
    const send = updating(session, client);
    if ('say' in step) {
      const { say, id = `m${(calls += 1)}`, times = 1, pauseMs = 0 } = step;
      session.saying = new AbortController();
      const stop = AbortSignal.any([signal, session.saying.signal]);
      for (let count = 0; count < times && !stop.aborted; count += 1) {
        const content = { type: 'text', text: say } as const;
        await send({ sessionUpdate: 'agent_message_chunk', content, messageId: id });
        if (pauseMs > 0) await pause(pauseMs, stop);
      }
      session.saying = undefined;
      return undefined;
    }
    if ('think' in step) {
      const content = { type: 'text', text: step.think } as const;
      await send({ sessionUpdate: 'agent_thought_chunk', content });
      return undefined;
    }
    if ('update' in step) {
      await send(step.update);
      return undefined;
    }
    if ('bash' in step) return bash(step, session, client, signal);
    if ('write' in step) return write(step, session, client, signal);
    if ('ask' in step) {
      const outcome = await permission(session, client, signal, step.ask, step.options);
      note({ kind: 'asked', outcome });
      return undefined;
    }
    if ('elicit' in step) {
      const answer = await client.request('elicitation/create', {
        sessionId: session.id,
        mode: 'form',
        message: '',
        requestedSchema: { type: 'object', properties: {} },
        ...step.elicit,
      });
      note({ kind: 'answered', answer });
      return undefined;
    }
    if ('mcp' in step) {
      note({ kind: 'mcp', ...(await callMcp(session, step.mcp, step.arguments)) });
      return undefined;
    }
    if ('until' in step) {
      while (!existsSync(step.until) && !signal.aborted) await pause(5, signal);
      return undefined;
    }
    if ('exit' in step) {
      note({ kind: 'exit' });
      return process.exit(step.exit);
    }
    if ('fail' in step) throw new Error(step.fail);
    if ('later' in step) {
      setTimeout(() => {
        void permission(session, client, new AbortController().signal, step.later).then((outcome) =>
          note({ kind: 'asked', outcome }),
        );
      }, 20);
      return undefined;
    }
    return step.end;
  }

  async function permission(
    session: Session,
    client: AgentContext,
    signal: AbortSignal,
    toolCall: RequestPermissionRequest['toolCall'],
    choices: PermissionOption[] = once,
  ): Promise<string> {
    const asked = client.request(
      'session/request_permission',
      { sessionId: session.id, toolCall, options: choices },
      { cancellationSignal: signal },
    );
    const cancelled = new Promise<undefined>((resolve) => {
      signal.addEventListener('abort', () => resolve(undefined), { once: true });
    });
    asked.catch(() => undefined);
    const answer = await Promise.race([asked, cancelled]);
    if (answer?.outcome.outcome !== 'selected') return 'cancelled';
    return answer.outcome.optionId;
  }

  function afterDenial(outcome: string): StopReason | undefined {
    if (outcome === 'once' || options.denied === undefined) return undefined;
    return options.denied === 'end' ? 'end_turn' : 'cancelled';
  }

  async function bash(
    step: Extract<Step, { bash: string }>,
    session: Session,
    client: AgentContext,
    signal: AbortSignal,
  ): Promise<StopReason | undefined> {
    const { bash: command, shows, asks = true, cwd } = step;
    const send = updating(session, client);
    const toolCallId = `call-${(calls += 1)}`;
    const rawInput = {
      command,
      description: `Run ${calls}`,
      ...(cwd === undefined ? {} : { cwd }),
    };
    await send({
      sessionUpdate: 'tool_call',
      toolCallId,
      title: 'bash',
      kind: 'execute',
      status: 'pending',
      rawInput,
    });
    const outcome = asks
      ? await permission(session, client, signal, {
          toolCallId,
          title: command,
          kind: 'execute',
          rawInput,
        })
      : 'once';
    if (outcome !== 'once') {
      note({ kind: 'denied', command, outcome });
      await send({
        sessionUpdate: 'tool_call_update',
        toolCallId,
        status: 'failed',
        rawOutput: 'Not allowed',
      });
      return outcome === 'no' ? afterDenial(outcome) : undefined;
    }
    if (shows !== undefined) {
      const other = { command: shows };
      await send({
        sessionUpdate: 'tool_call_update',
        toolCallId,
        status: 'in_progress',
        rawInput: other,
      });
      await pause(200, signal);
      if (signal.aborted) return undefined;
    }
    note({ kind: 'run', command: shows ?? command });
    const { code, output } = await run(shows ?? command, session.cwd, signal);
    await send({
      sessionUpdate: 'tool_call_update',
      toolCallId,
      status: signal.aborted ? 'failed' : 'completed',
      rawOutput: { output, metadata: { exit: code } },
    });
    return undefined;
  }

  async function write(
    step: Extract<Step, { write: string }>,
    session: Session,
    client: AgentContext,
    signal: AbortSignal,
  ): Promise<StopReason | undefined> {
    const path = join(session.cwd, step.write);
    const send = updating(session, client);
    const toolCallId = `call-${(calls += 1)}`;
    const oldText = existsSync(path) ? readFileSync(path, 'utf8') : null;
    const content = [{ type: 'diff', path, oldText, newText: step.content } as const];
    await send({
      sessionUpdate: 'tool_call',
      toolCallId,
      title: 'Editing files',
      kind: 'edit',
      content,
    });
    const locations = [{ path }];
    const outcome = await permission(session, client, signal, {
      toolCallId,
      kind: 'edit',
      locations,
    });
    if (outcome !== 'once') {
      await send({ sessionUpdate: 'tool_call_update', toolCallId, status: 'failed' });
      return afterDenial(outcome);
    }
    note({ kind: 'write', path: step.write });
    writeFileSync(path, step.content);
    await send({ sessionUpdate: 'tool_call_update', toolCallId, status: 'completed' });
    return undefined;
  }

  const app = agent({ name: 'scripted' })
    .onRequest('initialize', () => ({
      protocolVersion: 1,
      agentInfo: { name: 'scripted', version: '1.0.0' },
      agentCapabilities: {
        loadSession: options.load ?? false,
        promptCapabilities: { image: options.image ?? false },
        mcpCapabilities: { http: options.mcp ?? false, sse: false },
        sessionCapabilities: {
          ...((options.resume ?? true) ? { resume: {} } : {}),
          ...((options.close ?? true) ? { close: {} } : {}),
          ...(options.fork === true ? { fork: {} } : {}),
        },
      },
      ...(options.steering === true ? { _meta: { steering: { supported: true } } } : {}),
    }))
    .onRequest('session/new', ({ params }) => {
      const id = `s-${Date.now().toString(36)}-${sessions.size}-${process.pid}`;
      opened(id, params, []);
      conversations.write(id, []);
      note({ kind: 'new', id, cwd: params.cwd, mcpServers: params.mcpServers.length });
      return { sessionId: id };
    })
    .onRequest('session/resume', ({ params }) => {
      const { sessionId: id } = params;
      opened(id, { cwd: params.cwd, mcpServers: params.mcpServers ?? [] }, known(id));
      note({ kind: 'resume', id });
      return {};
    })
    .onRequest('session/load', async ({ params, client }) => {
      const { sessionId: id } = params;
      const session = opened(id, params, known(id));
      for (const text of session.prompts) {
        const send = updating(session, client);
        await send({ sessionUpdate: 'user_message_chunk', content: { type: 'text', text } });
        await send({
          sessionUpdate: 'agent_message_chunk',
          content: { type: 'text', text: `replayed: ${text}` },
        });
      }
      note({ kind: 'load', id });
      return {};
    })
    .onRequest('session/close', ({ params }) => {
      sessionOf(params.sessionId).turn?.abort();
      sessions.delete(params.sessionId);
      note({ kind: 'close', id: params.sessionId });
      return {};
    })
    .onRequest('session/fork', asObject, ({ params }) => {
      const id = `${String(params['sessionId'])}-fork-${sessions.size}`;
      const prompts = known(String(params['sessionId']));
      opened(id, { cwd: String(params['cwd']) }, prompts);
      conversations.write(id, prompts);
      note({ kind: 'fork', id });
      return { sessionId: id };
    })
    .onRequest('session/prompt', async ({ params, client }) => {
      const session = sessionOf(params.sessionId);
      const text = textIn(params.prompt);
      session.prompts.push(text);
      conversations.write(session.id, session.prompts);
      note({ kind: 'prompt', id: session.id, text, history: session.prompts.length });
      const stopReason = await runTurn(session, client, text);
      note({ kind: 'end', id: session.id, stopReason });
      const usage = options.tokens === undefined ? undefined : { totalTokens: options.tokens };
      return { stopReason, ...(usage === undefined ? {} : { usage }) };
    })
    .onNotification('session/cancel', ({ params }) => {
      note({ kind: 'cancel', id: params.sessionId });
      sessionOf(params.sessionId).turn?.abort();
    })
    .onRequest('_session/steering', asObject, ({ params }) => {
      const session = sessionOf(String(params['sessionId']));
      const text = textIn(params['prompt'] as ContentBlock[]);
      if (session.turn === undefined || session.turn.signal.aborted) {
        return { outcome: 'promptRequired', reason: 'noRunningTurn' };
      }
      note({ kind: 'steer', id: session.id, text });
      session.steered.push(text);
      session.saying?.abort();
      return { outcome: 'injected' };
    });
  const stop = () => sessions.forEach(({ turn }) => turn?.abort());
  return { app, log, stop };
}

function asObject(params: unknown): Record<string, unknown> {
  return params as Record<string, unknown>;
}

function textIn(prompt: readonly ContentBlock[]): string {
  return prompt.map((block) => (block.type === 'text' ? block.text : `[${block.type}]`)).join('\n');
}

/** The last script of a text: sender lines and notes before it are no steps. */
function stepsIn(text: string): Step[] {
  const scripts = [...text.matchAll(/<<(\[.*?\])>>/gs)].map(
    ([, script = '[]']) => JSON.parse(script) as Step[],
  );
  return scripts.length > 0
    ? scripts.flat()
    : [{ say: `read: ${text.split('\n').at(-2) ?? text}` }];
}

/** A prompt with these steps. */
export function script(...steps: Step[]): string {
  return `<<${JSON.stringify(steps)}>>`;
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    const stop = () => {
      clearTimeout(timer);
      resolve();
    };
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
  });
}

function run(
  command: string,
  cwd: string,
  signal: AbortSignal,
): Promise<{ code: number; output: string }> {
  return new Promise((resolve) => {
    execFile('bash', ['-c', command], { cwd, signal }, (error, stdout, stderr) => {
      const code = typeof error?.code === 'number' ? error.code : error === null ? 0 : 1;
      resolve({ code, output: `${stdout}${stderr}` });
    });
  });
}

async function callMcp(
  { mcpServers }: Session,
  name: string,
  input: Record<string, unknown>,
): Promise<Record<string, unknown>> {
  const server = mcpServers.find((each) => 'type' in each && each.type === 'http');
  if (server === undefined || !('url' in server)) return { error: 'No MCP server' };
  const own = Object.fromEntries(server.headers.map((header) => [header.name, header.value]));
  const response = await fetch(server.url, {
    method: 'POST',
    headers: {
      ...own,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2025-06-18',
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name, arguments: input },
    }),
  });
  return { status: response.status, body: await response.text() };
}

function inFolder(folder: string): Conversations {
  mkdirSync(folder, { recursive: true });
  const fileOf = (id: string) => join(folder, `${id}.json`);
  return {
    read: (id) =>
      existsSync(fileOf(id))
        ? (JSON.parse(readFileSync(fileOf(id), 'utf8')) as string[])
        : undefined,
    write: (id, prompts) => writeFileSync(fileOf(id), JSON.stringify(prompts)),
  };
}

if (import.meta.main) {
  const options = JSON.parse(process.argv[2] ?? '{}') as ScriptedOptions;
  const { app } = scriptedAgent(options, inFolder(join(homedir(), 'conversations')));
  const output = Writable.toWeb(process.stdout) as WritableStream<Uint8Array>;
  const input = Readable.toWeb(process.stdin) as ReadableStream<Uint8Array>;
  const connection = app.connect(ndJsonStream(output, input));
  await connection.closed;
  process.exit(0);
}
