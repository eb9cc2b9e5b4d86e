import type { Append, TenantStore } from '@relay/core';
import { defined, type RunEvent } from '@relay/protocol';
import { uuidv7 } from 'uuidv7';
import { describe, expect, test } from 'vitest';
import { delta, newRun, noon, started, step, useStore } from '../fixtures.ts';
import type { Open, TestRun } from '../fixtures.ts';

export function journalTests(open: Open): void {
  const { tenant: newTenant } = useStore(open);

  /** Appends batches of these sizes after the first event; returns all texts in order. */
  async function write(
    run: TestRun,
    sizes: readonly number[],
    { writer }: Pick<Append, 'writer'> = {},
  ): Promise<string[]> {
    const texts: string[] = [];
    let afterSeq = 1;
    for (const size of sizes) {
      const batch = Array.from({ length: size }, (_, index) => `${afterSeq + index + 1};`);
      texts.push(...batch);
      const at = noon + afterSeq;
      const append = step(run, { at, afterSeq, events: batch.map(delta), ...defined({ writer }) });
      expect(await run.tenant.append(append)).toBe('committed');
      afterSeq += size;
    }
    return texts;
  }

  test('events have the seqs 1, 2, 3 … and the time of their step', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const events: RunEvent[] = [delta('a'), delta('b'), started];
    await tenant.append(step(run, { at: noon + 1_234, events }));
    await tenant.append(step(run, { at: noon + 5_000, afterSeq: 4, events: [delta('c')] }));
    expect(await tenant.readEvents(run.id, { after: 0, limit: 100 })).toEqual([
      { ...started, seq: 1, at: '2026-01-01T12:00:00.000Z' },
      { ...delta('a'), seq: 2, at: '2026-01-01T12:00:01.234Z' },
      { ...delta('b'), seq: 3, at: '2026-01-01T12:00:01.234Z' },
      { ...started, seq: 4, at: '2026-01-01T12:00:01.234Z' },
      { ...delta('c'), seq: 5, at: '2026-01-01T12:00:05.000Z' },
    ]);
  });

  test.each([
    ['a step', {}],
    ['a row to which several steps have added', { writer: {} }],
  ])('any range is exactly that part of the journal, also inside %s', async (_what, by) => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    await write(run, [1, 7, 2, 1, 5], by);
    const all = await tenant.readEvents(run.id, { after: 0, limit: 1_000 });
    expect(all.map(({ seq }) => seq)).toEqual(Array.from({ length: 17 }, (_, i) => i + 1));
    for (let after = 0; after <= 18; after += 1) {
      for (let limit = 1; limit <= 18; limit += 1) {
        const part = await tenant.readEvents(run.id, { after, limit });
        expect(part).toEqual(all.slice(after, after + limit));
      }
    }
  });

  describe('text that one writer appends', () => {
    const append = (run: TestRun, afterSeq: number, over: Partial<Append>) =>
      run.tenant.append(step(run, { afterSeq, ...over }));

    test('is read as it was appended, with the time of each append', async () => {
      const tenant = newTenant();
      const run = await newRun(tenant);
      const writer = {};
      await append(run, 1, { writer, at: noon + 5, events: [delta('a'), delta('b')] });
      await append(run, 3, { writer, at: noon + 9, events: [delta('c')] });
      // The clock was set back.
      await append(run, 4, { writer, at: noon + 2, events: [delta('d'), started] });
      await append(run, 6, { writer, at: noon + 3, events: [delta('e')] });
      const read = await tenant.readEvents(run.id, { after: 1, limit: 100 });
      expect(read.map(({ at, seq, ...event }) => [seq, Date.parse(at) - noon, event])).toEqual([
        [2, 5, delta('a')],
        [3, 5, delta('b')],
        [4, 9, delta('c')],
        [5, 2, delta('d')],
        [6, 2, started],
        [7, 3, delta('e')],
      ]);
    });

    test('takes less space than if each append was stored on its own', async () => {
      const tenant = newTenant();
      const [together, apart] = await Promise.all([newRun(tenant), newRun(tenant)]);
      const sizes = Array.from({ length: 50 }, () => 1);
      await write(together, sizes, { writer: {} });
      await write(apart, sizes);
      const sizeOf = async ({ id }: TestRun) => (await tenant.readRun(id))?.journalSize ?? 0;
      expect(await sizeOf(together)).toBeLessThan((await sizeOf(apart)) / 5);
      const eventsOf = ({ id }: TestRun) => tenant.readEvents(id, { after: 0, limit: 100 });
      expect(await eventsOf(together)).toEqual(await eventsOf(apart));
    });

    test('is not lost if an append of it is fenced, nor changed by it', async () => {
      const tenant = newTenant();
      const run = await newRun(tenant);
      const writer = {};
      await append(run, 1, { writer, events: [delta('a')] });
      const before = await tenant.readEvents(run.id, { after: 0, limit: 10 });
      expect(await append(run, 2, { writer, epoch: 9, events: [delta('x')] })).toBe('fenced');
      expect(await tenant.readEvents(run.id, { after: 0, limit: 10 })).toEqual(before);
      expect(await append(run, 2, { writer, events: [delta('b')] })).toBe('committed');
      const texts = await tenant.readEvents(run.id, { after: 1, limit: 10 });
      expect(texts).toMatchObject([delta('a'), delta('b')]);
    });

    test('follows what another writer has stored, in a row of its own', async () => {
      const tenant = newTenant();
      const run = await newRun(tenant);
      await write(run, [2, 1], { writer: {} });
      await append(run, 4, { writer: {}, events: [delta('x')] });
      await append(run, 5, { events: [delta('y')] });
      const read = await tenant.readEvents(run.id, { after: 3, limit: 10 });
      expect(read).toMatchObject([delta('4;'), delta('x'), delta('y')]);
    });

    test('can be longer than a row', async () => {
      const tenant = newTenant();
      const run = await newRun(tenant);
      const texts = await write(
        run,
        Array.from({ length: 400 }, () => 2),
        { writer: {} },
      );
      const read = await tenant.readEvents(run.id, { after: 1, limit: 1_000 });
      expect(read).toMatchObject(texts.map(delta));
    });
  });

  describe('the text of the last turn', () => {
    const usage = { inputTokens: 1, outputTokens: 2 };
    const { agentId, textId } = delta('');
    const turn: RunEvent = {
      type: 'turn.started',
      agentId,
      turn: 1,
      textId,
      reasoningId: uuidv7(),
    };

    /** A run that answers these pieces, one step each; `end` are the events that end it. */
    async function answeredRun(
      tenant: TenantStore,
      pieces: readonly string[],
      by: Pick<Append, 'writer'> = {},
    ) {
      const run = await newRun(tenant);
      const other: RunEvent = { ...delta('of another agent'), agentId: uuidv7(), textId: uuidv7() };
      await tenant.append(step(run, { events: [delta('of an earlier turn'), turn], ...by }));
      let afterSeq = 3;
      for (const piece of pieces) {
        await tenant.append(step(run, { afterSeq, events: [delta(piece), other], ...by }));
        afterSeq += 2;
      }
      const output = pieces.join('');
      const end: RunEvent[] = [
        {
          type: 'agent.ended',
          agentId,
          reason: 'completed',
          iterations: 1,
          usage,
          progress: { partialOutput: output.slice(-2000), toolsInvoked: ['search'] },
          finishReason: 'stop',
        },
        { type: 'run.ended', status: 'completed', output, usage, finishReason: 'stop' },
      ];
      const progress = { status: 'completed', endedAt: noon, answerSeq: 3 } as const;
      await tenant.append(step(run, { afterSeq, events: end, progress, ...by }));
      return { run, end, output, lastSeq: afterSeq + end.length };
    }

    test.each([
      ['appended by one writer', { writer: {} }],
      ['in rows of its own', {}],
    ])('is what the events of the end show, whichever part is read: %s', async (_how, by) => {
      const tenant = newTenant();
      const pieces = Array.from({ length: 30 }, (_, n) => `${n} ${'x'.repeat(n * 10)}`);
      const { run, end, lastSeq } = await answeredRun(tenant, pieces, by);
      const at = new Date(noon).toISOString();
      const shown = end.map((event, n) => ({ ...event, seq: lastSeq - 1 + n, at }));
      const all = await tenant.readEvents(run.id, { after: 0, limit: 1_000 });
      expect(JSON.stringify(all.slice(-2))).toBe(JSON.stringify(shown));
      for (let after = 0; after < lastSeq; after += 1) {
        const rest = await tenant.readEvents(run.id, { after, limit: 1_000 });
        expect(JSON.stringify(rest)).toBe(JSON.stringify(all.slice(after)));
      }
      // A page that ends before the last event.
      const [ended] = await tenant.readEvents(run.id, { after: lastSeq - 2, limit: 1 });
      expect(ended).toEqual(shown[0]);
    });

    test('is shown by the end of a run in which a long journal follows the turn', async () => {
      const tenant = newTenant();
      const run = await newRun(tenant);
      const completed: RunEvent = {
        type: 'turn.completed',
        agentId,
        turn: 1,
        finishReason: 'tool_calls',
        usage,
      };
      const other: RunEvent = { ...delta('of a sub-agent'), agentId: uuidv7(), textId: uuidv7() };
      const pieces = Array.from({ length: 250 }, (_, n) => delta(`${n} `));
      const output = pieces.map(({ text }) => text).join('');
      const ended: RunEvent = { type: 'run.ended', status: 'canceled', output, usage };
      const steps: RunEvent[][] = [
        [turn],
        ...pieces.map((piece) => [piece]),
        [completed],
        ...Array.from({ length: 250 }, () => [other]),
      ];
      for (const [n, events] of steps.entries()) {
        await tenant.append(step(run, { afterSeq: n + 1, events }));
      }
      const afterSeq = steps.length + 1;
      const progress = { status: 'canceled', endedAt: noon, answerSeq: 2 } as const;
      await tenant.append(step(run, { afterSeq, events: [ended], progress }));
      expect(await tenant.readEvents(run.id, { after: afterSeq, limit: 1 })).toMatchObject([ended]);
    });

    test('is listed with its run up to 8 KiB, and left out if it is longer', async () => {
      const tenant = newTenant();
      const page = { limit: 10 };
      for (const [pieces, isOmitted] of [
        [['Hello', ' world'], false],
        [['x'.repeat(8192)], false],
        [['x'.repeat(8193)], true],
        [['€'.repeat(2731)], true],
        [Array<string>(1_001).fill('x'), true],
      ] as const) {
        const { run, output } = await answeredRun(tenant, pieces);
        const [listing] = (await tenant.listRuns({ conversationId: run.conversationId }, page))
          .items;
        expect(listing?.isOutputOmitted).toBe(isOmitted);
        expect(listing?.answer).toBe(isOmitted ? null : output);
      }
      const { run } = await answeredRun(tenant, ['of another run']);
      const listed = (await tenant.listRuns({}, page)).items;
      expect(listed.find(({ id }) => id === run.id)?.answer).toBe('of another run');
    });
  });

  test('a limit without bound reads to the end', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    await write(run, [3, 4]);
    for (const limit of [Infinity, Number.MAX_SAFE_INTEGER]) {
      expect(await tenant.readEvents(run.id, { after: 2, limit })).toHaveLength(6);
    }
    expect(await tenant.readEvents(run.id, { after: 0, limit: 0 })).toEqual([]);
  });

  test('pages of any size put together are the journal', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const texts = await write(run, [50, 1, 300, 2]);
    for (const limit of [1, 7, 64, 1_000]) {
      const read: string[] = [];
      for (let after = 1; ;) {
        const page = await tenant.readEvents(run.id, { after, limit });
        if (page.length === 0) break;
        read.push(...page.map((event) => (event.type === 'text.appended' ? event.text : '')));
        after += page.length;
      }
      expect(read.join('')).toBe(texts.join(''));
    }
  });

  test('a page ends with the step that reaches its size, and says whether it is the last', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    for (let afterSeq = 1; afterSeq < 9; afterSeq += 2) {
      const events = [delta('x'.repeat(5_000)), delta('€'.repeat(2_000))];
      await tenant.append(step(run, { afterSeq, events }));
    }
    const read = (after: number, maxBytes: number, limit = 100) =>
      tenant.readPage(run.id, { after, limit, maxBytes });
    const seqs = async (...range: Parameters<typeof read>) => {
      const { events, isLast } = await read(...range);
      return [events.map(({ seq }) => seq), isLast];
    };
    expect(await seqs(0, 1)).toEqual([[1], false]);
    expect(await seqs(1, 1)).toEqual([[2, 3], false]);
    expect(await seqs(2, 1)).toEqual([[3], false]);
    expect(await seqs(1, 12_000)).toEqual([[2, 3, 4, 5], false]);
    expect(await seqs(1, 12_000, 3)).toEqual([[2, 3, 4], false]);
    expect(await seqs(5, 1_000_000)).toEqual([[6, 7, 8, 9], true]);
    expect(await seqs(7, 1)).toEqual([[8, 9], true]);
    expect(await seqs(7, 1, 1)).toEqual([[8], false]);
    expect(await seqs(9, 1)).toEqual([[], true]);
    const all = await tenant.readEvents(run.id, { after: 0, limit: 100 });
    expect((await read(0, 1_000_000)).events).toEqual(all);
  });

  test('a step without events stores its state and leaves the journal as it is', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const outcome = await tenant.append(
      step(run, { events: [], progress: { status: 'running', startedAt: 3 } }),
    );
    expect(outcome).toBe('committed');
    expect(await tenant.readRun(run.id)).toMatchObject({ status: 'running', lastSeq: 1 });
    expect(await tenant.append(step(run))).toBe('committed');
    expect(await tenant.readEvents(run.id, { after: 0, limit: 10 })).toHaveLength(2);
  });

  test('steps that are not waited for are stored in their order', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const outcomes = await Promise.all(
      Array.from({ length: 200 }, (_, i) =>
        tenant.append(step(run, { afterSeq: i + 1, events: [delta(`${i};`)] })),
      ),
    );
    expect(new Set(outcomes)).toEqual(new Set(['committed']));
    const events = await tenant.readEvents(run.id, { after: 1, limit: 1_000 });
    const texts = events.map((event) => (event.type === 'text.appended' ? event.text : ''));
    expect(texts).toEqual(Array.from({ length: 200 }, (_, i) => `${i};`));
  });

  test('journals of many runs that write at once do not mix', async () => {
    const tenant = newTenant();
    const runs = await Promise.all(Array.from({ length: 20 }, () => newRun(tenant)));
    await Promise.all(runs.map((run) => write(run, [1, 2, 3, 4])));
    for (const run of runs) {
      const events = await tenant.readEvents(run.id, { after: 0, limit: 100 });
      expect(events.map(({ seq }) => seq)).toEqual(Array.from({ length: 11 }, (_, i) => i + 1));
    }
  });

  test('deltas of several texts, agents and kinds keep their order and their fields', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const [root, child, one, two] = [uuidv7(), uuidv7(), uuidv7(), uuidv7()];
    const text = { type: 'text.appended' } as const;
    const events: RunEvent[] = [
      { ...text, agentId: root, textId: one, text: 'a' },
      { ...text, agentId: root, textId: one, text: '' },
      { ...text, agentId: root, textId: two, text: 'b' },
      { type: 'reasoning.appended', agentId: root, reasoningId: one, text: 'c' },
      { type: 'reasoning.appended', agentId: root, reasoningId: one, text: 'd' },
      { ...text, agentId: child, parentId: root, textId: one, text: 'e' },
      { ...text, agentId: child, parentId: root, textId: one, text: 'f' },
      { ...text, agentId: child, textId: one, text: 'g' },
    ];
    await tenant.append(step(run, { events }));
    const read = await tenant.readEvents(run.id, { after: 1, limit: 100 });
    expect(read.map(({ seq: _seq, at: _at, ...event }) => event)).toEqual(events);
  });

  test('a large event survives', async () => {
    const tenant = newTenant();
    const run = await newRun(tenant);
    const text = 'x€😀'.repeat(200_000);
    await tenant.append(step(run, { events: [delta(text)] }));
    expect(await tenant.readEvents(run.id, { after: 1, limit: 1 })).toMatchObject([{ text }]);
  });
}
