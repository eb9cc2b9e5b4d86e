/** Traces of runs, as a collector receives them. */
import { createMemoryStore } from '@relay/store';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Collector, openCollector, type SeenSpan } from '../../support/collector.ts';
import { bootServer, type TestServer, until } from '../../support/server.ts';
import { finishedRun, startRun, untilStatus } from '../../support/requests.ts';

let collector: Collector;
let servers: TestServer[] = [];

beforeEach(async () => {
  collector = await openCollector();
});
afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop();
  await collector.close();
});

type Options = Parameters<typeof bootServer>[0];

async function boot(options: Options = {}): Promise<TestServer> {
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, ...options.env };
  const server = await bootServer({ ...options, env });
  servers.push(server);
  return server;
}

/** Stops the server, which exports all spans. */
async function exportedSpans(server: TestServer): Promise<SeenSpan[]> {
  servers = servers.filter((each) => each !== server);
  await server.stop();
  return collector.spans;
}

function named(spans: readonly SeenSpan[], name: string): SeenSpan {
  const found = spans.filter((span) => span.name === name);
  expect(found, `one ${name} among ${spans.map((span) => span.name).join(', ')}`).toHaveLength(1);
  return found[0] as SeenSpan;
}

async function decide(server: TestServer, runId: string): Promise<void> {
  const { approvals } = (await server.json(`/v1/approvals?runId=${runId}`)) as {
    approvals: { id: string }[];
  };
  await server.json(`/v1/approvals/${approvals[0]?.id}`, { body: { approved: true } });
}

describe('a run', () => {
  it('is one trace: the run, its agent, its model calls and its tools', async () => {
    const server = await boot({ env: { OTEL_SERVICE_NAME: 'relay-test' } });
    const { runId } = await finishedRun(server, { input: 'calculate 23*47' });
    const spans = await exportedSpans(server);
    const traceId = runId.replaceAll('-', '');
    expect(new Set(spans.map((span) => span.traceId))).toEqual(new Set([traceId]));
    const run = named(spans, 'run assistant');
    const agent = named(spans, 'invoke_agent assistant');
    const tool = named(spans, 'execute_tool calculator');
    const chats = spans.filter((span) => span.name === 'chat demo');
    expect(spans).toHaveLength(5);
    expect(run.parentSpanId).toBeUndefined();
    expect(agent.parentSpanId).toBe(run.spanId);
    for (const span of [tool, ...chats]) expect(span.parentSpanId).toBe(agent.spanId);
    expect(new Set(spans.map((span) => span.spanId)).size).toBe(5);
    expect(run.attributes).toMatchObject({
      'relay.run.id': runId,
      'relay.run.status': 'completed',
      'relay.surface': 'runs',
      'relay.tenant.id': server.tenantId,
      'gen_ai.agent.name': 'assistant',
    });
    expect(tool.attributes).toMatchObject({
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': 'calculator',
      'relay.tool.outcome': 'completed',
    });
    expect(chats[0]?.attributes).toMatchObject({
      'gen_ai.operation.name': 'chat',
      'gen_ai.request.model': 'demo',
      'gen_ai.response.finish_reasons': ['tool_calls'],
      'gen_ai.usage.input_tokens': expect.any(Number),
      'gen_ai.usage.output_tokens': expect.any(Number),
    });
    const sum = (span: SeenSpan) => Number(span.attributes['gen_ai.usage.output_tokens']);
    expect(sum(run)).toBe(chats.reduce((all, span) => all + sum(span), 0));
    expect(run.resource).toMatchObject({ 'service.name': 'relay-test' });
    for (const span of spans) {
      expect(span.failed).toBe(false);
      expect(span.startMs).toBeLessThanOrEqual(span.endMs);
      expect(span.startMs).toBeGreaterThanOrEqual(run.startMs);
      expect(span.endMs).toBeLessThanOrEqual(run.endMs);
    }
  });

  it('records how long it waited for a person', async () => {
    const server = await boot();
    const { runId, reader } = await startRun(server, { input: 'notify me' });
    const raised = await reader.until('approval_requested');
    await untilStatus(server, runId, 'waiting');
    const since = Date.now();
    await until(() => Date.now() - since >= 30, 'some time to pass');
    await decide(server, runId);
    await reader.rest();
    const wait = named(await exportedSpans(server), 'approval permission');
    expect(wait.attributes).toMatchObject({
      'relay.approval.id': raised.data['id'],
      'relay.approval.outcome': 'approved',
      'relay.approval.decided_by': 'key',
    });
    expect(wait.endMs - wait.startMs).toBeGreaterThanOrEqual(30);
    expect(named(collector.spans, 'execute_tool send_note').startMs).toBeGreaterThanOrEqual(
      wait.endMs - 1,
    );
  });
});

it('continues the same trace after a restart', async () => {
  const store = createMemoryStore();
  const first = await boot({ store });
  const { runId, reader } = await startRun(first, {
    input: 'notify me',
    model: 'demo',
  });
  await reader.until('approval_requested');
  await untilStatus(first, runId, 'waiting');
  await reader.disconnect();
  await exportedSpans(first);
  const before = [...collector.spans];
  expect(before.map((span) => span.name)).toEqual(['chat demo']);
  const second = await boot({ store });
  await decide(second, runId);
  await untilStatus(second, runId, 'completed');
  const spans = await exportedSpans(second);
  const agent = named(spans, 'invoke_agent assistant');
  expect(named(spans, 'run assistant').attributes['relay.surface']).toBe('runs');
  expect(new Set(spans.map((span) => span.traceId)).size).toBe(1);
  expect(before[0]?.parentSpanId).toBe(agent.spanId);
  expect(spans.filter((span) => span.name === 'chat demo')).toHaveLength(2);
  expect(named(spans, 'approval permission').parentSpanId).toBe(agent.spanId);
  expect(new Set(spans.map((span) => span.resource['service.instance.id'])).size).toBe(2);
});

it('records a provider failure as a code', async () => {
  const server = await boot();
  const response = await server.request('/v1/runs', { body: { model: 'demo', input: 'fail 400' } });
  expect(response.status).toBe(502);
  const spans = await exportedSpans(server);
  for (const name of ['run assistant', 'invoke_agent assistant', 'chat demo']) {
    const span = named(spans, name);
    expect(span.failed, name).toBe(true);
    expect(span.attributes['error.type'], name).toBe('provider_rejected');
  }
});

describe('a caller’s span', () => {
  const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
  const spanId = '00f067aa0ba902b7';

  it('is linked to the run that it started', async () => {
    const server = await boot();
    const headers = { traceparent: `00-${traceId}-${spanId}-01` };
    const { reader } = await startRun(server, { input: 'say 1' }, { headers });
    await reader.rest();
    expect(named(await exportedSpans(server), 'run assistant').links).toEqual([
      { traceId, spanId },
    ]);
  });

  it.each([
    `00-${traceId}-${spanId}`,
    `00-${'0'.repeat(32)}-${spanId}-01`,
    `00-${traceId}-${'0'.repeat(16)}-01`,
    `ff-${traceId}-${spanId}-01`,
    'x'.repeat(500),
  ])('is ignored if it is %j', async (traceparent) => {
    const server = await boot();
    const { reader } = await startRun(server, { input: 'say 1' }, { headers: { traceparent } });
    await reader.rest();
    expect(named(await exportedSpans(server), 'run assistant').links).toEqual([]);
  });
});

it('contains no content', async () => {
  const server = await boot();
  const secret = 'swordfish';
  const run = await startRun(server, {
    input: `notify ${secret}`,
    system: secret,
    labels: { who: secret },
    permissions: { allowlist: [{ tool: 'send_note', params: { text: `*${secret}*` } }] },
  });
  await run.reader.rest();
  const odd = await startRun(server, { input: `use ${secret}_is_no_tool {"a":"${secret}"}` });
  await odd.reader.rest();
  await exportedSpans(server);
  const bodies = collector.requests.map(({ body }) => body).join('\n');
  expect(bodies).toContain('execute_tool send_note');
  expect(bodies.replaceAll(`${secret}_is_no_tool`, '')).not.toContain(secret);
});

describe('a collector', () => {
  it('receives the configured headers and path', async () => {
    const server = await bootServer({
      env: {
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/custom`,
        OTEL_EXPORTER_OTLP_HEADERS: 'x-tenant=ops,authorization=Basic%20abc',
      },
    });
    await finishedRun(server, { input: 'say 1' });
    await exportedSpans(server);
    expect(collector.requests[0]).toMatchObject({
      path: '/custom',
      headers: { 'x-tenant': 'ops', authorization: 'Basic abc' },
    });
  });

  it('receives spans of an active run', async () => {
    const server = await boot();
    const { runId, reader } = await startRun(server, { input: 'notify me' });
    await untilStatus(server, runId, 'waiting');
    const span = await until(() => collector.spans.find(({ name }) => name === 'chat demo'), 'it');
    expect(span.attributes['relay.run.id']).toBe(runId);
    await reader.disconnect();
  });

  it.each([500, 400, 'never'] as const)(
    'that answers %s does not affect runs, and delays the shutdown by seconds at most',
    async (answer) => {
      collector.answer = answer;
      const server = await boot();
      const { frames } = await finishedRun(server, { input: 'calculate 2*3' });
      expect(frames.at(-1)?.data).toMatchObject({ type: 'done', status: 'completed' });
      const since = Date.now();
      await exportedSpans(server);
      expect(Date.now() - since).toBeLessThan(6_000);
      expect(collector.requests.length).toBeGreaterThan(0);
      if (answer === 400) expect(server.logged.join()).toContain('Traces could not be exported');
    },
  );

  it('that is unreachable does not affect runs', async () => {
    await collector.close();
    const server = await boot();
    const { frames } = await finishedRun(server, { input: 'calculate 2*3' });
    expect(frames.at(-1)?.data).toMatchObject({ type: 'done', status: 'completed' });
    await exportedSpans(server);
    collector = await openCollector();
  });
});
