import { expect, test } from 'vitest';
import { combinePublishers } from '../src/publisher.ts';

test('combinePublishers › notifies every observer, also after one that throws', () => {
  const notified: string[] = [];
  const logged: unknown[] = [];
  const publisher = combinePublishers(
    {
      streams: (runId) => notified.push(`streams ${runId}`),
      metrics: () => {
        throw new Error('no such counter');
      },
      traces: (_runId, _events, tenantId) => notified.push(`traces of ${tenantId}`),
    },
    { error: (_message, fields) => logged.push(fields) },
  );
  publisher.publish('run', [], 'tenant');
  expect(notified).toEqual(['streams run', 'traces of tenant']);
  expect(logged).toEqual([
    { observer: 'metrics', runId: 'run', error: new Error('no such counter') },
  ]);
});
