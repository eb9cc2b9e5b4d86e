import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createMemoryStore } from '@relay/store';
import { expect, it } from 'vitest';
import { placed, token } from '../support/journal.ts';
import { openTracing } from '../../src/observability/tracing.ts';

const src = join(import.meta.dirname, '../../src');
const files = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => ({ name, text: readFileSync(join(src, name), 'utf8') }));

it('imports OpenTelemetry in one module, which is loaded on demand', () => {
  const using = files.filter(({ text }) => /from '@opentelemetry\//.test(text));
  expect(using.map(({ name }) => name)).toEqual([join('observability', 'span-export.ts')]);
  const loading = files.filter(({ text }) => /^import .*span-export\.ts'/m.test(text));
  expect(loading).toEqual([]);
});

it('does nothing without an endpoint', async () => {
  const tracing = await openTracing({
    settings: undefined,
    store: createMemoryStore(),
    log: { warn: expect.unreachable, error: expect.unreachable },
    node: 'node',
    version: '1',
  });
  tracing.publish('run', placed([token('x')]), 'tenant');
  await tracing.stop();
});
