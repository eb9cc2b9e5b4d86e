/** Tools that write down that they ran, for a server and for the library. */
import { defineTool } from '@relay/tools';
import { z } from 'zod';

export function createNotingTools(note: (text: string, toolCallId: string) => void) {
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

  return [bash, count, meet];
}
