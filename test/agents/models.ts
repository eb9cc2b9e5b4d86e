/**
 * One server for the model APIs that the agents speak: Chat Completions, Anthropic Messages and Responses.
 * What it answers is scripted: a message names a script, and the number of tool results after that message
 * is the step. So a turn that is tried again, or continued by another process, is answered alike.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';

export interface ToolCall {
  readonly name: string;
  readonly input: object;
  /** Responses: the group of the tool. */
  readonly namespace?: string;
}

export type Step =
  | { readonly call: ToolCall }
  /** Says the first word, and the rest when `until` resolves. */
  | { readonly say: string; readonly until?: Promise<void> };

interface Item {
  readonly role: 'user' | 'assistant' | 'tool';
  readonly text: string;
}

/** A request of an agent for the next step of a script. */
export interface ModelRequest {
  readonly agent: string;
  readonly script: string;
  readonly step: number;
  readonly items: readonly Item[];
}

interface Answer {
  readonly words: readonly string[];
  readonly until?: Promise<void> | undefined;
  readonly call?: ToolCall | undefined;
}

type Body = Readonly<Record<string, unknown>>;
type Send = (event: string | undefined, data: object) => void;

interface Dialect {
  readonly path: string;
  /** Of the tested agents only this one speaks it. */
  readonly agent: string;
  items(body: Body): Item[];
  answer(send: Send, answer: Answer, id: string): Promise<void>;
}

export class ScriptedModels {
  readonly requests: ModelRequest[] = [];
  readonly #scripts = new Map<string, Readonly<Record<string, readonly Step[]>>>();
  readonly #server = createServer((request, response) => {
    this.#serve(request, response).catch((error: unknown) => {
      response.destroy(error instanceof Error ? error : undefined);
    });
  });
  #ids = 0;

  static async start(): Promise<ScriptedModels> {
    const models = new ScriptedModels();
    await new Promise<void>((resolve) => {
      models.#server.listen(0, '127.0.0.1', resolve);
    });
    return models;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The text of a message that lets every model do these steps, one after the other. */
  script(...steps: readonly Step[]): string {
    return this.scripts(Object.fromEntries(dialects.map(({ agent }) => [agent, steps])));
  }

  /** As `script`, with the steps of each agent. */
  scripts(steps: Readonly<Record<string, readonly Step[]>>): string {
    const name = `script-${this.#scripts.size + 1}`;
    this.#scripts.set(name, steps);
    return `Follow ${name}.`;
  }

  /** The requests in which the model has read this text. */
  readings(text: string): ModelRequest[] {
    return this.requests.filter(({ items }) =>
      items.some((item) => item.role === 'user' && item.text.includes(text)),
    );
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => {
      this.#server.close(resolve);
    });
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname } = new URL(request.url ?? '/', 'http://localhost');
    const body = (await json(request)) as Body;
    const dialect = dialects.find(({ path }) => pathname === path);
    if (dialect === undefined) {
      response.writeHead(404, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ error: { message: `There is no ${pathname} here` } }));
      return;
    }
    const { tools } = body as { tools?: readonly unknown[] };
    const items = dialect.items(body);
    const answer =
      (tools?.length ?? 0) > 0 && !isAside(items)
        ? this.#next(dialect.agent, items)
        : { words: ['Fine'] };
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const send: Send = (event, data) => {
      const name = event === undefined ? '' : `event: ${event}\n`;
      response.write(`${name}data: ${JSON.stringify(data)}\n\n`);
    };
    await dialect.answer(send, answer, `id_${++this.#ids}`);
    response.end();
  }

  #next(agent: string, items: readonly Item[]): Answer {
    const names = items.map(({ role, text }) =>
      role === 'user' ? [...text.matchAll(/Follow (script-\d+)\./g)].at(-1)?.[1] : undefined,
    );
    const place = names.findLastIndex((name) => name !== undefined);
    const script = names[place] ?? '';
    const steps = this.#scripts.get(script)?.[agent];
    if (steps === undefined) return { words: ['There is nothing to do'] };
    const step = items.slice(place).filter(({ role }) => role === 'tool').length;
    this.requests.push({ agent, script, step, items });
    const next = steps[step] ?? { say: 'The script is over' };
    return 'call' in next
      ? { words: [], call: next.call }
      : { words: next.say.split(/(?<= )/), until: next.until };
  }
}

/** Claude Code asks what the user might say next, with all its tools. Requests for titles have none. */
function isAside(items: readonly Item[]): boolean {
  return items.at(-1)?.text.startsWith('[SUGGESTION MODE') === true;
}

/** Sends the first word, waits, and sends the rest. */
async function speak({ words, until }: Answer, say: (word: string) => void): Promise<void> {
  const [first = '', ...rest] = words;
  say(first);
  await until;
  for (const word of rest) say(word);
}

const texts = (content: unknown): string =>
  typeof content === 'string'
    ? content
    : Array.isArray(content)
      ? content.map(({ text }: { text?: string }) => text ?? '').join('\n')
      : '';

const chatCompletions: Dialect = {
  path: '/v1/chat/completions',
  agent: 'opencode',
  items: ({ messages }) =>
    (messages as { role: string; content: unknown }[]).map(({ role, content }) => ({
      role: role === 'tool' || role === 'assistant' ? role : 'user',
      text: role === 'system' ? '' : texts(content),
    })),
  async answer(send, answer, id) {
    const chunk = (delta: object, finish: string | null) =>
      send(undefined, {
        id,
        object: 'chat.completion.chunk',
        choices: [{ index: 0, delta, finish_reason: finish }],
        ...(finish === null
          ? {}
          : { usage: { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 } }),
      });
    const { call } = answer;
    if (call === undefined) {
      await speak(answer, (content) => chunk({ role: 'assistant', content }, null));
      chunk({}, 'stop');
      return;
    }
    const called = { name: call.name, arguments: JSON.stringify(call.input) };
    chunk(
      { tool_calls: [{ index: 0, id: `call_${id}`, type: 'function', function: called }] },
      null,
    );
    chunk({}, 'tool_calls');
  },
};

interface AnthropicPart {
  readonly type: string;
  readonly text?: string;
  readonly content?: unknown;
}

const anthropicMessages: Dialect = {
  path: '/v1/messages',
  agent: 'claude',
  items: ({ messages }) =>
    (messages as { role: 'user' | 'assistant'; content: string | AnthropicPart[] }[]).flatMap(
      ({ role, content }) =>
        typeof content === 'string'
          ? [{ role, text: content }]
          : content.map(({ type, text = '', content: result }) =>
              type === 'tool_result'
                ? { role: 'tool' as const, text: texts(result) }
                : { role, text },
            ),
    ),
  async answer(emit, answer, id) {
    const send = (data: { type: string }) => emit(data.type, data);
    const usage = { input_tokens: 100, output_tokens: 10 };
    const message = { id: `msg_${id}`, type: 'message', role: 'assistant', model: 'scripted' };
    send({ type: 'message_start', message: { ...message, content: [], usage } } as {
      type: string;
    });
    const block = (content: object) =>
      send({ type: 'content_block_start', index: 0, content_block: content } as { type: string });
    const delta = (change: object) =>
      send({ type: 'content_block_delta', index: 0, delta: change } as { type: string });
    const { call } = answer;
    if (call === undefined) {
      block({ type: 'text', text: '' });
      await speak(answer, (text) => delta({ type: 'text_delta', text }));
    } else {
      block({ type: 'tool_use', id: `toolu_${id}`, name: call.name, input: {} });
      delta({ type: 'input_json_delta', partial_json: JSON.stringify(call.input) });
    }
    send({ type: 'content_block_stop', index: 0 } as { type: string });
    const reason = call === undefined ? 'end_turn' : 'tool_use';
    send({ type: 'message_delta', delta: { stop_reason: reason }, usage } as { type: string });
    send({ type: 'message_stop' });
  },
};

interface ResponsesItem {
  readonly type?: string;
  readonly role?: string;
  readonly content?: unknown;
  readonly output?: unknown;
}

const responses: Dialect = {
  path: '/v1/responses',
  agent: 'codex',
  items: ({ input }) =>
    (input as ResponsesItem[]).map(({ type = 'message', role, content, output }) =>
      type.endsWith('_output')
        ? { role: 'tool', text: texts(output) }
        : { role: role === 'user' ? 'user' : 'assistant', text: texts(content) },
    ),
  async answer(emit, answer, id) {
    const send = (type: string, data: object) => emit(type, { type, ...data });
    send('response.created', { response: { id } });
    const { call } = answer;
    if (call === undefined) {
      const item = { type: 'message', id: `msg_${id}`, role: 'assistant' };
      send('response.output_item.added', { output_index: 0, item: { ...item, content: [] } });
      await speak(answer, (delta) =>
        send('response.output_text.delta', {
          item_id: item.id,
          output_index: 0,
          content_index: 0,
          delta,
        }),
      );
      const content = [{ type: 'output_text', text: answer.words.join('') }];
      send('response.output_item.done', { output_index: 0, item: { ...item, content } });
    } else {
      const { name, namespace, input } = call;
      const called = { name, namespace, arguments: JSON.stringify(input) };
      const item = { type: 'function_call', id: `fc_${id}`, call_id: `call_${id}`, ...called };
      send('response.output_item.done', { output_index: 0, item });
    }
    const usage = { input_tokens: 100, output_tokens: 10, total_tokens: 110 };
    send('response.completed', { response: { id, usage } });
  },
};

const dialects = [chatCompletions, anthropicMessages, responses];
