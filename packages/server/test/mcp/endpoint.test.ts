/** `/mcp` with the current client and with one of 2025, against a real server. */
import { Client as CurrentClient, StreamableHTTPClientTransport as CurrentTransport } from '@modelcontextprotocol/client';
import { Client as Client2025 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as Transport2025 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { bootServer, type TestServer } from '../support/server.ts';

let server: TestServer;
beforeAll(async () => { server = await bootServer(); });
afterAll(async () => { await server.stop(); });

it('x', async () => {
  const a = await server.json('/v1/sessions/attach', { body: { handle: 'ada', identity: {name:'Ada', kind:'program'}, capabilities: { messaging: {receive:true, send:true}, delivery: {modes:['on-idle','immediate'], queue:true}, events:{emits:['status.changed']}, lifecycle:{release:false} } } });
  const token = String(a['token']);
  const t = new CurrentTransport(new URL(server.url + '/mcp'), { requestInit: { headers: { authorization: `Bearer ${token}` } } });
  const c = new CurrentClient({ name: 't', version: '1' });
  await c.connect(t);
  console.log(c.getServerVersion?.(), JSON.stringify(await c.listTools()));
  console.log(JSON.stringify(await c.callTool({ name: 'send_message', arguments: { to: '@ada', text: 'hi' }, _meta: {'relay/idempotencyKey': 'k1'} })));
  console.log(JSON.stringify(await c.callTool({ name: 'check_messages', arguments: {} })));
  console.log(JSON.stringify(await c.callTool({ name: 'check_messages', arguments: {} })));
  console.log(JSON.stringify(await c.callTool({ name: 'list_messages', arguments: {limit: 2} })));
  console.log(JSON.stringify(await c.callTool({ name: 'list_sessions', arguments: {} })));
  await c.close();
  const t2 = new Transport2025(new URL(server.url + '/mcp'), { requestInit: { headers: { authorization: `Bearer ${token}` } } });
  const c2 = new Client2025({ name: 't', version: '1' });
  await c2.connect(t2);
  console.log(JSON.stringify(await c2.listTools()));
  console.log(JSON.stringify(await c2.callTool({ name: 'send_message', arguments: { to: '@ada', text: 'hi', mode: 'manual' } })));
  await c2.close();
  expect(server.logged).toEqual([]);
});
