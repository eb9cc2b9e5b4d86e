/** The limit: a bare pass-through that stores nothing and understands nothing. */
import { Agent, createServer, request as send } from 'node:http';
import { announce } from './process.ts';

const target = Number(process.env['BENCH_PROVIDER_PORT']);
const agent = new Agent({ keepAlive: true });

const server = createServer((incoming, outgoing) => {
  const upstream = send(
    {
      host: '127.0.0.1',
      port: target,
      path: incoming.url,
      method: incoming.method,
      headers: incoming.headers,
      agent,
    },
    (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    },
  );
  incoming.pipe(upstream);
});
announce(server);
