/** 001: what has happened is stored and sent before the model says anything to it. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { RunRow, say } from './runtime-client.ts';
import { after, calls, says, type Scripted, startScriptedProcess } from './scripted.ts';
import type { StoreServer } from './store-server.ts';
import { verifies } from './verifies.ts';

let scripted: Scripted<StoreServer>;
beforeAll(async () => {
  scripted = await startScriptedProcess();
});
afterAll(() => scripted.dispose());

/** A run whose model has called a tool and now thinks about the result until it may go on. */
async function thinking(input: object) {
  const thought = Promise.withResolvers<void>();
  scripted.play(
    calls({ id: 'call_1', name: 'calculator', input }),
    after(thought.promise, says('Done.')),
  );
  const { runId, reader } = await say(scripted.server, 'Begin', { body: { model: 'gpt-4o-mini' } });
  await expect.poll(() => scripted.asked().length).toBe(2);
  return { runId, reader, goOn: thought.resolve };
}

test('a checkpoint of kind tool_completion is written when a tool has completed', async () => {
  verifies('001:checkpoint:kind-tool-completion');
  const { runId, reader, goOn } = await thinking({ a: 23, b: 47, op: '*' });
  const checkpoint = async () => {
    const { state } = await new RunRow(scripted.server, runId).read();
    return (JSON.parse(state ?? '{}') as { checkpoint: unknown }).checkpoint;
  };
  await expect.poll(checkpoint).toMatchObject({
    kind: 'tool_completion',
    tool: { name: 'calculator', toolCallId: 'call_1' },
  });
  goOn();
  await reader.rest();
});

test.each([
  ['completed', { a: 23, b: 47, op: '*' }, 'succeeded'],
  ['failed', { a: 1, b: 0, op: '/' }, 'failed'],
])('tool_end is sent when a tool invocation %s', async (_, input, status) => {
  verifies('001:events:tool-end-completed', '001:events:tool-end-failed');
  const { reader, goOn } = await thinking(input);
  let hasWaited = false;
  const timeout = setTimeout(() => {
    hasWaited = true;
    goOn();
  }, 5_000);
  const end = await reader.until('tool_end');
  clearTimeout(timeout);
  goOn();
  expect(hasWaited, 'tool_end came only after the model had gone on').toBe(false);
  expect(end.data).toMatchObject({ name: 'calculator', toolCallId: 'call_1', status });
  const frames = await reader.rest();
  expect(frames.at(-1)?.data).toMatchObject({ type: 'done', status: 'succeeded' });
});

test('tool_start is sent when a tool invocation starts, while it is running', async () => {
  verifies('001:events:tool-start');
  const permissions = { allowlist: [{ tool: 'meet' }] };
  const body = { model: 'gpt-4o-mini', permissions };
  const meet = (id: string) => calls({ id, name: 'meet', input: { party: 2 } });
  scripted.play(meet('call_1'), meet('call_2'), says('Met.'), says('Met.'));
  // Neither of the two calls returns before the other one has started.
  const first = await say(scripted.server, 'Begin', { body });
  const started = await first.reader.until('tool_start');
  expect(started.data).toMatchObject({ name: 'meet', args: { party: 2 }, toolCallId: 'call_1' });
  const second = await say(scripted.server, 'Begin', { body });
  for (const { reader } of [first, second]) {
    const frames = await reader.rest();
    expect(frames.filter(({ data }) => data.type === 'tool_end')).toHaveLength(1);
    expect(frames.at(-1)?.data).toMatchObject({ type: 'done', status: 'succeeded' });
  }
});
