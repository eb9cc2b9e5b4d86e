/** Function tools with a server in the same process. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createClient, defineTool, type ToolContext } from '@relay/sdk';
import { z } from 'zod';
import { until } from '../support/kernel.ts';
import { verifies } from '../conformance/verifies.ts';
import { type InProcessServer, startInProcess } from './environment.ts';

const userSchema = z.object({
  id: z.string().startsWith('u_'),
  fields: z.array(z.string()).default([]),
});

/** A function tool that records its calls. */
function recording(run: (input: z.output<typeof userSchema>, context: ToolContext) => unknown) {
  const calls: ToolContext[] = [];
  const getUser = defineTool({
    name: 'get_user',
    description: 'Finds a user by id',
    schema: userSchema,
    execute(input, context) {
      calls.push(context);
      return run(input, context);
    },
  });
  return { calls, getUser };
}

const ask = (...ids: readonly string[]) =>
  ids.map((id) => `use get_user ${JSON.stringify({ id })}`).join('\n');

describe('function tool', () => {
  let server: InProcessServer;
  beforeAll(async () => {
    server = await startInProcess();
  });
  afterAll(() => server.dispose());

  test('is declared, called and its result posted', async () => {
    verifies('003:tool-results:sdk-posts');
    const { calls, getUser } = recording(({ id, fields }) => ({ id, fields, name: 'Ada' }));
    const run = await server.client.runs.create({
      model: 'demo',
      input: ask('u_001'),
      tools: [getUser],
    });
    const events = [];
    for await (const event of run) events.push(event);
    expect(events.find(({ type }) => type === 'tool_result')).toMatchObject({
      output: { id: 'u_001', fields: [], name: 'Ada' },
    });
    expect(await run.text()).toContain('Ada');
    const [call] = calls;
    expect(call).toMatchObject({
      runId: run.id,
      idempotencyKey: `${run.id}:${call?.toolCallId}`,
    });
    expect(server.lines.slice(-3).map((line) => line.replaceAll(run.id, 'ID'))).toEqual([
      'POST /v1/runs',
      `POST /v1/runs/ID/tool-results/${call?.toolCallId}/claim`,
      `POST /v1/runs/ID/tool-results/${call?.toolCallId}`,
    ]);
    const keys: string[] = [];
    for await (const event of server.client.runs.events(run.id)) {
      if (event.type === 'tool.started') keys.push(event.idempotencyKey);
    }
    expect(keys).toEqual([call?.idempotencyKey]);
  });

  test('with needsApproval runs only after a person approved the call, with what was approved', async () => {
    const inputs: unknown[] = [];
    const approved: boolean[] = [];
    const deleteUser = defineTool({
      name: 'delete_user',
      schema: z.object({ id: z.string() }),
      needsApproval: true,
      execute(input) {
        inputs.push(input);
        return { deleted: input.id, afterApproval: approved.length > 0 };
      },
    });
    const run = await server.client.runs.create({
      model: 'demo',
      input: 'use delete_user {"id": "u_1"}',
      tools: [deleteUser],
      permissions: { allowlist: [{ tool: 'delete_user' }] },
    });
    const seen: unknown[] = [];
    for await (const event of run) {
      if (event.type === 'tool_call') seen.push(['tool_call', event.input]);
      if (event.type !== 'approval_requested') continue;
      seen.push('approval_requested');
      expect(event).toMatchObject({ kind: 'permission', rule: { list: 'needsApproval' } });
      // Nobody can claim or answer the call before the decision.
      const path = `/v1/runs/${run.id}/tool-results/${event.toolCallId}`;
      for (const [step, body] of [
        ['/claim', { claimId: '3f6c1c2e-8d2f-4c61-9a54-6d7fb2c1e001' }],
        ['', { output: 'too early' }],
      ] as const) {
        const response = await server.fetch(`http://127.0.0.1:4000${path}${step}`, {
          method: 'POST',
          headers: {
            authorization: `Bearer ${server.apiKey}`,
            'content-type': 'application/json',
          },
          body: JSON.stringify(body),
        });
        expect(response.status).toBe(404);
      }
      expect(inputs).toEqual([]);
      approved.push(true);
      await server.client.approvals.approve(event.id, { input: { id: 'u_2' } });
    }
    expect(seen).toEqual(['approval_requested', ['tool_call', { id: 'u_2' }]]);
    expect(inputs).toEqual([{ id: 'u_2' }]);
    expect(await run.text()).toContain('"deleted":"u_2","afterApproval":true');
  });

  test('with needsApproval never runs if the call is denied or nobody can be asked', async () => {
    const inputs: unknown[] = [];
    const deleteUser = defineTool({
      name: 'delete_user',
      schema: z.object({ id: z.string() }),
      needsApproval: true,
      execute: (input) => void inputs.push(input),
    });
    const body = { model: 'demo', input: 'use delete_user {"id": "u_1"}', tools: [deleteUser] };
    const denied = await server.client.runs.create(body, {
      onApproval: () => ({ approved: false, reason: 'Not this one' }),
    });
    expect(await denied.text()).toContain('Not this one');
    const headless = await server.client.runs.create({ ...body, permissions: { headless: true } });
    expect(await headless.text()).toContain('denied');
    expect(inputs).toEqual([]);
  });

  test('is called several times in parallel', async () => {
    let running = 0;
    let together = 0;
    let meet = () => {};
    const met = new Promise<void>((resolve) => (meet = resolve));
    const { calls, getUser } = recording(async ({ id }) => {
      together = Math.max(together, (running += 1));
      if (running === 3) meet();
      await met;
      return id;
    });
    const run = await server.client.runs.create({
      model: 'demo',
      input: ask('u_1', 'u_2', 'u_3'),
      tools: [getUser],
    });
    await run.result();
    expect(together).toBe(3);
    expect(new Set(calls.map(({ toolCallId }) => toolCallId)).size).toBe(3);
  });

  test('reports errors and invalid input to the model', async () => {
    const { calls, getUser } = recording(() => {
      throw new Error('No such user');
    });
    const run = await server.client.runs.create({
      model: 'demo',
      input: ask('u_404', 'wrong'),
      tools: [getUser],
    });
    const outputs: unknown[] = [];
    for await (const event of run) if (event.type === 'tool_result') outputs.push(event.output);
    expect(calls).toHaveLength(1);
    expect(JSON.stringify(outputs)).toContain('No such user');
    expect(JSON.stringify(outputs)).toContain('Invalid input: id');
    expect(await run.result()).toMatchObject({ status: 'completed' });
  });

  test('is run by only one of the clients that follow the run', async () => {
    const one = recording(() => 'one');
    const two = recording(() => 'two');
    const runs = [server.client, server.clientWith(server.apiKey)].map((client) => client.runs);
    const run = await runs[0]!.create({ model: 'demo', input: ask('u_1'), tools: [one.getUser] });
    const other = runs[1]!.stream(run.id, { tools: [two.getUser] });
    const results = await Promise.all([run.result(), other.result()]);
    expect(results[0]).toEqual(results[1]);
    expect(one.calls.length + two.calls.length).toBe(1);
  });

  test('is aborted when its run is canceled', async () => {
    let aborted: unknown;
    const { calls, getUser } = recording(
      (_, { signal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => {
            aborted = signal.reason;
            reject(signal.reason as Error);
          });
        }),
    );
    const run = await server.client.runs.create({
      model: 'demo',
      input: ask('u_1'),
      tools: [getUser],
    });
    const result = run.result();
    await until(async () => calls.length === 1);
    await run.cancel();
    expect(await result).toMatchObject({ status: 'canceled' });
    expect(aborted).toBeInstanceOf(Error);
  });

  test('is aborted after its timeout', async () => {
    let signal: AbortSignal | undefined;
    const getUser = defineTool({
      name: 'get_user',
      schema: userSchema,
      timeoutMs: 300,
      execute(_, context) {
        signal = context.signal;
        return new Promise(() => {});
      },
    });
    const run = await server.client.runs.create({
      model: 'demo',
      input: ask('u_1'),
      tools: [getUser],
    });
    const outputs: unknown[] = [];
    for await (const event of run) if (event.type === 'tool_result') outputs.push(event.output);
    expect(outputs).toMatchObject([{ status: 'error', code: 'tool_timed_out' }]);
    expect(signal?.aborted).toBe(true);
  });

  test('has one result, although it was posted several times', async () => {
    let lost = 0;
    const client = createClient({
      baseUrl: 'http://localhost',
      apiKey: server.apiKey,
      async fetch(url, init) {
        const response = await server.fetch(url, init);
        if (!/tool-results\/[^/]+$/.test(url) || lost >= 2) return response;
        lost += 1;
        throw new TypeError('fetch failed');
      },
    });
    const { calls, getUser } = recording(() => ({ at: Math.random() }));
    const run = await client.runs.create({ model: 'demo', input: ask('u_1'), tools: [getUser] });
    expect(await run.result()).toMatchObject({ status: 'completed' });
    expect(calls).toHaveLength(1);
    expect(lost).toBeGreaterThan(0);
    const completed: string[] = [];
    for await (const { type } of client.runs.events(run.id)) {
      if (type === 'tool.completed') completed.push(type);
    }
    expect(completed).toHaveLength(1);
  });
});
