/** A server whose model is a provider on the wire, and whose tools write down that they ran. */
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { createChatCompletionsModel, createDemoModel, createModelRegistry } from '@relay/models';
import { serve } from '@relay/server';
import { calculator, createSendNote, createToolRegistry } from '@relay/tools';
import { createNotingTools } from '../noting-tools.ts';

const providerUrl = process.env['TEST_PROVIDER_URL'] ?? '';

function tools(dataDir: string) {
  const noting = createNotingTools((text, toolCallId) =>
    appendFileSync(join(dataDir, 'notes.log'), `${JSON.stringify({ text, toolCallId })}\n`),
  );
  return [calculator, createSendNote({ dataDir }), ...noting];
}

await serve({
  env: process.env,
  cwd: process.cwd(),
  terminal: false,
  print: (line) => console.log(line),
  models: createModelRegistry([
    { id: 'demo', provider: 'demo', model: createDemoModel() },
    {
      id: 'gpt-4o-mini',
      provider: 'openai',
      model: createChatCompletionsModel({ baseUrl: providerUrl }),
    },
  ]),
  tools: ({ dataDir }) => createToolRegistry(tools(dataDir)),
});
