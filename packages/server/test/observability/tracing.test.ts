import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createMemoryStore } from '@relay/store';
import { uuidv7 } from 'uuidv7';
import { beforeEach, describe, expect, it } from 'vitest';
import type { RunEvent, StoredEvent } from '@relay/protocol';
import { placed, runEnded, TestJournal, token } from '../support/journal.ts';
import type { Span } from '../../src/observability/run-trace.ts';
import { Tracer, openTracing } from '../../src/observability/tracing.ts';

const agentId = uuidv7();
const started: RunEvent = { type: 'agent.started', agentId, name: 'ada', model: 'demo' };
const progress = { partialOutput: '', toolsInvoked: [] };
const ended: RunEvent = {
  type: 'agent.ended',
  agentId,
  reason: 'completed',
  iterations: 1,
  usage: { inputTokens: 0, outputTokens: 0 },
};

let exported: Span[] = [];
let warnings: string[] = [];
let journal: TestJournal;
let tracer: Tracer;

beforeEach(async () => {
  exported = [];
  warnings = [];
  journal = await TestJournal.create();
  tracer = tracerOn(journal.store);
});

function tracerOn(tenant: TestJournal['store']): Tracer {
  const store = new Proxy(createMemoryStore(), {
    get: (target, name) =>
      name === 'tenant' ? () => tenant : (Reflect.get(target, name) as unknown),
  });
  return new Tracer({
    store,
    log: { warn: (message) => void warnings.push(message), error: () => undefined },
    add: (spans) => void exported.push(...spans),
  });
}

const publish = (events: readonly StoredEvent[]) => tracer.publish(journal.runId, events, 'tenant');
const names = () => exported.map(({ name }) => name);

describe('a run that is seen from its beginning', () => {
  it('is exported at once, and forgotten at its end', async () => {
    publish(await journal.append([started, ended]));
    expect(names()).toEqual(['invoke_agent ada']);
    expect(tracer.size).toBe(1);
    publish(await journal.append([runEnded]));
    expect(names()).toEqual(['invoke_agent ada', 'run']);
    expect(tracer.size).toBe(0);
  });

  it('keeps no state while it is suspended', async () => {
    publish(await journal.append([started]));
    publish(await journal.append([{ type: 'run.suspended', progress, approvalIds: [] }]));
    expect(tracer.size).toBe(0);
    publish(await journal.append([{ type: 'run.resumed', progress }, ended]));
    await tracer.settled();
    expect(names()).toEqual(['invoke_agent ada']);
  });
});

describe('a run that started on another node', () => {
  it('is restored first, and later events are exported in order', async () => {
    await journal.append([started]);
    publish(await journal.append([ended]));
    publish(await journal.append([runEnded]));
    expect(names()).toEqual([]);
    await tracer.settled();
    expect(names()).toEqual(['invoke_agent ada', 'run']);
    expect(tracer.size).toBe(0);
  });

  it('does not export earlier spans again', async () => {
    await journal.append([started, ended]);
    publish(await journal.append([runEnded]));
    await tracer.settled();
    expect(names()).toEqual(['run']);
  });

  it('is restored again after missed events or lost notifications', async () => {
    publish(await journal.append([token('a')]));
    await journal.append([started]);
    publish(await journal.append([token('b')]));
    publish([]);
    publish(await journal.append([ended]));
    await tracer.settled();
    expect(names()).toEqual(['invoke_agent ada']);
  });

  it('is exported without its history if the store fails', async () => {
    tracer = tracerOn({
      ...journal.store,
      readEvents: () => Promise.reject(new Error('gone')),
      readPage: () => Promise.reject(new Error('gone')),
    });
    publish(placed([ended], 7));
    await tracer.settled();
    expect(names()).toEqual(['invoke_agent']);
    expect(warnings).toEqual(['A trace continues without its earlier events']);
  });
});

it('bounds the number of runs with state', () => {
  for (let n = 0; n < 10_050; n += 1) {
    tracer.publish(uuidv7(), placed([started]), 'tenant');
  }
  expect(tracer.size).toBe(10_000);
});

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
