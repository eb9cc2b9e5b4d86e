/** That runs together stay within a budget, on every store and with several nodes. */
import { type ModelEvent, type ModelRequest, type RunBudget, startOf } from '@relay/core';
import { createRecordingTool, text, toolCall } from '@relay/core/testing';
import { RelayError } from '@relay/protocol';
import { afterAll, describe, expect, test } from 'vitest';
import { ask, type Kernel, until } from '../support/kernel.ts';
import { createStreamingModel, endOf, finished, openFixture, untilStored } from './fixture.ts';
import { dropDatabases } from '../support/postgres-stores.ts';
import { allStores, mortal, sqlite } from './stores.ts';

afterAll(dropDatabases);

const look = createRecordingTool({ name: 'look', allowedByDefault: true });
const inputTokens = 20;

/** Answers of up to 900 tokens, cut where the request says so. Three turns call a tool. */
function* answer({ messages, maxOutputTokens = Infinity }: ModelRequest): Generator<ModelEvent[]> {
  const turn = messages.filter(({ role }) => role === 'assistant').length;
  const outputTokens = Math.min(900, maxOutputTokens);
  yield [text('a')];
  if (turn < 3 && outputTokens === 900) yield [toolCall(`look_${turn}`, 'look', {})];
  const reason = outputTokens < 900 ? 'length' : turn < 3 ? 'tool_calls' : 'stop';
  yield [{ type: 'finish', reason, usage: { inputTokens, outputTokens } }];
}

const budgetOf = (budget: Partial<RunBudget>) => async (): Promise<readonly RunBudget[]> => [
  { period: 'day', since: startOf('day', new Date()), ...budget },
];

/** The runs that were started, and the messages of those that were refused. */
async function startAll(kernels: readonly Kernel[], count: number) {
  const starts = await Promise.allSettled(
    Array.from({ length: count }, (_, n) => {
      const kernel = kernels[n % kernels.length];
      if (kernel === undefined) throw new Error('There is no kernel');
      return ask(kernel, { tools: ['look'], tenantId: kernels[0]?.tenantId ?? '' });
    }),
  );
  const refused = starts.flatMap((start) => {
    if (start.status === 'fulfilled') return [];
    const { reason } = start as { reason: unknown };
    if (!(reason instanceof RelayError) || reason.code !== 'budget_exceeded') throw reason;
    return [reason.message];
  });
  return {
    runIds: starts.flatMap((start) => (start.status === 'fulfilled' ? [start.value.id] : [])),
    refused,
  };
}

describe.each(allStores)('budgets on $name', (kind) => {
  test('exactly as many runs start as may run at the same time, of 200 on two nodes', async () => {
    const { boot } = await openFixture(kind);
    const gate = Promise.withResolvers<void>();
    const model = createStreamingModel(async function* (request) {
      await gate.promise;
      yield* answer(request);
    });
    const budgets = budgetOf({ concurrentRuns: 5 });
    const nodes = [await boot({ model, budgets }), await boot({ model, budgets })];
    const { runIds, refused } = await startAll(nodes, 200);
    expect(runIds).toHaveLength(5);
    expect(new Set(refused)).toEqual(
      new Set(['The tenant has reached its limit of 5 concurrent runs']),
    );
    gate.resolve();
    const [first] = nodes as [Kernel];
    await Promise.all(runIds.map((id) => finished(first, id)));
    expect((await startAll(nodes, 1)).runIds).toHaveLength(1);
  });

  test('50 simultaneous runs of several turns use no more tokens than the budget', async () => {
    const { boot } = await openFixture(kind);
    const tokens = 40_000;
    const model = createStreamingModel(answer);
    const budgets = budgetOf({ tokens });
    const options = { model, budgets, tools: [look] };
    const nodes = [await boot(options), await boot(options)];
    const [first] = nodes as [Kernel];
    const { runIds } = await startAll(nodes, 50);
    const ends = await Promise.all(runIds.map(async (id) => endOf(await finished(first, id))));
    const used = ends.reduce((sum, { usage }) => sum + usage.inputTokens + usage.outputTokens, 0);
    expect(used).toBeLessThanOrEqual(tokens);
    expect(ends.some(({ status }) => status === 'completed')).toBe(true);
    // What was reserved and not used is free again.
    const tenant = first.store.tenant(first.tenantId);
    const [budget] = await budgets();
    expect((await tenant.readBudgetUse(budget as RunBudget, '')).tokens).toBe(used);
    expect(used).toBeGreaterThan(4_000);
  });
});

describe('a run', () => {
  test('ends with budget_exceeded when its answer needs more than what can be reserved', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel(answer);
    const kernel = await boot({ model, tools: [look], budgets: budgetOf({ tokens: 2_000 }) });
    const { id } = await ask(kernel, { tools: ['look'] });
    const ended = endOf(await finished(kernel, id));
    expect(ended).toMatchObject({
      status: 'failed',
      error: {
        code: 'budget_exceeded',
        message: 'The budget allowed 62 tokens for the answer, which needed more',
      },
    });
    expect(ended.usage.inputTokens + ended.usage.outputTokens).toBeLessThanOrEqual(2_000);
    expect(model.requests.every(({ maxOutputTokens = 0 }) => maxOutputTokens <= 2_000)).toBe(true);
  });

  test('ends with budget_exceeded when nothing can be reserved for its next turn', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel(answer);
    const kernel = await boot({ model, tools: [look], budgets: budgetOf({ tokens: 1_920 }) });
    const { id } = await ask(kernel, { tools: ['look'] });
    expect(endOf(await finished(kernel, id)).error).toMatchObject({
      code: 'budget_exceeded',
      message: 'The tenant has too little left of its 1920 tokens for this day',
    });
    expect(model.requests).toHaveLength(2);
  });

  test('is not started if the budget has too little left for its first turn', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel(answer);
    const kernel = await boot({ model, tools: [look], budgets: budgetOf({ tokens: 20 }) });
    const messages = [{ role: 'user', content: 'x'.repeat(80) }] as const;
    await expect(ask(kernel, { messages })).rejects.toMatchObject({
      code: 'budget_exceeded',
      message: 'The tenant has too little left of its 20 tokens for this day',
    });
  });

  test('stays within a budget in dollars', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel(answer);
    const prices = { scripted: { inputPerMillion: 10, outputPerMillion: 1_000 } };
    const budgets = budgetOf({ costUsd: 2 });
    const kernel = await boot({ model, prices, tools: [look], budgets });
    const { id } = await ask(kernel, { tools: ['look'] });
    const { usage, error } = endOf(await finished(kernel, id));
    expect(usage.costUsd).toBeLessThanOrEqual(2);
    expect(error?.code).toBe('budget_exceeded');
  });

  test('without a budget is not bounded', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel(answer);
    const kernel = await boot({ model, tools: [look] });
    const { id } = await ask(kernel, { tools: ['look'] });
    expect(endOf(await finished(kernel, id)).status).toBe('completed');
    expect(model.requests.map(({ maxOutputTokens }) => maxOutputTokens)).toEqual(
      model.requests.map(() => undefined),
    );
  });

  test('that is resumed after a crash keeps its place in the budget, and gives it back at its end', async () => {
    const { store: inner, boot, bootWithoutCleanup } = await openFixture(sqlite);
    const { store, kill } = mortal(inner);
    const budgets = budgetOf({ tokens: 100_000, concurrentRuns: 1 });
    const [budget] = await budgets();
    const stuck = createStreamingModel(async function* () {
      yield [text('a')];
      await new Promise(() => undefined);
    });
    const first = await bootWithoutCleanup({ store, model: stuck, tools: [look], budgets });
    const { id, tenantId } = await ask(first, { tools: ['look'] });
    await untilStored(first, id, { type: 'text.appended' });
    kill();
    const use = async () =>
      (await inner.tenant(tenantId).readBudgetUse(budget as RunBudget, '')).tokens;
    expect(await use()).toBeGreaterThan(4_000);
    const model = createStreamingModel(answer);
    const kernel = await boot({ model, tools: [look], budgets, restarted: true });
    await expect(ask(kernel, { tenantId })).rejects.toMatchObject({ code: 'budget_exceeded' });
    const events = await until(async () => {
      const run = await inner.tenant(tenantId).readRun(id);
      return run?.status === 'completed' ? run : undefined;
    });
    const { inputTokens: input, outputTokens: output } = events.usage;
    expect(await use()).toBe(input + output);
  });
});
