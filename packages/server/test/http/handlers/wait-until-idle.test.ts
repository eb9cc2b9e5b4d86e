import { EventEmitter } from 'node:events';
import type { RunProgress, RunRecord } from '@relay/core';
import type { RunEvent, StoredEvent } from '@relay/protocol';
import { uuidv7 } from 'uuidv7';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { Hub } from '../../../src/streaming/hub.ts';
import { OpenStreams } from '../../../src/streaming/open-streams.ts';
import { placed, runEnded, settled, TestJournal, token } from '../../support/journal.ts';
import type { ApiRequest } from '../../../src/http/handlers/handler.ts';
import {
  type WaitOptions,
  collectUntilIdle,
} from '../../../src/http/handlers/runs/wait-until-idle.ts';

const agentId = uuidv7();
const [approvalId, otherId] = [uuidv7(), uuidv7()];
const progress = { partialOutput: '', toolsInvoked: [] };
const suspended: RunEvent = { type: 'run.suspended', progress, approvalIds: [] };
const resumed: RunEvent = { type: 'run.resumed', progress };

function decided(of: string): RunEvent {
  const by = { type: 'key', id: 'key-1', name: 'ada' } as const;
  const call = { agentId, toolCallId: 'call_1' };
  return { type: 'approval.decided', ...call, approvalId: of, approved: true, by };
}

/** A journal, a caller, and the frames that it receives. */
async function setUp(status: RunRecord['status'] = 'waiting') {
  const journal = await TestJournal.create();
  const { store, runId } = journal;
  const hub = new Hub(async () => new Map());
  const streams = new OpenStreams({ tenant: () => store } as never);
  onTestFinished(() => streams.stop());
  const raw = new EventEmitter();
  const call = {
    context: { store: { tenant: () => store }, hub, streams },
    caller: { tenantId: store.tenantId, actor: { type: 'key', id: 'key-1', name: 'ada' } },
    reply: { raw },
  } as unknown as ApiRequest;
  let seq = 0;
  const append = async (events: readonly RunEvent[], change: Partial<RunProgress> = {}) => {
    const step = { runId, epoch: 1, afterSeq: seq, at: Date.now(), events, progress: change };
    expect(await store.append(step)).toBe('committed');
    const stored: StoredEvent[] = placed(events, seq);
    seq += events.length;
    hub.publish(runId, stored);
    await settled();
  };
  const follow = async (from: WaitOptions) => {
    const run = { ...(await store.readRun(runId)), status } as RunRecord;
    const outcome = collectUntilIdle(call, run, from);
    let done = false;
    const finish = () => {
      done = true;
    };
    void outcome.then(finish, finish);
    await settled();
    return { outcome, isDone: () => done };
  };
  const typesIn = async (outcome: ReturnType<typeof collectUntilIdle>) =>
    (await outcome).frames.map(({ type, ...rest }) => rest['status'] ?? type);
  return { append, follow, typesIn, hub, streams, leave: () => raw.emit('close') };
}

describe('collectUntilIdle after a decision', () => {
  it('starts with run.resumed, and ends when the run waits', async () => {
    const { append, follow, typesIn, hub, streams } = await setUp();
    await append([token('before'), suspended]);
    const { outcome, isDone } = await follow({ after: 2, decided: approvalId });
    await append([resumed, decided(approvalId)]);
    await append([token('a')]);
    await append([token('b')]);
    expect(isDone()).toBe(false);
    expect([hub.size, streams.size]).toEqual([1, 1]);
    await append([suspended], { status: 'waiting' });
    expect(await typesIn(outcome)).toEqual(['running', 'text_delta', 'text_delta', 'waiting']);
    expect((await outcome).status).toBe('waiting');
    expect([hub.size, streams.size]).toEqual([0, 0]);
  });

  it('collects nothing from before the decision', async () => {
    const { append, follow, typesIn } = await setUp('running');
    await append([token('seen')]);
    const { outcome, isDone } = await follow({ after: 1, decided: approvalId });
    await append([token('in between'), suspended]);
    await append([resumed, decided(otherId), token('of another')]);
    await append([suspended]);
    expect(isDone()).toBe(false);
    await append([resumed, decided(otherId), decided(approvalId), token('of this')]);
    await append([suspended]);
    expect(await typesIn(outcome)).toEqual(['text_delta', 'waiting']);
    expect((await outcome).frames[0]).toEqual({ type: 'text_delta', content: 'of this' });
  });

  it('finds the decision in a stored batch', async () => {
    const { append, follow, typesIn } = await setUp();
    await append([suspended, resumed, decided(approvalId), token('a'), suspended]);
    const { outcome } = await follow({ after: 0, decided: approvalId });
    expect(await typesIn(outcome)).toEqual(['running', 'text_delta', 'waiting']);
  });

  it('includes run.resumed from the previous page of the journal', async () => {
    const { append, follow, typesIn } = await setUp();
    const page = Array.from({ length: 249 }, (_, n) => token(`${n}`));
    await append([...page, resumed, decided(approvalId), token('a'), runEnded]);
    const { outcome } = await follow({ after: 0, decided: approvalId });
    expect(await typesIn(outcome)).toEqual(['running', 'text_delta', 'succeeded']);
  });

  it('collects nothing if the run ended before the decision', async () => {
    const { append, follow } = await setUp();
    await append([suspended]);
    const { outcome } = await follow({ after: 1, decided: approvalId });
    await append([token('x'), runEnded], { status: 'canceled' });
    expect(await outcome).toEqual({ status: 'canceled', frames: [] });
  });

  it('continues if the run was resumed at once', async () => {
    const { append, follow, typesIn } = await setUp();
    const { outcome, isDone } = await follow({ after: 0, decided: approvalId });
    await append([decided(approvalId), suspended, resumed]);
    expect(isDone()).toBe(false);
    await append([runEnded], { status: 'completed' });
    expect(await typesIn(outcome)).toEqual(['waiting', 'running', 'succeeded']);
  });
});

describe('collectUntilIdle without a decision', () => {
  it.each(['waiting', 'completed', 'failed', 'canceled'] as const)(
    'returns at once if the run is %s',
    async (status) => {
      const { append, follow } = await setUp(status);
      await append([token('old'), token('new')], { status });
      const { outcome } = await follow({ after: 1 });
      expect(await outcome).toEqual({
        status,
        frames: [{ type: 'text_delta', content: 'new' }],
      });
    },
  );

  it.each(['running', 'queued'] as const)('waits if the run is %s', async (status) => {
    const { append, follow, typesIn } = await setUp(status);
    await append([token('old')], { status });
    const { outcome, isDone } = await follow({ after: 0 });
    expect(isDone()).toBe(false);
    await append([runEnded], { status: 'completed' });
    expect(await typesIn(outcome)).toEqual(['text_delta', 'succeeded']);
  });

  it('returns after a minute', async () => {
    const patience = new AbortController();
    const timeout = vi.spyOn(AbortSignal, 'timeout').mockReturnValue(patience.signal);
    onTestFinished(() => timeout.mockRestore());
    const { append, follow, hub, streams } = await setUp('running');
    const { outcome, isDone } = await follow({ after: 0 });
    expect(timeout).toHaveBeenCalledWith(60_000);
    await append([token('a')], { status: 'running' });
    expect(isDone()).toBe(false);
    patience.abort();
    expect(await outcome).toEqual({
      status: 'running',
      frames: [{ type: 'text_delta', content: 'a' }],
    });
    expect([hub.size, streams.size]).toEqual([0, 0]);
  });

  it('stops when the client disconnects', async () => {
    const { append, follow, hub, streams, leave } = await setUp('running');
    await append([token('a')]);
    const { outcome } = await follow({ after: 0 });
    leave();
    await outcome;
    expect([hub.size, streams.size]).toEqual([0, 0]);
  });

  it('throws unauthorized if the key is revoked meanwhile', async () => {
    const { append, follow, hub, streams } = await setUp('running');
    const { outcome } = await follow({ after: 0 });
    await append([token('secret')]);
    streams.closeByKey('key-1');
    await expect(outcome).rejects.toMatchObject({ code: 'unauthorized', status: 401 });
    expect([hub.size, streams.size]).toEqual([0, 0]);
  });
});
