/** Trees of agents and handoffs on the real server, with `kill -9` in the middle. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { allFrames, type Frame, FrameReader } from '../support/frames.ts';
import { until } from '../support/kernel.ts';
import { TestServer } from '../support/server.ts';

let server: TestServer;
beforeEach(async () => {
  server = await new TestServer({ RELAY_CONFIG: 'test/support/configs/agents.config.ts' }).start();
});
afterEach(() => server.dispose());

/** The input that makes the demo model start agents at this depth. */
function below(levels: number, command: string): string {
  return levels === 0
    ? command
    : `use agent ${JSON.stringify({ prompt: below(levels - 1, command) })}`;
}

const tools = ['agent', 'send_note'].map((name) => ({ name, kind: 'builtin' }));

function start(body: object): Promise<Response> {
  return server.request('/v1/runs', { body: { model: 'demo', tools, ...body } });
}

type EventBuffer = { seq: number; type: string } & Record<string, unknown>;

async function journalOf(runId: string): Promise<EventBuffer[]> {
  const response = await server.request(`/v1/runs/${runId}/events?limit=5000`);
  return ((await response.json()) as { events: EventBuffer[] }).events;
}

async function follow(runId: string, after: number | null | undefined): Promise<Frame[]> {
  return allFrames(
    await server.request(`/v1/runs/${runId}/stream`, {
      headers: { 'last-event-id': String(after ?? 0) },
    }),
  );
}

describe('a tree of agents', () => {
  test('three levels deep asks, is killed, is approved, and comes to its end as a whole', async () => {
    const response = await start({ input: below(3, 'notify the tree stands') });
    const runId = response.headers.get('x-run-id') ?? '';
    const reader = new FrameReader(response);
    const requested = await reader.until('approval_requested');
    await server.kill();
    await reader.close().catch(() => undefined);

    await server.start();
    const approval = (await (
      await server.request(`/v1/approvals/${String(requested.data['id'])}`)
    ).json()) as Record<string, unknown>;
    expect(approval).toMatchObject({
      status: 'pending',
      tool: 'send_note',
      agentPath: ['assistant', 'agent', 'agent', 'agent'],
    });
    const run = (await (await server.request(`/v1/runs/${runId}`)).json()) as { status: string };
    expect(run.status).toBe('waiting');
    expect(server.notes).toEqual([]);

    const decided = await server.request(`/v1/approvals/${String(requested.data['id'])}`, {
      body: { approved: true },
    });
    expect(decided.status).toBe(200);
    const rest = await follow(runId, requested.id);
    expect(rest.at(-1)?.data).toMatchObject({ type: 'done', status: 'completed' });
    expect(server.notes.map(({ text }) => text)).toEqual(['the tree stands']);

    const events = await journalOf(runId);
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
    const started = events.filter(({ type }) => type === 'agent.started');
    expect(started).toHaveLength(4);
    expect(started.map(({ parentId }) => parentId)).toEqual([
      undefined,
      ...started.slice(0, 3).map(({ agentId }) => agentId),
    ]);
    const ended = events.filter(({ type }) => type === 'agent.ended');
    expect(ended.map(({ agentId }) => agentId)).toEqual(
      started.toReversed().map(({ agentId }) => agentId),
    );
    // Every frame that was seen before the kill is the journal's, and none came twice.
    const whole = await follow(runId, 0);
    expect([...reader.seen, ...rest].map(({ id, data }) => ({ id, data }))).toEqual(
      whole.map(({ id, data }) => ({ id, data })),
    );
  });

  test.each([1, 2, 3])(
    'killed %i times on its way down and up loses nothing and does nothing twice',
    async (kills) => {
      const response = await start({ input: below(3, 'notify once and only once') });
      const runId = response.headers.get('x-run-id') ?? '';
      await response.body?.cancel();
      for (let kill = 0; kill < kills; kill += 1) {
        await server.kill();
        await server.start();
      }
      const raised = await until(async () =>
        (await journalOf(runId)).find(({ type }) => type === 'approval.requested'),
      );
      await server.request(`/v1/approvals/${String(raised['approvalId'])}`, {
        body: { approved: true },
      });
      await server.kill();
      await server.start();
      const events = await until(async () => {
        const all = await journalOf(runId);
        const asked = all.filter(
          ({ type, kind }) => type === 'approval.requested' && kind === 'outcome',
        );
        for (const { approvalId } of asked) {
          await server.request(`/v1/approvals/${String(approvalId)}`, {
            body: { outcome: 'completed', output: 'It was sent' },
          });
        }
        return all.at(-1)?.type === 'run.ended' && all;
      });
      expect(events.at(-1)).toMatchObject({ status: 'completed' });
      expect(server.notes.length).toBeLessThanOrEqual(1);
      expect(events.filter(({ type }) => type === 'agent.started')).toHaveLength(4);
      expect(events.filter(({ type }) => type === 'agent.ended')).toHaveLength(4);
    },
  );

  test('is canceled as a whole', async () => {
    const response = await start({ input: below(2, 'notify nobody') });
    const runId = response.headers.get('x-run-id') ?? '';
    const reader = new FrameReader(response);
    await reader.until('approval_requested');
    await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
    const done = await reader.until('done');
    expect(done.data).toMatchObject({ status: 'canceled' });
    const ended = (await journalOf(runId)).filter(({ type }) => type === 'agent.ended');
    expect(ended.map(({ reason }) => reason)).toEqual(['canceled', 'canceled', 'canceled']);
    expect(server.notes).toEqual([]);
  });

  test('reaches the operator’s limit of sub-agents, whatever the request says', async () => {
    const many = Array.from({ length: 5 }, (_, n) => `use agent {"prompt":"say ${n + 1}"}`);
    const response = await start({ input: many.join('\n'), limits: { subAgents: 100 } });
    const runId = response.headers.get('x-run-id') ?? '';
    await allFrames(response);
    const events = await journalOf(runId);
    expect(events.filter(({ type }) => type === 'agent.started')).toHaveLength(1 + 3);
    expect(events.find(({ type }) => type === 'limit.reached')).toMatchObject({
      limit: 'subAgents',
    });
    expect(events.findLast(({ type }) => type === 'agent.ended')).toMatchObject({
      reason: 'limit',
    });
  });
});

describe('agents of relay.config.ts', () => {
  test('hand off to each other, with the events of /api/chat', async () => {
    const response = await server.request('/v1/runs', {
      body: { agent: 'triage', input: 'hand off to billing' },
    });
    const runId = response.headers.get('x-run-id') ?? '';
    const frames = await allFrames(response);
    expect(frames.at(-1)?.data).toMatchObject({
      type: 'done',
      status: 'completed',
      output: 'You are now talking to billing.',
    });
    const received = await allFrames(
      await server.request(`/v1/runs/${runId}/stream?dialect=runtime&after=0`),
    );
    const types = received.map(({ data }) => data.type);
    expect(types.slice(types.indexOf('handoff'), types.indexOf('handoff') + 2)).toEqual([
      'handoff',
      'agent_switch',
    ]);
    expect(received.find(({ data }) => data.type === 'handoff')?.data).toMatchObject({
      from: 'triage',
      to: 'billing',
    });
    const run = (await (await server.request(`/v1/runs/${runId}`)).json()) as {
      agent: string;
      costUsd: number;
      checkpoint: { serializedRunState: string };
    };
    expect(run.agent).toBe('triage');
    expect(run.costUsd).toBeGreaterThan(0);
    expect(JSON.parse(run.checkpoint.serializedRunState)).toMatchObject({ agent: 'billing' });
  });

  test('bring their own tools, also as sub-agents', async () => {
    const task = { agent: 'billing', prompt: 'use look_up {"invoice":"7"}' };
    const response = await start({ input: `use agent ${JSON.stringify(task)}` });
    const frames = await allFrames(response);
    expect(String(frames.at(-1)?.data['output'])).toContain('The invoice 7 is paid');
  });

  test('have guardrails', async () => {
    const response = await start({ agent: 'guarded', input: 'My password is hunter2' });
    const frames = await allFrames(response);
    expect(frames.map(({ data }) => data.type)).toEqual(['run', 'error', 'done']);
    expect(frames[1]?.data).toMatchObject({
      code: 'guardrail_tripped',
      error: 'The guardrail no-secrets refused the input: It holds a password',
    });
    expect(frames[2]?.data).toMatchObject({ status: 'failed' });
  });

  test('must be defined', async () => {
    const response = await start({ agent: 'nobody', input: 'Hi' });
    expect(response.status).toBe(400);
    expect(await response.json()).toEqual({
      error: 'There is no agent named nobody',
      code: 'unknown_agent',
      details: [{ path: 'agent', message: 'Unknown agent' }],
    });
  });
});
