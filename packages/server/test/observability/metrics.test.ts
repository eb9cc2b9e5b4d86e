import {
  createRecordingTool,
  createScriptedModel,
  finish,
  text,
  toolCall,
} from '@relay/core/testing';
import { createMemoryStore } from '@relay/store';
import { describe, expect, it } from 'vitest';
import { ask, bootKernel, until } from '../../../../test/support/kernel.ts';
import { Metrics } from '../../src/observability/metrics.ts';

describe('Metrics', () => {
  it('forgets a run that this node yields with the result of its last tool', async () => {
    const store = createMemoryStore();
    const metrics = new Metrics(store, { activeRuns: () => 0, openStreams: () => 0 });
    const tool = createRecordingTool({ name: 'pay', allowedByDefault: true });
    tool.hold();
    const kernel = await bootKernel({
      store,
      model: createScriptedModel([
        [toolCall('call_1', 'pay', {}), finish()],
        [text('Done.'), finish()],
      ]),
      tools: [tool],
      settings: { stopTimeoutMs: 60_000 },
      observe: (runId, events) => metrics.publish(runId, events, 'tenant'),
    });
    await ask(kernel);
    await until(async () => tool.executions.length === 1, 'the tool');
    expect(metrics.awaitingFirstToken).toBe(1);
    const stopped = kernel.stop();
    tool.release();
    await stopped;
    metrics.stop();
    expect(kernel.published.at(-1)?.type).toBe('tool.completed');
    expect(metrics.awaitingFirstToken).toBe(0);
  });
});
