/** A server whose model is a provider on the wire, and whose tools write down that they ran. */
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { createChatCompletionsModel, createDemoModel, createModelRegistry } from '@relay/models';
import { serve } from '@relay/server';
import { calculator, createSendNote, createToolRegistry, defineTool } from '@relay/tools';
import { z } from 'zod';

const providerUrl = process.env['TEST_PROVIDER_URL'] ?? '';

function tools(dataDir: string) {
  const note = (text: string, toolCallId: string) =>
    appendFileSync(join(dataDir, 'notes.log'), `${JSON.stringify({ text, toolCallId })}\n`);

  const bash = defineTool({
    name: 'bash',
    description: 'Writes down a command',
    schema: z.strictObject({ command: z.string() }),
    execute({ command }, { toolCallId }) {
      note(command, toolCallId);
      return { context: `$ ${command}`, result: { code: 0 } };
    },
  });

  const count = defineTool({
    name: 'count',
    description: 'Has a result for programs, and no text for the model',
    schema: z.strictObject({ upTo: z.number() }),
    execute({ upTo }, { toolCallId }) {
      note(`counted to ${upTo}`, toolCallId);
      return { result: Array.from({ length: upTo }, (_, index) => index + 1) };
    },
  });

  let present: (() => void)[] = [];
  const meet = defineTool({
    name: 'meet',
    description: 'Comes back once as many calls of it as it says are running at the same time',
    schema: z.strictObject({ party: z.number() }),
    async execute({ party }, { toolCallId, signal }) {
      await new Promise<void>((resolve, reject) => {
        signal.addEventListener('abort', reject);
        present.push(resolve);
        if (present.length < party) return;
        for (const leave of present) leave();
        present = [];
      });
      note('met', toolCallId);
      return { result: { met: party } };
    },
  });

  return [calculator, createSendNote({ dataDir }), bash, count, meet];
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
