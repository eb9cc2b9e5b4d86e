/**
 * A provider that speaks Chat Completions and plays scripts. Which one, the last user message says
 * (`<scenario> <tag>`); which turn, the number of answers since: it goes on where it was after any
 * crash, and the same turn is the same to the letter.
 */
import { createServer } from 'node:http';
import { bodyOf, listen, pause } from './serving.ts';

const tokenMs = Number(process.env['TOKEN_MS'] ?? 15);

interface Said {
  readonly role: string;
  readonly content?: unknown;
}

type Part = string | { readonly call: string; readonly name: string; readonly args: object };

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

function turnOf(messages: readonly Said[]): readonly Part[] {
  const last = messages.findLastIndex(({ role }) => role === 'user');
  const [scenario = '', tag = ''] = textOf(messages[last]?.content).split(' ');
  const taken = messages.slice(last + 1).filter(({ role }) => role === 'assistant').length;
  return scripts[scenario]?.(tag)[taken] ?? ['Unknown scenario.'];
}

function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  return (content as { text?: string }[] | undefined)?.map(({ text }) => text ?? '').join('') ?? '';
}

const server = createServer((request, response) => {
  void answer().catch(() => response.destroy());

  async function answer(): Promise<void> {
    const { messages } = JSON.parse(await bodyOf(request)) as { messages: Said[] };
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const send = (delta: object, finish: string | null = null) =>
      response.write(
        `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`,
      );
    let calls = 0;
    for (const part of turnOf(messages)) {
      if (response.destroyed) return;
      if (typeof part === 'string') send({ content: part });
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
});

await listen(server);
