import { defaultSettings, firstOutputTimeoutMs, ProviderFailure, Supervisor } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  ManualClock,
  text,
  toolCall,
} from '@relay/core/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import { ask, until } from '../support/kernel.ts';
import {
  createStreamingModel,
  endOf,
  finished,
  journal,
  lastOf,
  ofType,
  openFixture,
  resultsIn,
} from './fixture.ts';

const well = () => [[text('Well.'), finish()]];
const busy = (retryAfterMs?: number) =>
  new ProviderFailure('Busy', {
    retryable: true,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });

function fail(value: unknown): never {
  throw value;
}

describe('a provider that fails for now', () => {
  test('before it answers is asked again, with the same question', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel(
      () => fail(busy()),
      () => fail(busy()),
      well,
    );
    const kernel = await boot({ model });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(model.requests).toHaveLength(3);
    expect(model.requests[2]).toEqual(model.requests[0]);
    expect(endOf(events)).toMatchObject({ status: 'completed', output: 'Well.' });
    expect(ofType(events, 'run.summarized')[0]?.trust.retryAttempts).toBe(2);
    expect(ofType(events, 'run.errored')).toEqual([]);
  });

  test('in the middle of its answer is called again; its text and calls are discarded', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay', allowedByDefault: true });
    const model = createStreamingModel(async function* () {
      yield [text('I would ')];
      yield [text('rather')];
      yield [toolCall('call_1', 'pay', {})];
      fail(busy());
    }, well);
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    const [first, second] = ofType(events, 'turn.started');
    expect(ofType(events, 'turn.discarded')).toMatchObject([
      {
        reason: 'retry',
        code: 'provider_failed',
        turn: 1,
        after: first?.seq,
        textId: first?.textId,
      },
    ]);
    expect(second).toMatchObject({ turn: 1 });
    expect(second?.textId).not.toBe(first?.textId);
    expect(ofType(events, 'tool.called')).toEqual([]);
    expect(tool.executions).toEqual([]);
    expect(endOf(events).output).toBe('Well.');
    const next = await ask(kernel, { conversationId: run.conversationId });
    await finished(kernel, next.id);
    expect(JSON.stringify(lastOf(model.requests).messages)).not.toContain('rather');
  });

  test('by ending its answer without finishing it is asked again', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay', allowedByDefault: true });
    const cut = () => [[text('Half of ')], [toolCall('call_1', 'pay', {})]];
    const model = createStreamingModel(cut, well);
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(model.requests).toHaveLength(2);
    expect(ofType(events, 'turn.discarded')).toMatchObject([{ reason: 'retry' }]);
    expect(endOf(events).output).toBe('Well.');
    expect(tool.executions).toEqual([]);
  });

  test('is called again after the time that it asks for', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const model = createStreamingModel(() => fail(busy(20_000)), well);
    const kernel = await boot({ model, clock });
    const run = await ask(kernel);
    await until(async () => clock.sleepers === 3, 'the pause');
    await clock.advance(19_999);
    expect(model.requests).toHaveLength(1);
    await clock.advance(1);
    const events = await finished(kernel, run.id);
    expect(model.requests).toHaveLength(2);
    const retry = { attempt: 1, delayMs: 20_000 };
    expect(ofType(events, 'turn.discarded')).toMatchObject([{ code: 'provider_failed', retry }]);
  });

  test('fails the run if it asks for more than a minute', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const model = createStreamingModel(() => fail(busy(60_001)), well);
    const kernel = await boot({ model, clock });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(model.requests).toHaveLength(1);
    expect(endOf(events)).toMatchObject({
      status: 'failed',
      error: { code: 'provider_failed', retryable: true },
    });
  });

  test('is called again for about a minute in all, and then fails the run', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const model = createStreamingModel(() => fail(busy()));
    const { providerAttempts } = defaultSettings;
    const kernel = await boot({ model, clock, settings: { providerAttempts } });
    const startedAt = clock.now();
    const run = await ask(kernel, { surface: 'runtime' });
    const attempts = () => model.requests.length;
    for (let attempt = 1; attempt < providerAttempts; attempt += 1) {
      await until(async () => attempts() === attempt && clock.sleepers === 3, `pause ${attempt}`);
      for (let ms = 0; attempts() === attempt && ms < 60_000; ms += 250) await clock.advance(250);
    }
    expect(endOf(await finished(kernel, run.id))).toMatchObject({ status: 'failed' });
    expect(attempts()).toBe(9);
    expect(clock.now() - startedAt).toBeGreaterThan(30_000);
    expect(clock.now() - startedAt).toBeLessThan(65_000);
  });

  test('fails the run while POST /v1/runs still waits for the first output', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const model = createStreamingModel(() => fail(busy()));
    const { providerAttempts } = defaultSettings;
    const kernel = await boot({ model, clock, settings: { providerAttempts } });
    const startedAt = clock.now();
    const run = await ask(kernel, { surface: 'runs' });
    const hasEnded = async () => ofType(await journal(kernel, run.id), 'run.ended').length > 0;
    for (;;) {
      await until(async () => clock.sleepers === 3 || (await hasEnded()), 'a pause or the end');
      if (await hasEnded()) break;
      await clock.advance(100);
    }
    expect(endOf(await finished(kernel, run.id))).toMatchObject({ status: 'failed' });
    expect(model.requests.length).toBeGreaterThan(3);
    expect(clock.now() - startedAt).toBeLessThan(firstOutputTimeoutMs);
  });

  test('is waited for if it asks for it, although POST /v1/runs begins its response', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const model = createStreamingModel(() => fail(busy(20_000)), well);
    const kernel = await boot({ model, clock });
    const run = await ask(kernel, { surface: 'runs' });
    await until(async () => clock.sleepers === 3, 'the pause');
    await clock.advance(20_000);
    expect(endOf(await finished(kernel, run.id))).toMatchObject({ status: 'completed' });
  });

  test('fails the run when the waiting time is used up', async () => {
    const { boot } = await openFixture();
    const clock = new ManualClock();
    const model = createStreamingModel(() => fail(busy(600)));
    const kernel = await boot({ model, clock, settings: { providerWaitMs: 1_000 } });
    const run = await ask(kernel);
    await until(async () => clock.sleepers === 3, 'the pause');
    await clock.advance(600);
    expect(endOf(await finished(kernel, run.id))).toMatchObject({ status: 'failed' });
    expect(model.requests).toHaveLength(2);
  });

  test('fails the run after the allowed number of attempts', async () => {
    const { boot } = await openFixture();
    const model = createStreamingModel(async function* () {
      yield [text('Nearly')];
      fail(busy());
    });
    const kernel = await boot({ model, settings: { providerAttempts: 3 } });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(model.requests).toHaveLength(3);
    expect(ofType(events, 'turn.discarded')).toHaveLength(2);
    expect(ofType(events, 'run.summarized')[0]?.trust.retryAttempts).toBe(2);
    expect(endOf(events)).toMatchObject({ status: 'failed', error: { message: 'Busy' } });
  });
});

describe('a provider that fails for good', () => {
  test('ends the run with an error, then its terminal events', async () => {
    const { boot } = await openFixture();
    const refusal = new ProviderFailure('No such key', { retryable: false });
    const model = createStreamingModel(() => fail(refusal));
    const kernel = await boot({ model });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    const error = { code: 'provider_rejected', message: 'No such key', retryable: false };
    expect(model.requests).toHaveLength(1);
    expect(events.slice(-4)).toMatchObject([
      { type: 'run.errored', error },
      { type: 'agent.ended', reason: 'failed' },
      { type: 'run.summarized' },
      { type: 'run.ended', status: 'failed', error },
    ]);
    const stored = await kernel.store.tenant(kernel.tenantId).readRun(run.id);
    expect(stored).toMatchObject({ status: 'failed', error });
  });

  test('in a later turn leaves what was done on record', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'pay', allowedByDefault: true });
    const model = createScriptedModel([
      [toolCall('call_1', 'pay', {}), finish()],
      new ProviderFailure('No more credit', { retryable: false }),
    ]);
    const kernel = await boot({ model, tools: [tool] });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'tool.completed')).toHaveLength(1);
    expect(endOf(events)).toMatchObject({
      status: 'failed',
      usage: { inputTokens: 3, outputTokens: 2 },
    });
    expect(ofType(events, 'run.summarized')[0]?.trust).toMatchObject({ toolsInvoked: ['pay'] });
  });

  test('leaves its conversation usable, with its text and results', async () => {
    const { boot } = await openFixture();
    const tool = createRecordingTool({ name: 'look', allowedByDefault: true });
    const model = createStreamingModel(
      () => [[toolCall('call_1', 'look', {}), finish()]],
      async function* () {
        yield [text('So far ')];
        fail(new ProviderFailure('Gone', { retryable: false }));
      },
      well,
    );
    const kernel = await boot({ model, tools: [tool] });
    const first = await ask(kernel);
    expect(endOf(await finished(kernel, first.id))).toMatchObject({
      status: 'failed',
      output: 'So far ',
    });
    const second = await ask(kernel, { conversationId: first.conversationId });
    expect(endOf(await finished(kernel, second.id)).output).toBe('Well.');
    expect(resultsIn(lastOf(model.requests))).toHaveLength(1);
    expect(JSON.stringify(lastOf(model.requests).messages)).toContain('So far');
  });

  test.each<[string, unknown]>([
    ['an error of its own', new RangeError('Out of tokens')],
    ['text', 'Out of tokens'],
    ['undefined', undefined],
    ['an object', { status: 500 }],
    ['an object that has no text', Object.create(null)],
    ['an error with more than text', Object.assign(new Error('x'), { message: [7n] })],
  ])('by throwing %s ends the run in the same way', async (_what, thrown) => {
    const { boot } = await openFixture();
    const model = createStreamingModel(() => fail(thrown));
    const kernel = await boot({ model });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(events.slice(-4).map(({ type }) => type)).toEqual([
      'run.errored',
      'agent.ended',
      'run.summarized',
      'run.ended',
    ]);
    const error = { message: expect.any(String), retryable: false };
    expect(endOf(events)).toMatchObject({ status: 'failed', error });
    expect(model.requests).toHaveLength(1);
  });

  test('before it has a stream at all ends the run in the same way', async () => {
    const { boot } = await openFixture();
    const kernel = await boot({ model: { stream: () => fail(new Error('No socket')) } });
    const run = await ask(kernel);
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'run.errored')).toHaveLength(1);
    expect(endOf(events).error?.message).toContain('No socket');
  });

  test('because no provider offers the model ends the run without a turn', async () => {
    const { boot } = await openFixture();
    const kernel = await boot({ model: createScriptedModel([]) });
    await kernel.stop();
    const models = () => ({ resolve: () => undefined, list: () => [] });
    const engine = { ...kernel.control.engine, models };
    const supervisor = new Supervisor(engine);
    onTestFinished(() => supervisor.stop());
    const run = await ask({ ...kernel, control: { engine, supervisor } }, { model: 'gone' });
    const events = await finished(kernel, run.id);
    expect(ofType(events, 'turn.started')).toEqual([]);
    expect(endOf(events)).toMatchObject({ status: 'failed', error: { code: 'unknown_model' } });
  });
});
