/** Three real servers on one PostgreSQL: a run belongs to none of them. */
import { afterEach, describe, expect, test } from 'vitest';
import { FrameReader } from '../support/frames.ts';
import { until } from '../support/kernel.ts';
import { Nodes, type NodesOptions } from '../support/nodes.ts';

let nodes: Nodes;
afterEach(() => nodes.dispose(), 60_000);

async function three(options?: NodesOptions) {
  nodes = await Nodes.start(options);
  return [nodes.node(0), nodes.node(1), nodes.node(2)] as const;
}

async function expectSound(node: Parameters<Nodes['journal']>[0], runId: string) {
  const events = await nodes.journal(node, runId);
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
  expect(events.filter(({ type }) => type === 'run.ended')).toHaveLength(1);
  return events;
}

describe('a run on three nodes', () => {
  test('is started on A, followed on B and approved on C, each at once', async () => {
    const [a, b, c] = await three();
    const { runId, reader } = await nodes.run(a, 'notify the build is green');
    const follower = await nodes.follow(b, runId);
    const approval = await follower.until('approval_requested');
    const began = performance.now();
    expect((await nodes.approve(c, approval.data['id'])).status).toBe(200);
    const seen = await follower.rest();
    // The stream did not wait for its poll, which happens every ten seconds.
    expect(performance.now() - began).toBeLessThan(8_000);
    expect(seen.at(-1)?.data).toMatchObject({ type: 'done', status: 'completed' });
    expect(seen).toEqual(await reader.rest());
    expect(nodes.notes.map(({ text }) => text)).toEqual(['the build is green']);
    expect((await nodes.approve(a, approval.data['id'])).status).toBe(200);
    expect((await nodes.approve(b, approval.data['id'], { approved: false })).status).toBe(409);
    await expectSound(c, runId);
  });

  test('streams its tokens through another node while they come', async () => {
    const [a, b] = await three();
    const { runId, reader } = await nodes.run(a, 'slow 1500');
    const follower = await nodes.follow(b, runId);
    await follower.until('token');
    const { status } = await nodes.json<{ status: string }>(b, `/v1/runs/${runId}`);
    expect(status).toBe('running');
    expect(await follower.rest()).toEqual(await reader.rest());
  });

  test('is canceled by a node that does not drive it', async () => {
    const [a, b, c] = await three();
    const { runId, reader } = await nodes.run(a, 'slow 10000');
    await reader.until('token');
    const began = performance.now();
    const canceled = await nodes.request(c, `/v1/runs/${runId}/cancel`, { method: 'POST' });
    expect(canceled.status).toBe(202);
    const frames = await nodes.framesOf(b, runId);
    expect(frames.at(-1)?.data).toMatchObject({ type: 'done', status: 'canceled' });
    expect(performance.now() - began).toBeLessThan(8_000);
    await reader.close();
    await expectSound(b, runId);
  });

  test('is one, if the same request with an idempotency key comes to two nodes at once', async () => {
    const [a, b, c] = await three();
    for (let round = 0; round < 5; round += 1) {
      const answers = await Promise.all(
        [a, b, c, a, b, c].map((node) =>
          nodes.request(node, '/v1/runs', {
            body: { model: 'demo', input: 'say 3' },
            headers: { 'idempotency-key': `round ${round}` },
          }),
        ),
      );
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 200]);
      expect(new Set(answers.map(({ headers }) => headers.get('x-run-id'))).size).toBe(1);
      const replayed = answers.map(({ headers }) => headers.get('idempotent-replayed'));
      expect(replayed.filter((value) => value === null)).toHaveLength(1);
      await Promise.all(answers.map((answer) => answer.text()));
    }
    const { runs } = await nodes.json<{ runs: unknown[] }>(a, '/v1/runs');
    expect(runs).toHaveLength(5);
  });
});

describe('a node that is killed', () => {
  test('in the middle of an answer: the run ends elsewhere, in under 20 s', async () => {
    const [a, b] = await three();
    const { runId, reader } = await nodes.run(a, 'slow 3000');
    const follower = await nodes.follow(b, runId);
    await follower.until('token');
    await a.kill();
    const began = performance.now();
    await reader.rest().catch(() => undefined);
    const seen = await follower.rest();
    expect(performance.now() - began).toBeLessThan(20_000);
    expect(seen.at(-1)?.data).toMatchObject({ type: 'done', status: 'completed' });
    expect(seen.some(({ data }) => data.type === 'reset')).toBe(true);
    await expectSound(b, runId);
  }, 40_000);

  test('with an approval pending: another node sends the note, once', async () => {
    const [a, b, c] = await three();
    const { runId, reader } = await nodes.run(a, 'notify the build is green');
    const approval = await reader.until('approval_requested');
    await a.kill();
    await reader.close().catch(() => undefined);
    const answers = await Promise.all(
      [b, c].map((node) => nodes.approve(node, approval.data['id'])),
    );
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    const frames = await nodes.framesOf(c, runId);
    expect(frames.at(-1)?.data).toMatchObject({ type: 'done', status: 'completed' });
    expect(nodes.notes).toHaveLength(1);
    await expectSound(b, runId);
  }, 40_000);

  test('with a tool running that must not run twice: another node requests an outcome approval', async () => {
    const [a, b, c] = await three({
      entry: 'test/support/servers/blocking-tools.ts',
      env: { TEST_HOLD: 'yes' },
    });
    const { runId, reader } = await nodes.run(a, 'use pay {"text":"once"}', ['pay']);
    await until(async () => nodes.notes.length === 1);
    const follower = await nodes.follow(b, runId);
    await a.kill();
    await reader.close().catch(() => undefined);
    const approval = await follower.until('approval_requested');
    expect(approval.data).toMatchObject({ kind: 'outcome', tool: 'pay' });
    await nodes.approve(c, approval.data['id'], {
      outcome: 'completed',
      output: { wrote: 'once' },
    });
    const seen = await follower.rest();
    expect(seen.at(-1)?.data).toMatchObject({ type: 'done', status: 'completed' });
    expect(nodes.notes).toHaveLength(1);
    await expectSound(c, runId);
  }, 40_000);
});

describe('a node that stops or freezes', () => {
  test('shuts down: its run continues on another node at once, long before its lease would end', async () => {
    const [a, b] = await three({ env: { RELAY_LEASE_TTL_MS: '60000' } });
    const { runId, reader } = await nodes.run(a, 'slow 2000');
    const follower = await nodes.follow(b, runId);
    await reader.until('token');
    await a.stop();
    const began = performance.now();
    const seen = await follower.rest();
    expect(performance.now() - began).toBeLessThan(15_000);
    expect(seen.at(-1)?.data).toMatchObject({ type: 'done', status: 'completed' });
    await expectSound(b, runId);
  }, 40_000);

  test('freezes past its lease: it writes nothing when it continues', async () => {
    const [a, b, c] = await three();
    const { runId, reader } = await nodes.run(a, 'slow 4000');
    const follower = await nodes.follow(b, runId);
    await reader.until('token');
    a.sleep();
    const seen = await follower.rest();
    expect(seen.at(-1)?.data).toMatchObject({ type: 'done', status: 'completed' });
    const before = await expectSound(b, runId);
    a.wake();
    // It is awake again, and has tried to go on.
    const after = await nodes.run(a, 'say 2');
    await after.reader.rest();
    await reader.rest().catch(() => undefined);
    expect(await nodes.journal(c, runId)).toEqual(before);
    expect(await nodes.framesOf(a, runId)).toEqual(seen);
  }, 40_000);
});

describe('chats on three nodes', () => {
  const chat = async (place: number) => {
    const response = await nodes.request(nodes.node(place), '/chat', {
      body: { model: 'demo', messages: [{ role: 'user', content: 'notify somebody' }] },
    });
    const reader = new FrameReader(response);
    const { sessionId } = (await reader.until('connected')).data;
    const approvalId = (await reader.until('relay')).data['id'];
    return { runId: response.headers.get('x-run-id') ?? '', reader, sessionId, approvalId };
  };
  const answer = (place: number, { sessionId, approvalId }: Awaited<ReturnType<typeof chat>>) =>
    nodes.request(nodes.node(place), `/chat/relay/${String(approvalId)}`, {
      body: { sessionId, response: { approved: true } },
    });

  test('any node can answer, and a node that starts does not end the chats of others', async () => {
    await three();
    const open = await chat(0);
    await nodes.add();
    expect(await (await answer(3, open)).json()).toEqual({ success: true });
    const frames = await open.reader.rest();
    expect(frames.at(-1)?.data.type).toBe('harness_end');
    expect(nodes.notes).toHaveLength(1);
  });

  test('one whose node was killed is over, and its run is canceled by another node', async () => {
    const [a, b] = await three();
    const open = await chat(0);
    await a.kill();
    await open.reader.close().catch(() => undefined);
    await until(async () => {
      const run = await nodes.json<{ status: string }>(b, `/v1/runs/${open.runId}`);
      return run.status === 'canceled';
    }, 'the end of the orphaned chat');
    expect((await answer(2, open)).status).toBe(404);
    expect(nodes.notes).toEqual([]);
  }, 40_000);
});

describe('what is set on one node holds on all', () => {
  test('keys, the kill switch and new tenants, before the next poll', async () => {
    const [a, b, c] = await three();
    const made = await nodes.bootstrap('--tenant', 'acme');
    const asAcme = { authorization: `Bearer ${made.apiKey}` };
    expect((await nodes.request(b, '/v1/runs', { headers: asAcme })).status).toBe(200);

    const key = await nodes.json<{ id: string; apiKey: string }>(a, '/v1/keys', {
      body: { name: 'ci', scopes: ['runs'] },
      headers: asAcme,
    });
    const asCi = { authorization: `Bearer ${key.apiKey}` };
    const feed = await nodes.request(b, '/v1/feed', { headers: asCi });
    expect(feed.status).toBe(200);
    await nodes.request(a, `/v1/keys/${key.id}`, { method: 'DELETE', headers: asAcme });
    const revoked = performance.now();
    expect((await nodes.request(c, '/v1/runs', { headers: asCi })).status).toBe(401);
    await feed.text().catch(() => '');
    expect(performance.now() - revoked).toBeLessThan(8_000);

    const paused = await nodes.request(a, '/v1/tenant', {
      method: 'PUT',
      body: { paused: true },
      headers: asAcme,
    });
    expect(paused.status).toBe(200);
    const pausedAt = performance.now();
    await until(async () => {
      // A run that slipped in is stopped before its first word, for which a caller would wait.
      const options = { body: { model: 'demo', input: 'say 1' }, signal: AbortSignal.timeout(300) };
      const response = nodes.request(c, '/v1/runs', { ...options, headers: asAcme });
      return (await response.catch(() => undefined))?.status === 409;
    });
    expect(performance.now() - pausedAt).toBeLessThan(8_000);
  });
});

describe('the start on a database', () => {
  test('without a master key, or with another one than the others, ends in one clear line', async () => {
    nodes = await Nodes.start({ count: 1 });
    for (const [masterKey, complaint] of [
      ['', /RELAY_DATABASE_URL needs RELAY_MASTER_KEY/],
      ['cd'.repeat(32), /The master key does not match the one/],
    ] as const) {
      const refused = await nodes.add({ RELAY_MASTER_KEY: masterKey }).catch((error) => error);
      expect(String(refused)).toMatch(complaint);
      const lines = String(refused)
        .split('\n')
        .slice(1)
        .filter((line) => line.trim() !== '');
      expect(lines).toHaveLength(1);
    }
  });
});
