/**
 * The limit: a bare pass-through that stores nothing and understands nothing. For a server-side tool
 * (`/tool`) it makes two requests, and passes the second answer through: the first one with the body
 * that it received, the second one with the call and its result at the end of the messages.
 */
import { Agent, createServer, type IncomingMessage, request as send } from 'node:http';
import { text } from 'node:stream/consumers';
import { announce } from './process.ts';

const target = Number(process.env['BENCH_PROVIDER_PORT']);
const agent = new Agent({ keepAlive: true });

const callAndResult = [
  {
    role: 'assistant',
    tool_calls: [
      {
        id: 'call_1',
        type: 'function',
        function: { name: 'lookup', arguments: '{"key":"value"}' },
      },
    ],
  },
  { role: 'tool', tool_call_id: 'call_1', content: '{"found":"value"}' },
];

function upstream(
  headers: IncomingMessage['headers'],
  answered: (answer: IncomingMessage) => void,
) {
  const path = '/v1/chat/completions';
  const options = { host: '127.0.0.1', port: target, path, method: 'POST', headers, agent };
  return send(options, answered);
}

const server = createServer((incoming, outgoing) => {
  const passOn = (answer: IncomingMessage) => {
    outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(outgoing);
  };
  if (incoming.url === '/tool') {
    void text(incoming).then((body) => {
      upstream({}, (answer) => {
        answer.resume();
        answer.once('end', () => {
          const request = JSON.parse(body) as { messages: object[] };
          request.messages.push(...callAndResult);
          upstream({}, passOn).end(JSON.stringify(request));
        });
      }).end(body);
    });
  } else incoming.pipe(upstream(incoming.headers, passOn));
});
announce(server);
