import { isEnded, type RunEvent, type StoredEvent } from '@relay/protocol';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { placed, runEnded, settled, token } from '../support/journal.ts';
import { waitForFirstOutput } from '../../src/streaming/stream-run.ts';

const agentId = '01900000-0000-7000-8000-000000000001';
const created: RunEvent = {
  type: 'run.started',
  progress: { partialOutput: '', toolsInvoked: [] },
};
const turnStarted: RunEvent = {
  type: 'turn.started',
  agentId,
  turn: 1,
  textId: agentId,
  reasoningId: agentId,
};
const reasoning: RunEvent = {
  type: 'reasoning.appended',
  agentId,
  reasoningId: agentId,
  text: 'hm',
};
const turnCompleted: RunEvent = {
  type: 'turn.completed',
  agentId,
  turn: 1,
  finishReason: 'stop',
  usage: { inputTokens: 1, outputTokens: 1 },
};
const discarded: RunEvent = {
  type: 'turn.discarded',
  agentId,
  turn: 1,
  textId: agentId,
  after: 3,
  reason: 'retry',
};

function errored(code: string): RunEvent {
  return { type: 'run.errored', error: { code, message: 'It said no', retryable: false } };
}

/** A source whose batches a test pushes one by one. */
class Source {
  readonly given: StoredEvent[] = [];
  returned = false;
  #waiting: ((batch: readonly StoredEvent[] | undefined) => void)[] = [];
  #ready: (readonly StoredEvent[] | undefined)[] = [];

  give(...events: RunEvent[]): this {
    const batch = placed(events, this.given.length);
    this.given.push(...batch);
    return this.#hand(batch);
  }

  end(): this {
    return this.#hand(undefined);
  }

  #hand(batch: readonly StoredEvent[] | undefined): this {
    const waiter = this.#waiting.shift();
    if (waiter === undefined) this.#ready.push(batch);
    else waiter(batch);
    return this;
  }

  async *batches(): AsyncGenerator<readonly StoredEvent[], void> {
    try {
      for (;;) {
        const batch =
          this.#ready.length > 0
            ? this.#ready.shift()
            : await new Promise<readonly StoredEvent[] | undefined>((resolve) => {
                this.#waiting.push(resolve);
              });
        if (batch === undefined) return;
        yield batch;
        const last = batch.at(-1);
        if (last?.type === 'run.ended' && isEnded(last.status)) return;
      }
    } finally {
      this.returned = true;
    }
  }
}

async function collect(batches: AsyncIterable<readonly StoredEvent[]>): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for await (const batch of batches) events.push(...batch);
  return events;
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});

afterEach(() => {
  vi.useRealTimers();
});

describe('waitForFirstOutput', () => {
  it.each<[string, RunEvent]>([
    ['text', token('hello')],
    ['reasoning', reasoning],
    ['a completed turn, such as one of tool calls alone', turnCompleted],
    ['the end, for whatever reason', runEnded],
  ])('returns at %s', async (_what, word) => {
    const source = new Source().give(created).give(turnStarted, word);
    const opening = await waitForFirstOutput(source.batches());
    expect(opening.failure).toBeUndefined();
    if (word.type !== 'run.ended') source.give(runEnded);
    expect(await collect(opening.batches)).toEqual(source.given);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('waits over any number of batches without output', async () => {
    const source = new Source().give(created).give(turnStarted).give(discarded).give(turnStarted);
    let opened = false;
    const opening = waitForFirstOutput(source.batches()).then((value) => {
      opened = true;
      return value;
    });
    await settled();
    expect(opened).toBe(false);
    source.give(token('at last')).give(runEnded);
    expect(await collect((await opening).batches)).toEqual(source.given);
  });

  it('returns after 5 seconds without losing a batch', async () => {
    const source = new Source().give(created, turnStarted);
    let opened = false;
    const opening = waitForFirstOutput(source.batches()).then((value) => {
      opened = true;
      return value;
    });
    await settled();
    vi.advanceTimersByTime(4_999);
    await settled();
    expect(opened).toBe(false);
    vi.advanceTimersByTime(1);
    const { failure, batches } = await opening;
    expect(failure).toBeUndefined();
    source.give(token('late')).give(errored('provider_failed'), runEnded);
    expect(await collect(batches)).toEqual(source.given);
    expect(source.returned).toBe(true);
  });

  it('returns when the source ends', async () => {
    const source = new Source().give(created).end();
    const { failure, batches } = await waitForFirstOutput(source.batches());
    expect(failure).toBeUndefined();
    expect(await collect(batches)).toEqual(source.given);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('ends with a source that ends after the 5 seconds', async () => {
    const source = new Source().give(created);
    const opening = waitForFirstOutput(source.batches());
    await settled();
    vi.advanceTimersByTime(5_000);
    const { batches } = await opening;
    source.end();
    expect(await collect(batches)).toEqual(source.given);
  });
});

describe('a provider that fails before its first output', () => {
  it.each(['provider_failed', 'provider_rejected'] as const)(
    'is a 502 with the code %s',
    async (code) => {
      const source = new Source().give(created, turnStarted).give(errored(code), runEnded);
      const { failure } = await waitForFirstOutput(source.batches());
      expect(failure?.status).toBe(502);
      expect(failure?.toBody()).toEqual({ error: 'It said no', code });
      expect(source.returned).toBe(true);
      expect(vi.getTimerCount()).toBe(0);
    },
  );

  it('is a 502 if all events are in one batch', async () => {
    const source = new Source().give(
      created,
      turnStarted,
      discarded,
      turnStarted,
      errored('provider_failed'),
      runEnded,
    );
    expect((await waitForFirstOutput(source.batches())).failure?.code).toBe('provider_failed');
  });

  it('is not a 502 for another failure', async () => {
    const source = new Source().give(created).give(errored('internal'), runEnded);
    const { failure, batches } = await waitForFirstOutput(source.batches());
    expect(failure).toBeUndefined();
    expect(await collect(batches)).toEqual(source.given);
  });

  it.each<[string, RunEvent]>([
    ['text', token('Well,')],
    ['reasoning', reasoning],
    ['a turn', turnCompleted],
  ])('is not a 502 after %s, not even in the same batch', async (_what, word) => {
    const source = new Source().give(
      created,
      turnStarted,
      word,
      errored('provider_failed'),
      runEnded,
    );
    const { failure, batches } = await waitForFirstOutput(source.batches());
    expect(failure).toBeUndefined();
    expect(await collect(batches)).toEqual(source.given);
  });
});

describe('the returned batches', () => {
  it('release the source when their reader stops early', async () => {
    const source = new Source().give(created).give(token('a'));
    const { batches } = await waitForFirstOutput(source.batches());
    for await (const _batch of batches) break;
    expect(source.returned).toBe(true);
  });

  it('release the source when their reader stops while one is pending', async () => {
    const source = new Source().give(created);
    const opening = waitForFirstOutput(source.batches());
    await settled();
    vi.advanceTimersByTime(5_000);
    const { batches } = await opening;
    const leaving = (async () => {
      for await (const _batch of batches) break;
    })();
    await settled();
    source.end();
    await leaving;
    expect(source.returned).toBe(true);
  });

  it('fail when the source fails, before and after the first output', async () => {
    async function* failing(first: readonly RunEvent[]) {
      yield placed(first);
      throw new Error('the store is gone');
    }
    await expect(waitForFirstOutput(failing([created]))).rejects.toThrow('the store is gone');
    expect(vi.getTimerCount()).toBe(0);
    const { batches } = await waitForFirstOutput(failing([token('a')]));
    await expect(collect(batches)).rejects.toThrow('the store is gone');
  });
});
