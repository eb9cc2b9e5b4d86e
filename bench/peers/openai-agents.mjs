/** The OpenAI Agents SDK behind a bare `node:http` server: nothing is stored. */
import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';
import { Agent, OpenAIProvider, Runner, tool } from '@openai/agents';
import { z } from 'zod';
import { announce } from '../processes/process.ts';

const lookup = tool({
  name: 'lookup',
  description: 'Looks up a value',
  parameters: z.object({ key: z.string() }),
  execute: ({ key }) => ({ found: key }),
});
const runner = new Runner({
  modelProvider: new OpenAIProvider({
    apiKey: 'bench',
    baseURL: `http://127.0.0.1:${process.env['BENCH_PROVIDER_PORT']}/v1`,
    useResponses: false,
  }),
  tracingDisabled: true,
});

const server = createServer((request, response) => {
  void json(request).then(async ({ model, input, tool: withTool }) => {
    const agent = new Agent({ name: 'bench', model, tools: withTool ? [lookup] : [] });
    const result = await runner.run(agent, input, { stream: true });
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for await (const text of result.toTextStream()) {
      response.write(`data: ${JSON.stringify({ text })}\n\n`);
    }
    response.end('data: [DONE]\n\n');
  });
});
announce(server);
