/** A model that is a provider on the wire, and tools that write down that they ran. */
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { createChatCompletionsModel, createDemoModel, createModelRegistry } from '@relay/models';
import type { ServeOptions } from '@relay/server';
import { calculator, createSendNote, createToolRegistry } from '@relay/tools';
import { createNotingTools } from '../noting-tools.ts';

function tools(dataDir: string) {
  const noting = createNotingTools((text, toolCallId) =>
    appendFileSync(join(dataDir, 'notes.log'), `${JSON.stringify({ text, toolCallId })}\n`),
  );
  return [calculator, createSendNote({ dataDir }), ...noting];
}

export function scriptedOptions(baseUrl: string): Pick<ServeOptions, 'models' | 'tools'> {
  return {
    models: createModelRegistry([
      { id: 'demo', provider: 'demo', model: createDemoModel() },
      { id: 'gpt-4o-mini', provider: 'openai', model: createChatCompletionsModel({ baseUrl }) },
    ]),
    tools: ({ dataDir }) => createToolRegistry(tools(dataDir)),
  };
}
