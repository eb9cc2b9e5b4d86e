/**
 * A provider with the Chat Completions protocol that follows scripts. Which one, the last user message says
 * (`<scenario> <tag>`; the agents of the team task have scripts of their own); which turn, the number of
 * answers since: it goes on where it was after any crash, and the same turn is the same to the letter.
 *
 * A script may hold an answer until its gate is opened: `POST /open/<model> <gate>`. `GET /` says how
 * many answers are being given, which are held, and what each model has read in its last request.
 */
import { createServer } from 'node:http';
import { bodyOf, listen, pause } from './serving.ts';
import { teamScripts } from './team-script.ts';

const tokenMs = Number(process.env['TOKEN_MS'] ?? 15);

interface Said {
  readonly role: string;
  readonly content?: unknown;
}

export type Part =
  | string
  | { readonly call: string; readonly name: string; readonly args: object }
  | { readonly hold: string };

/** Gates that are open, and answers that wait for one: `<model> <gate>`. */
const opened = new Set<string>();
const held: string[] = [];
let answering = 0;
/** By model: the texts of the users in its last request. */
const read: Record<string, readonly string[]> = {};

const words = (count: number): Part[] => Array.from({ length: count }, (_, n) => `word${n} `);

const scripts: Readonly<Record<string, (tag: string) => readonly (readonly Part[])[]>> = {
  plain: () => [words(25)],
  cancel: () => [words(400)],
  charge: (tag) => [['Charging. ', tool(tag, 1, 'charge')], words(4)],
  look: (tag) => [['Looking. ', tool(tag, 1, 'look')], [tool(tag, 2, 'look')], words(4)],
  pay: (tag) => [['May I? ', tool(tag, 1, 'pay')], words(4)],
  late: (tag) => [[tool(tag, 1, 'look')], ['May I? ', tool(tag, 2, 'pay')], words(4)],
  two: (tag) => [['Two. ', tool(tag, 1, 'pay'), tool(tag, 2, 'pay')], words(4)],
  once: (tag) => [[tool(tag, 1, 'pay'), tool(tag, 2, 'pay')], words(4)],
  client: (tag) => [['Yours. ', tool(tag, 1, 'lookup'), tool(tag, 2, 'lookup')], words(4)],
  handoff: (tag) => [
    ['Somebody else. ', { call: `call_${tag}_1`, name: 'handoff', args: { agent: 'expert' } }],
    [tool(tag, 2, 'look')],
    words(4),
  ],
};

function tool(tag: string, n: number, name: string): Part {
  return { call: `call_${tag}_${n}`, name, args: { tag, n } };
}

function turnOf(model: string, messages: readonly Said[]): readonly Part[] {
  const last = messages.findLastIndex(({ role }) => role === 'user');
  const text = textOf(messages[last]?.content);
  const taken = messages.slice(last + 1).filter(({ role }) => role === 'assistant').length;
  const team = teamScripts[model];
  // An agent that has nothing to add answers nothing.
  if (team !== undefined) return team[text]?.[taken] ?? [];
  const [scenario = '', tag = ''] = text.split(' ');
  return scripts[scenario]?.(tag)[taken] ?? ['Unknown scenario.'];
}

function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  return (content as { text?: string }[] | undefined)?.map(({ text }) => text ?? '').join('') ?? '';
}

const server = createServer((request, response) => {
  void answer().catch(() => response.destroy());

  async function answer(): Promise<void> {
    const { url = '' } = request;
    if (url.startsWith('/open/')) opened.add(decodeURIComponent(url.slice('/open/'.length)));
    if (!url.endsWith('/chat/completions')) {
      response.end(JSON.stringify({ answering, held, read }));
      return;
    }
    const { model, messages } = JSON.parse(await bodyOf(request)) as {
      model: string;
      messages: Said[];
    };
    read[model] = messages
      .filter(({ role }) => role === 'user')
      .map(({ content }) => textOf(content));
    answering += 1;
    response.once('close', () => (answering -= 1));
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const send = (delta: object, finish: string | null = null) =>
      response.write(
        `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`,
      );
    let calls = 0;
    for (const part of turnOf(model, messages)) {
      if (response.destroyed) return;
      if (typeof part === 'string') send({ content: part });
      else if ('hold' in part) await hold(`${model} ${part.hold}`);
      else {
        const made = { name: part.name, arguments: JSON.stringify(part.args) };
        send({ tool_calls: [{ index: calls, id: part.call, type: 'function', function: made }] });
        calls += 1;
      }
      await pause(tokenMs);
    }
    send({}, calls > 0 ? 'tool_calls' : 'stop');
    const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
    response.write(`data: ${JSON.stringify({ choices: [], usage })}\n\n`);
    response.end('data: [DONE]\n\n');
  }

  async function hold(name: string): Promise<void> {
    held.push(name);
    while (!opened.has(name) && !response.destroyed) await pause(5);
    held.splice(held.indexOf(name), 1);
  }
});

await listen(server);
