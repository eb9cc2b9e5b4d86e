/**
 * The load of `large-answers.ts`: a provider that answers with as many characters as the last message
 * says, and clients that start runs and read them to their end.
 */
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';

export interface Load {
  readonly url: string;
  readonly apiKey: string;
  readonly runs: number;
  readonly chars: number;
}

export type LoadReport = { readonly port: number } | { readonly isCompleted: boolean };

const piece = 'The quick brown fox jumps over the lazy dog. '.repeat(100).slice(0, 4096);

function* frames(chars: number): Generator<string> {
  const frame = (choice: object) =>
    `data: ${JSON.stringify({ id: 'answer', choices: [{ index: 0, ...choice }] })}\n\n`;
  for (let left = chars; left > 0; left -= piece.length) {
    yield frame({ delta: { content: piece.slice(0, left) }, finish_reason: null });
  }
  yield frame({ delta: {}, finish_reason: 'stop' });
  yield 'data: [DONE]\n\n';
}

async function answer(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  const { messages } = JSON.parse(await text(incoming)) as { messages: { content: string }[] };
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  // A server that is killed does not read to the end.
  await pipeline(frames(Number(messages.at(-1)?.content)), response).catch(() => undefined);
}

/** Whether the stream of a run ended with `done` and the status `completed`. */
function isCompleted({ url, apiKey, chars }: Load): Promise<boolean> {
  return new Promise((resolve) => {
    const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
    const sent = request(
      `${url}/v1/runs`,
      { method: 'POST', agent: false, headers },
      (response) => {
        let end = '';
        response.setEncoding('latin1');
        response.on('data', (data: string) => {
          // `done` repeats up to 256 KB of the answer, after the status.
          end = (end + data).slice(-512 * 1024);
        });
        response.on('error', () => resolve(false));
        response.on('end', () => resolve(/"type":"done"[^}]*"status":"completed"/.test(end)));
      },
    );
    sent.on('error', () => resolve(false));
    sent.end(JSON.stringify({ model: 'gpt-4o', input: String(chars) }));
  });
}

const provider = createServer((incoming, response) => void answer(incoming, response));
provider.listen(0, '127.0.0.1', () => {
  report({ port: (provider.address() as AddressInfo).port });
});
process.on('message', (load: Load) => {
  for (let n = 0; n < load.runs; n += 1) {
    void isCompleted(load).then((completed) => report({ isCompleted: completed }));
  }
});
process.on('disconnect', () => process.exit(0));

function report(message: LoadReport): void {
  process.send?.(message);
}
