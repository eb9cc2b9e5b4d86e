/** A provider that plays scenes: each user message has its answers, turn by turn. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

interface Turn {
  readonly text?: string;
  readonly call?: readonly [name: string, input: Readonly<Record<string, unknown>>];
}

interface Message {
  readonly role: string;
  readonly content?: string | readonly { readonly text?: string }[] | null;
}

export const scenes: Readonly<Record<string, readonly Turn[]>> = {
  'Release the fix from yesterday': [
    {
      text: 'I will look at the version first, and then update the changelog.',
      call: ['read', { filePath: 'package.json' }],
    },
    {
      text: 'The version is **2.4.0**. The changelog needs an entry for the fix.',
      call: [
        'patch',
        {
          filePath: 'CHANGELOG.md',
          edits: [
            {
              old: '## 2.4.0',
              new: '## 2.4.1\n\n- Exports no longer lose rows with empty dates\n\n## 2.4.0',
            },
          ],
        },
      ],
    },
    {
      text: 'Everything is prepared. I clear the cache and publish.',
      call: ['bash', { command: 'rm -rf ./tmp/cache && npm publish --tag latest' }],
    },
    { text: 'Version 2.4.1 is published.' },
  ],
  'Why was invoice 1042 charged twice?': [
    {
      text: 'I ask billing to check.',
      call: ['agent', { agent: 'billing', prompt: 'Check invoice 1042 for duplicates' }],
    },
    {
      text: [
        'Invoice 1042 was charged twice because the customer retried after a timeout.',
        '',
        '| charge | amount | status |',
        '|---|---|---|',
        '| ch_881 | $49.00 | paid |',
        '| ch_882 | $49.00 | **duplicate** |',
        '',
        'I propose to refund the second charge:',
        '',
        '```json\n{ "invoice": "1042", "amount": 49 }\n```',
      ].join('\n'),
    },
  ],
  'Check invoice 1042 for duplicates': [
    {
      text: 'Invoice 1042 has two charges of $49.00, twelve seconds apart. The second is a duplicate.',
    },
  ],
  'Refund the duplicate of invoice 1042': [
    {
      text: 'The second charge is a duplicate. I refund it.',
      call: ['refund', { invoice: '1042', amount: 49, reason: 'duplicate', notify: true }],
    },
    { text: 'The refund of $49.00 is on its way, and the customer was told.' },
  ],
  'Roll out 2.4.1': [
    { text: 'I need to know where to begin.', call: ['choose_region', {}] },
    { text: 'The rollout has started.' },
  ],
  'Summarise the open tickets': [
    {
      text: [
        'There are **three** open tickets:',
        '',
        '1. *Export loses rows* (fixed in 2.4.1)',
        '2. *Slow login on Mondays*: 40 reports, all between 8:55 and 9:10',
        '3. *Invoice charged twice*: refunded',
        '',
        'The second one needs a person: the load balancer restarts at 9:00.',
      ].join('\n'),
    },
  ],
  'Tell the team that 2.4.1 is out': [
    {
      call: [
        'send_note',
        { to: 'team', text: 'Version 2.4.1 is out. Thank you for the quick review!' },
      ],
    },
    { text: 'I told the team.' },
  ],
};

const fallback: readonly Turn[] = [{ text: 'Done.' }];

export async function startModel(): Promise<Server> {
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      // The receiver of a webhook.
      if (request.url?.includes('/hooks/') === true) return response.writeHead(204).end();
      const { messages } = JSON.parse(body) as { messages: readonly Message[] };
      const { text, turn, input } = turnOf(messages);
      if (text.startsWith('fail')) {
        response.writeHead(401, { 'content-type': 'application/json' });
        return response.end('{"error":{"message":"Your account has no credit left"}}');
      }
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const send = (delta: object, finish: string | null = null) =>
        response.write(
          `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`,
        );
      for (const word of (turn.text ?? '').split(/(?<= )/)) send({ content: word });
      if (turn.call !== undefined) {
        const [name, args] = turn.call;
        const call = { name, arguments: JSON.stringify(args) };
        send({
          tool_calls: [{ index: 0, id: `call_${Date.now()}`, type: 'function', function: call }],
        });
      }
      send({}, turn.call === undefined ? 'stop' : 'tool_calls');
      const usage = {
        prompt_tokens: 900 + input.length * 40,
        completion_tokens: 60 + (turn.text ?? '').length,
      };
      response.write(`data: ${JSON.stringify({ id: 'c', choices: [], usage })}\n\n`);
      return response.end('data: [DONE]\n\n');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}

export function urlOf(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
}

function turnOf(messages: readonly Message[]): {
  text: string;
  turn: Turn;
  input: readonly Message[];
} {
  const last = messages.findLastIndex(({ role }) => role === 'user');
  const text = textOf(messages[last]);
  const turns = scenes[Object.keys(scenes).find((each) => text.includes(each)) ?? ''] ?? fallback;
  const answered = messages.slice(last).filter(({ role }) => role === 'assistant').length;
  return { text, turn: turns[Math.min(answered, turns.length - 1)] ?? {}, input: messages };
}

function textOf(message: Message | undefined): string {
  const { content = '' } = message ?? {};
  if (typeof content === 'string') return content;
  return (content ?? []).map(({ text = '' }) => text).join('');
}
