/**
 * Crash before and after every write of a scenario, restart, and compare with the run that was never
 * disturbed. The oracle is what the tools themselves recorded, not what the store says of them.
 */
import {
  recordDecision,
  cancelRun,
  type RunControl,
  type Ids,
  type Model,
  postToolResult,
  type RunRecord,
  type SystemStore,
} from '@relay/core';
import { createCountingIds, ManualClock } from '@relay/core/testing';
import { isEnded, RelayError, type StoredEvent } from '@relay/protocol';
import { createFaultyStore } from '../../packages/store/test/faulty-store.ts';
import { afterAll, describe, expect, test } from 'vitest';
import { allStores, type StoreCall, type StoreKind, wrapStore } from '../loop/stores.ts';
import { dropDatabases } from '../support/postgres-stores.ts';
import { expectSoundJournal } from '../support/invariants.ts';
import {
  ask,
  bootKernel,
  journalOf,
  type Kernel,
  openClientCalls,
  openApprovals,
  person,
  until,
} from '../support/kernel.ts';
import { subTranscriptsOf, transcriptOf } from '../support/transcript.ts';
import type { Scenario } from './scenarios.ts';

interface Crash {
  readonly at: number;
  readonly when: 'before' | 'after';
}

interface Finished {
  readonly events: readonly StoredEvent[];
  readonly row: RunRecord;
  readonly crashed: boolean;
  readonly writes: readonly string[];
  readonly left?: unknown;
}

/**
 * A person who approves what is asked and knows what really happened, and a client who runs its own
 * functions.
 */
async function answerWhatIsAsked(
  kernel: Kernel,
  scenario: Scenario,
  events: readonly StoredEvent[],
): Promise<void> {
  for (const approval of openApprovals(events)) {
    const tool = scenario.tools.find(({ name }) => name === approval.tool);
    const ran = tool?.executions.some(({ toolCallId }) => toolCallId === approval.toolCallId);
    const known =
      ran === true
        ? ({ outcome: 'completed', output: { ran: approval.tool } } as const)
        : ({ outcome: 'rerun' } as const);
    for (const by of scenario.approvers ?? [person]) {
      await recordDecision(kernel.control, kernel.tenantId, {
        approvalId: approval.approvalId,
        always: false,
        reason: null,
        ...(approval.kind === 'outcome' ? known : { approved: true, ...scenario.answer }),
        by,
      });
    }
  }
  for (const { toolCallId, input } of openClientCalls(events)) {
    const ref = { tenantId: kernel.tenantId, runId, toolCallId };
    await postToolResult(kernel.control, ref, { output: { of: input }, failed: false });
  }
}

/** Drives the one run of the store to its end, or until the process dies. */
async function drive(kernel: Kernel, scenario: Scenario) {
  return until(() => look(kernel, scenario), `the end of ${scenario.name}`);
}

/** The run, if it has ended; otherwise people and clients do their part. */
async function look(kernel: Kernel, scenario: Scenario) {
  const ref = { tenantId: kernel.tenantId, runId };
  const run = await kernel.store.tenant(ref.tenantId).readRun(runId);
  const events = await journalOf(kernel.store, ref);
  if (run !== undefined && isEnded(run.status)) return { events, row: run };
  await scenario.acts?.(kernel, ref, events);
  if (scenario.cancels !== true) await answerWhatIsAsked(kernel, scenario, events);
  else if (run?.status === 'waiting') {
    await cancelRun(kernel.control, ref, { reason: 'Enough', by: person });
  }
  return undefined;
}

const conversationId = '01900000-0000-7000-9000-000000000001';
const runId = createCountingIds().next();

async function play(store: SystemStore, scenario: Scenario, crash?: Crash): Promise<Finished> {
  const { model, delegates = [], request = {} } = scenario;
  const tools = [...scenario.tools, ...delegates];
  const made = { ...scenario.options, model, tools };
  const faulty = createFaultyStore(
    store,
    crash === undefined ? {} : { crashAt: crash.at, when: crash.when },
  );
  const undisturbed = async (): Promise<Finished> => {
    const kernel = await bootKernel({ ...made, store: faulty, ids: createCountingIds() });
    await ask(kernel, { ...request, conversationId });
    const ended = await drive(kernel, scenario);
    await kernel.stop();
    return { ...ended, crashed: false, writes: faulty.writes };
  };
  const outcome = await Promise.race([undisturbed(), faulty.crashed]);
  if (outcome !== undefined) return outcome;

  const ids = createCountingIds(1_000_000);
  const kernel = await bootKernel({ ...made, store, ids, restarted: true });
  const run = await store.tenant(kernel.tenantId).readRun(runId);
  // What was never acknowledged, the caller asks again.
  if (run === undefined) {
    const again = createCountingIds();
    await ask({ ...kernel, control: withIds(kernel, again) }, { ...request, conversationId });
  }
  const ended = await drive(kernel, scenario);
  await kernel.stop();
  return { ...ended, crashed: true, writes: faulty.writes };
}

/** What a run cannot come to twice: where it has come to more of them, it has come further. */
const milestones =
  /^(turn\.completed|tool\.(called|completed|failed|denied)|agent\.(ended|switched))$/;

/**
 * The process dies after its first write, and so does the next one, and so on: whatever goes on is
 * read back from the journal again and again. One that has come no further may write once more.
 */
async function playDyingAlways(store: SystemStore, scenario: Scenario) {
  const { model, delegates = [], request = {} } = scenario;
  const made = { ...scenario.options, model, tools: [...scenario.tools, ...delegates] };
  let reached = 0;
  let writes = 1;
  for (let deaths = 0; deaths < 1_000; deaths += 1) {
    const faulty = createFaultyStore(store, { crashAt: writes, when: 'after' });
    const life = async () => {
      const ids = createCountingIds(1_000_000 * (deaths + 1));
      const kernel = await bootKernel({ ...made, store: faulty, ids, restarted: true });
      const run = await faulty.tenant(kernel.tenantId).readRun(runId);
      if (run === undefined) {
        const first = { ...kernel, control: withIds(kernel, createCountingIds()) };
        await ask(first, { ...request, conversationId });
      }
      const ended = await drive(kernel, scenario);
      await kernel.stop();
      return { ...ended, deaths };
    };
    const outcome = await Promise.race([life(), faulty.crashed]);
    if (outcome !== undefined) return outcome;
    const events = await eventsSoFar(store);
    const now = events.filter(({ type }) => milestones.test(type)).length;
    writes = now > reached ? 1 : writes + 1;
    reached = Math.max(now, reached);
  }
  throw new Error(`${scenario.name} does not come to an end`);
}

async function eventsSoFar(store: SystemStore): Promise<StoredEvent[]> {
  const tenantId = await store.tenantOfRun(runId);
  return tenantId === undefined ? [] : journalOf(store, { tenantId, runId });
}

/** Tests each scenario, on every store, with a new process after every step. */
export function dieAlways(scenarios: Readonly<Record<string, () => Scenario>>): void {
  afterAll(dropDatabases);

  describe.each(allStores)('a process that lives for one step on $name', (kind) => {
    test.each(Object.entries(scenarios))(
      'brings the same about as one that lives: %s',
      async (label, create) => {
        const inStore = async <Played extends { events: readonly StoredEvent[]; row: RunRecord }>(
          scenario: Scenario,
          playIn: (store: SystemStore) => Promise<Played>,
        ) => {
          const opened = await kind.open();
          await scenario.prepare?.(opened.store);
          const played = await playIn(opened.store);
          const left = await scenario.leaves?.(opened.store);
          expectSoundJournal(played.events, played.row);
          await opened.dispose();
          return { ...played, left };
        };
        const calm = create();
        const expected = await inStore(calm, (store) => play(store, calm));
        const scenario = create();
        const finished = await inStore(scenario, (store) => playDyingAlways(store, scenario));
        console.info(`${kind.name}, ${label}: ${finished.deaths} deaths, 0 differences`);
        expect(finished.deaths).toBeGreaterThanOrEqual(8);
        expect(transcriptOf(finished.events)).toEqual(transcriptOf(expected.events));
        expect(subTranscriptsOf(finished.events)).toEqual(subTranscriptsOf(expected.events));
        expect(finished.events.at(-1)).toMatchObject(outcomeOf(expected.events));
        expect(finished.left).toEqual(expected.left);
        expectSaneExecutions(scenario, executionsOf(calm));
      },
      120_000,
    );
  });
}

interface StoreFault {
  readonly at: number;
  /** `after`: the call succeeds, and its reply is lost. */
  readonly when: 'before' | 'after';
}

/** They come by the clock, so that they would not be the same ones in every play. */
const byTheClock = new Set<StoreCall['method']>([
  'dueRuns',
  'pausedTenants',
  'renewLeases',
  'runsWithCommands',
]);

/** One process, whose store fails once. Its callers repeat what was not acknowledged. */
async function playWithFault(store: SystemStore, scenario: Scenario, fault?: StoreFault) {
  const { model, delegates = [], request = {} } = scenario;
  const tools = [...scenario.tools, ...delegates];
  const calls: string[] = [];
  let isBooted = false;
  const faulty = wrapStore(store, async (call) => {
    if (!isBooted || byTheClock.has(call.method)) return call.go();
    const fails = calls.push(call.method) === fault?.at;
    const code = calls.length % 2 === 0 ? 'storage_full' : 'storage_failed';
    if (fails && fault?.when === 'before') throw new RelayError(code, 'The store failed');
    const value = await call.go();
    if (fails) throw new RelayError(code, 'The reply was lost');
    return value;
  });
  const clock = new ManualClock();
  const { models } = scenario.options ?? {};
  const kernel = await bootKernel({
    ...scenario.options,
    model: withCredential(model, faulty),
    ...(models === undefined
      ? {}
      : {
          models: Object.fromEntries(
            Object.entries(models).map(([name, each]) => [name, withCredential(each, faulty)]),
          ),
        }),
    tools,
    store: faulty,
    ids: createCountingIds(),
    clock,
  });
  isBooted = true;
  const idempotency = { key: 'play', fingerprint: 'play' };
  const asked = { ...request, conversationId, runId, idempotency };
  await untilStored(() => ask(kernel, asked));
  const ended = await until(async () => {
    await clock.advance(500);
    const observer = { ...kernel, store };
    return untilStored(() => look(observer, scenario));
  }, `the end of ${scenario.name}`);
  await kernel.stop();
  return { ...ended, failed: calls[(fault?.at ?? 0) - 1] };
}

/** A provider's key is read from the store for each call of its model. */
function withCredential(model: Model, store: SystemStore): Model {
  return {
    ...(model.contextTokens === undefined ? {} : { contextTokens: model.contextTokens }),
    async *stream(request, signal) {
      const tenantId = (await store.tenantOfRun(runId)) ?? '';
      await store.tenant(tenantId).readCredential('provider');
      yield* model.stream(request, signal);
    },
  };
}

async function untilStored<Value>(request: () => Promise<Value>): Promise<Value> {
  try {
    return await request();
  } catch (error) {
    if (error instanceof RelayError && error.status === 503) return request();
    throw error;
  }
}

/** Tests each scenario on the given stores: every read and every write fails once. */
export function failEverywhere(
  stores: readonly StoreKind[],
  scenarios: Readonly<Record<string, () => Scenario>>,
): void {
  afterAll(dropDatabases);

  describe.each(stores)('a store that fails at any call on $name', (kind) => {
    test.each(Object.entries(scenarios))(
      'delays a run and changes nothing: %s',
      async (label, create) => {
        const inStore = async (scenario: Scenario, fault?: StoreFault) => {
          const opened = await kind.open();
          await scenario.prepare?.(opened.store);
          const played = await playWithFault(opened.store, scenario, fault);
          const left = await scenario.leaves?.(opened.store);
          await opened.dispose();
          return { ...played, left };
        };
        const calm = create();
        const expected = await inStore(calm);
        let points = 0;
        for (const when of ['before', 'after'] as const) {
          for (let at = 1; ; at += 1) {
            const scenario = create();
            const finished = await inStore(scenario, { at, when });
            if (finished.failed === undefined) break;
            points += 1;
            const place = `${when} call ${at}, ${finished.failed}`;
            expect(finished.events.at(-1), place).toMatchObject(outcomeOf(expected.events));
            expectSoundJournal(finished.events, finished.row);
            expect(transcriptOf(finished.events), place).toEqual(transcriptOf(expected.events));
            expect(subTranscriptsOf(finished.events), place).toEqual(
              subTranscriptsOf(expected.events),
            );
            expect(finished.left, place).toEqual(expected.left);
            expectSaneExecutions(scenario, executionsOf(calm));
          }
        }
        console.info(`${kind.name}, ${label}: ${points} faults, 0 differences`);
        expect(points).toBeGreaterThanOrEqual(2 * 6);
      },
      120_000,
    );
  });
}

function withIds(kernel: Kernel, ids: Ids): RunControl {
  const { engine, supervisor } = kernel.control;
  return { supervisor, engine: { ...engine, ids: { next: () => ids.next() } } };
}

function executionsOf(scenario: Scenario): string[] {
  return scenario.tools.flatMap((tool) =>
    tool.executions.map(
      ({ toolCallId, idempotencyKey, input }) =>
        `${toolCallId} ${idempotencyKey} ${JSON.stringify(input)}`,
    ),
  );
}

/** No tool ran twice by itself; one that may run again kept its key. */
function expectSaneExecutions(scenario: Scenario, undisturbed: readonly string[]): void {
  for (const tool of scenario.tools.filter(({ idempotent }) => !idempotent)) {
    const calls = tool.executions.map(({ toolCallId }) => toolCallId);
    expect(new Set(calls).size).toBe(calls.length);
  }
  expect(new Set(executionsOf(scenario))).toEqual(new Set(undisturbed));
}

/** Tests each scenario, on every store. */
export function crashEverywhere(scenarios: Readonly<Record<string, () => Scenario>>): void {
  afterAll(dropDatabases);

  describe.each(allStores)('a crash at any write on $name', (kind) => {
    test.each(Object.entries(scenarios))(
      'changes nothing: %s',
      async (label, create) => {
        const inStore = async (scenario: Scenario, crash?: Crash) => {
          const opened = await kind.open();
          await scenario.prepare?.(opened.store);
          const played = await play(opened.store, scenario, crash);
          const finished = { ...played, left: await scenario.leaves?.(opened.store) };
          expectSoundJournal(finished.events, finished.row);
          await opened.dispose();
          return finished;
        };
        const calm = create();
        const expected = await inStore(calm);
        expect(expected.events.map(({ type }) => type)).toContain(calm.shows ?? 'run.ended');
        let points = 0;
        for (const when of ['before', 'after'] as const) {
          for (let at = 1; ; at += 1) {
            const scenario = create();
            const finished = await inStore(scenario, { at, when });
            // How many writes there are depends on how they were grouped: go on to the last of this run.
            if (!finished.crashed) break;
            points += 1;
            const place = `${when} write ${at}, ${finished.writes.at(-1)}`;
            expect(transcriptOf(finished.events), place).toEqual(transcriptOf(expected.events));
            expect(subTranscriptsOf(finished.events), place).toEqual(
              subTranscriptsOf(expected.events),
            );
            expect(finished.events.at(-1), place).toMatchObject(outcomeOf(expected.events));
            expect(finished.left, place).toEqual(expected.left);
            expectSaneExecutions(scenario, executionsOf(calm));
          }
        }
        console.info(`${kind.name}, ${label}: ${points} crash points, 0 differences`);
        expect(points).toBeGreaterThanOrEqual(2 * 4);
      },
      120_000,
    );
  });
}

function outcomeOf(events: readonly StoredEvent[]) {
  const last = events.at(-1);
  if (last?.type !== 'run.ended') throw new Error('The run has not ended');
  return { type: 'run.ended', status: last.status, output: last.output };
}
