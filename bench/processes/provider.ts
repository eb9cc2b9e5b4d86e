/** A scripted provider: a Chat Completions stream of a given number of tokens, as fast as it goes. */
import { createServer } from 'node:http';
import { announce } from './process.ts';

const tokens = Number(process.env['BENCH_TOKENS'] ?? 200);
const tokensAtOnce = 10;

function chunk(delta: object, finish: string | null = null): string {
  const choices = [{ index: 0, delta, finish_reason: finish }];
  const body = { id: 'chatcmpl-bench', object: 'chat.completion.chunk', model: 'bench', choices };
  return `data: ${JSON.stringify(body)}\n\n`;
}

const words = Array.from({ length: 97 }, (_, index) => chunk({ content: ` word${index}` }));
const usage = { prompt_tokens: 10, completion_tokens: tokens, total_tokens: tokens + 10 };
const ending = `${chunk({}, 'stop')}data: ${JSON.stringify({ choices: [], usage })}

data: [DONE]

`;

const server = createServer((request, response) => {
  request.resume();
  request.once('end', () => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    let sent = 0;
    const more = () => {
      let text = '';
      for (let n = 0; n < tokensAtOnce && sent < tokens; n += 1, sent += 1) {
        text += words[sent % words.length] ?? '';
      }
      if (sent >= tokens) {
        response.end(text + ending);
        return;
      }
      response.write(text);
      setImmediate(more);
    };
    more();
  });
});
announce(server);
