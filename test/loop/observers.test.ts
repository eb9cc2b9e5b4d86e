/** Observers of the journal: what is committed stays committed, whatever they do. */
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  text,
  toolCall,
} from '@relay/core/testing';
import { createMemoryStore } from '@relay/store';
import { expect, test } from 'vitest';
import { ask, bootKernel, until } from '../support/kernel.ts';
import { endOf, finished, ofType } from './fixture.ts';

test('a publisher that throws does not break a journal whose events are committed', async () => {
  const tool = createRecordingTool({ name: 'pay', allowedByDefault: true });
  const model = createScriptedModel([
    [toolCall('call_1', 'pay', {}), finish()],
    [text('Done.'), finish()],
  ]);
  const kernel = await bootKernel({
    store: createMemoryStore(),
    model,
    tools: [tool],
    observe: (_runId, events) => {
      if (events.some(({ type }) => type === 'turn.completed'))
        throw new Error('An observer failed');
    },
  });
  const run = await ask(kernel);
  const events = await finished(kernel, run.id);
  expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Done.' });
  // No turn had to be repeated, and no tool.
  expect(ofType(events, 'turn.started')).toHaveLength(2);
  expect(tool.executions).toHaveLength(1);
  expect(kernel.warnings.filter((line) => line.includes('could not be published'))).toHaveLength(2);
  await kernel.stop();
});

test('a publisher that always throws neither fails the start of a run nor a run that is yielded', async () => {
  const tool = createRecordingTool({ name: 'pay', allowedByDefault: true, idempotent: true });
  tool.hold();
  const script = () =>
    createScriptedModel([
      [toolCall('call_1', 'pay', {}), finish()],
      [text('Done.'), finish()],
    ]);
  const store = createMemoryStore();
  const observe = () => {
    throw new Error('An observer failed');
  };
  const options = { store, tools: [tool], observe };
  const first = await bootKernel({ ...options, model: script() });
  const run = await ask(first);
  await until(async () => tool.executions.length === 1, 'the tool');
  await first.stop();
  tool.release();
  const second = await bootKernel({ ...options, model: script() });
  const tenantId = first.tenantId;
  const events = await finished({ ...second, tenantId }, run.id);
  expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Done.' });
  await second.stop();
});
