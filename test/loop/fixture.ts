/** The fixture of the loop tests: kernels with cleanup, decisions, models. */
import {
  recordDecision,
  type DecisionInput,
  type Append,
  cancelRun,
  type Model,
  type ModelEvent,
  type ModelRequest,
} from '@relay/core';
import type { EventType, Message, StoredEvent } from '@relay/protocol';
import { onTestFinished } from 'vitest';
import { expectSoundJournal } from '../support/invariants.ts';
import {
  bootKernel,
  journalOf,
  type Kernel,
  type KernelOptions,
  openApprovals,
  person,
  until,
  untilStatus,
} from '../support/kernel.ts';
import { memory, type OpenedStore, type StoreCall, type StoreKind } from './stores.ts';

export interface LoopFixture extends OpenedStore {
  /** A kernel on the fixture's store or another one, stopped after the test. */
  boot(
    options: Omit<KernelOptions, 'store'> & Partial<Pick<KernelOptions, 'store'>>,
  ): Promise<Kernel>;
  /** A kernel that is not stopped after the test, because its process is killed. */
  bootWithoutCleanup(options: KernelOptions): Promise<Kernel>;
}

export async function openFixture(kind: StoreKind = memory): Promise<LoopFixture> {
  const opened = await kind.open();
  onTestFinished(() => opened.dispose());
  return {
    ...opened,
    bootWithoutCleanup: bootKernel,
    async boot(options) {
      const kernel = await bootKernel({ store: opened.store, ...options });
      onTestFinished(() => kernel.stop());
      return kernel;
    },
  };
}

/** Waits for the end of a run, and returns its journal after checking the invariants. */
export async function finished(kernel: Kernel, runId: string): Promise<StoredEvent[]> {
  const row = await untilStatus(kernel, runId, 'completed', 'failed', 'canceled');
  const events = await journal(kernel, runId);
  expectSoundJournal(events, row);
  return events;
}

export function journal(kernel: Kernel, runId: string): Promise<StoredEvent[]> {
  return journalOf(kernel.store, { tenantId: kernel.tenantId, runId });
}

type EventNamed<Type extends EventType> = Extract<StoredEvent, { type: Type }>;

/** Waits until the end of the run is published, which follows its commit. */
export async function publishedToTheEnd(kernel: Kernel): Promise<StoredEvent[]> {
  await until(async () => kernel.published.at(-1)?.type === 'run.ended', 'the end to be shown');
  return kernel.published;
}

export function ofType<Type extends EventType>(events: readonly StoredEvent[], type: Type) {
  return events.filter((event): event is EventNamed<Type> => event.type === type);
}

export function endOf(events: readonly StoredEvent[]): EventNamed<'run.ended'> {
  const [end] = ofType(events, 'run.ended');
  if (end === undefined) throw new Error('The run has not ended');
  return end;
}

/** Waits until `count` events of a type are stored. */
export function untilStored<Type extends EventType>(
  kernel: Kernel,
  runId: string,
  { type, count = 1 }: { type: Type; count?: number },
) {
  return until(async () => {
    const found = ofType(await journal(kernel, runId), type);
    return found.length >= count && found;
  }, `${count} × ${type}`);
}

/** Waits until a run is suspended with exactly `count` pending approvals. */
export function untilAsked(kernel: Kernel, runId: string, count = 1) {
  return until(async () => {
    const run = await kernel.store.tenant(kernel.tenantId).readRun(runId);
    const open = openApprovals(await journal(kernel, runId));
    return run?.status === 'waiting' && open.length === count && open;
  }, `${count} open approvals`);
}

export async function decide(
  kernel: Kernel,
  approvalId: string | undefined,
  answer: Partial<DecisionInput> = {},
) {
  if (approvalId === undefined) throw new Error('There is no approval to decide');
  return recordDecision(kernel.control, kernel.tenantId, {
    ...(answer.outcome === undefined ? { approved: true } : {}),
    always: false,
    reason: null,
    by: person,
    ...answer,
    approvalId,
  });
}

export function stopRun(kernel: Kernel, runId: string, reason = 'Enough'): Promise<boolean> {
  const ref = { tenantId: kernel.tenantId, runId };
  return cancelRun(kernel.control, ref, { reason, by: person });
}

/** The tool results in a request, in order. */
export function resultsIn({ messages }: { messages: readonly Message[] }): unknown[] {
  return messages.flatMap((message) => (message.role === 'tool' ? [message.content] : []));
}

export function lastOf(requests: readonly ModelRequest[]): ModelRequest {
  const last = requests.at(-1);
  if (last === undefined) throw new Error('The model was never called');
  return last;
}

export interface StreamingModel extends Model {
  readonly requests: readonly ModelRequest[];
  readonly signals: readonly AbortSignal[];
}

type Stream = (
  request: ModelRequest,
  signal: AbortSignal,
) => AsyncIterable<readonly ModelEvent[]> | Iterable<readonly ModelEvent[]>;

/** A model whose n-th call plays the n-th stream, and later ones the last. */
export function createStreamingModel(...streams: readonly Stream[]): StreamingModel {
  const requests: ModelRequest[] = [];
  const signals: AbortSignal[] = [];
  return {
    requests,
    signals,
    async *stream(request, signal) {
      const stream = streams[requests.length] ?? streams.at(-1);
      requests.push(request);
      signals.push(signal);
      if (stream !== undefined) yield* stream(request, signal);
    },
  };
}

/** Resolves when the signal is aborted. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve());
  });
}

/** The append that a call to the store carries, if it is one with such an event. */
export function appendWith(call: StoreCall, type: EventType): Append | undefined {
  if (call.method !== 'append') return undefined;
  const append = call.args[0] as Append;
  return append.events.some((event) => event.type === type) ? append : undefined;
}
