/** The limit of silent streams: a bare server that keeps its responses open. */
import { createServer } from 'node:http';
import { announce } from './process.ts';

const server = createServer((_request, response) => {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.write(': open\n\n');
});
announce(server);
