/**
 * A scripted provider. The model of a request says how its answer is written, so that all servers in
 * front of it get the same. A request that offers a tool and has no result yet is answered with a call.
 *
 * Each write is sent in its own TCP segment, as far as the reader keeps up: the socket does not wait
 * for more (`noDelay`, the default of `node:http`), and a stream writes once per turn of the event loop.
 */
import { createServer, type ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { announce } from './process.ts';
import { type Script, scripts, word } from './scripts.ts';

interface ProviderRequest {
  readonly model: keyof typeof scripts;
  readonly messages: readonly { readonly role: string }[];
  readonly tools?: readonly { readonly function: { readonly name: string } }[];
}

function chunk(delta: object, finish: string | null = null): string {
  const choices = [{ index: 0, delta, finish_reason: finish }];
  const body = { id: 'chatcmpl-bench', object: 'chat.completion.chunk', model: 'bench', choices };
  return `data: ${JSON.stringify(body)}\n\n`;
}

const words = Array.from({ length: 97 }, (_, index) => chunk({ content: word(index) }));

function ending(finish: string, tokens: number): string {
  const usage = { prompt_tokens: 10, completion_tokens: tokens, total_tokens: tokens + 10 };
  return `${chunk({}, finish)}data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`;
}

function call(response: ServerResponse, name: string): void {
  const call = { index: 0, id: 'call_1', type: 'function', function: { name, arguments: '' } };
  response.write(chunk({ role: 'assistant', tool_calls: [call] }));
  const rest = { index: 0, function: { arguments: '{"key":"value"}' } };
  response.end(chunk({ tool_calls: [rest] }) + ending('tool_calls', 10));
}

function answer(response: ServerResponse, { tokens, tokensPerWrite, everyMs }: Script): void {
  const began = performance.now();
  let sent = 0;
  const more = () => {
    let text = '';
    for (let n = 0; n < tokensPerWrite && sent < tokens; n += 1, sent += 1) {
      text += words[sent % words.length] ?? '';
    }
    if (sent >= tokens) {
      response.end(text + ending('stop', tokens));
      return;
    }
    response.write(text);
    if (everyMs === 0) setImmediate(more);
    // Against the start, so that delays do not add up.
    else
      setTimeout(more, Math.max(0, began + (sent / tokensPerWrite) * everyMs - performance.now()));
  };
  more();
}

const server = createServer((request, response) => {
  void json(request).then((body) => {
    const { model, messages, tools } = body as ProviderRequest;
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const script: Script = scripts[model];
    const isDone = script.callsNoTools ?? messages.some(({ role }) => role === 'tool');
    const tool = isDone ? undefined : tools?.[0];
    if (tool === undefined) answer(response, script);
    else call(response, tool.function.name);
  });
});
announce(server);
