import { describe, expect, it } from 'vitest';
import type { StoredEvent } from '@relay/protocol/wire';
import { barsOf, scaleOf, type Span, Timeline } from '../../src/transcript/timeline.ts';
import { JournalFixture, root, subAgent, usage } from './journal-fixture.ts';

function fold(events: readonly StoredEvent[]): Timeline {
  const timeline = new Timeline();
  for (const event of events) timeline.add(event);
  return timeline;
}

function spansOf({ lanes }: Timeline): Span[] {
  return lanes.flatMap(({ tracks }) => tracks.flat());
}

const hour = 3_600_000;

/** A turn of a second, two hours until somebody approves, a tool of a second, an answer of a second. */
function approvedAfterHours(): JournalFixture {
  return new JournalFixture()
    .created()
    .wait(500)
    .turn(1, 'a')
    .wait(500)
    .called('one')
    .completed(1)
    .asked('one', 'ap')
    .wait(2 * hour)
    .decided('one', 'ap', true, 'go on')
    .started('one')
    .wait(1_000)
    .finished('one')
    .wait(1_000)
    .turn(2, 'b')
    .completed(2)
    .ended();
}

describe('timeline', () => {
  it('draws turns, tools and waits for people in the lane of their agent', () => {
    const timeline = fold(approvedAfterHours().events);
    expect(timeline.lanes.map(({ name }) => name)).toEqual(['support']);
    const spans = spansOf(timeline).map(({ kind, label, from, to, track, state }) => ({
      kind,
      label,
      length: (to ?? 0) - from,
      track,
      state,
    }));
    expect(spans).toEqual([
      { kind: 'turn', label: 'Turn 1', length: 1_000, track: 0, state: 'done' },
      { kind: 'turn', label: 'Turn 2', length: 1_000, track: 0, state: 'done' },
      { kind: 'wait', label: 'Approval of send_note', length: 2 * hour, track: 1, state: 'done' },
      { kind: 'tool', label: 'send_note', length: 1_000, track: 1, state: 'done' },
    ]);
    expect(timeline.markers.map(({ kind, label }) => [kind, label])).toEqual([
      ['requested', 'Approval of send_note'],
      ['decided', 'Approved by ada: go on'],
      ['ended', 'The run completed'],
    ]);
  });

  it('folds the time in which a run waits for a person, and keeps the rest to scale', () => {
    const timeline = fold(approvedAfterHours().events);
    expect(timeline.gaps.map(({ from, to, reason }) => [to - from, reason])).toEqual([
      [2 * hour, 'waiting'],
    ]);
    const scale = scaleOf(timeline, { width: 3_088 });
    expect(scale.folds).toHaveLength(1);
    const { startAt = 0 } = timeline;
    const fold0 = scale.folds[0];
    if (fold0 === undefined) throw new Error('no fold');
    expect(fold0.x).toBeCloseTo(1_000);
    expect(fold0.width).toBe(88);
    expect(scale.width).toBeCloseTo(3_088);
    // A second has the same width before and after the fold.
    expect(scale.x(startAt + 500)).toBeCloseTo(500);
    expect(scale.x(startAt + 1_000 + 2 * hour + 500)).toBeCloseTo(1_000 + 88 + 500);
    for (const x of [0, 250, 999, 1_040, 1_500, 3_000]) {
      expect(scale.x(scale.time(x))).toBeCloseTo(x, 3);
    }
  });

  it('does not fold time in which a model or a tool works', () => {
    const journal = new JournalFixture()
      .created()
      .wait(60_000)
      .turn(1, 'a')
      .called('one')
      .completed(1)
      .started('one')
      .wait(hour)
      .finished('one')
      .turn(2, 'b')
      .completed(2)
      .ended();
    const timeline = fold(journal.events);
    expect(timeline.gaps).toEqual([]);
    expect(scaleOf(timeline, { width: 1_000 }).folds).toEqual([]);
    // The first output took a minute, in which the model worked.
    const [turn] = spansOf(timeline);
    expect((turn?.firstAt ?? 0) - (turn?.from ?? 0)).toBe(60_000);
  });

  it('does not fold a short wait within a long run', () => {
    const journal = new JournalFixture()
      .created()
      .wait(60_000)
      .turn(1, 'a')
      .called('one')
      .completed(1)
      .asked('one', 'ap')
      .wait(2_000)
      .decided('one', 'ap', true)
      .started('one')
      .wait(60_000)
      .finished('one')
      .ended();
    const timeline = fold(journal.events);
    expect(timeline.gaps).toHaveLength(1);
    expect(scaleOf(timeline, { width: 1_000 }).folds).toEqual([]);
  });

  it('ends a turn at the crash, and folds the time until another server took over', () => {
    const journal = new JournalFixture()
      .created()
      .turn(1, 'a')
      .text('a', 'half')
      .wait(800)
      .text('a', ' of it')
      .wait(10 * 60_000)
      .add('turn.discarded', { agentId: root, turn: 1, textId: 'a', after: 4, reason: 'crash' })
      .wait(200)
      .turn(1, 'b')
      .completed(1)
      .ended();
    const timeline = fold(journal.events);
    const [first, second] = spansOf(timeline);
    expect([(first?.to ?? 0) - (first?.from ?? 0), first?.state]).toEqual([800, 'failed']);
    expect([(second?.to ?? 0) - (second?.from ?? 0), second?.state]).toEqual([200, 'done']);
    expect(timeline.gaps.map(({ reason }) => reason)).toEqual(['stopped']);
    expect(timeline.markers[0]).toMatchObject({ kind: 'crash', seq: 7 });
  });

  it('marks a retry, discarded text, a limit, a handoff, a compaction and an error', () => {
    const discard = { agentId: root, turn: 1, textId: 'a', after: 4 };
    const journal = new JournalFixture()
      .created()
      .turn(1, 'a')
      .add('turn.discarded', { ...discard, reason: 'retry', code: 'provider_failed' })
      .turn(1, 'b')
      .add('turn.discarded', { ...discard, reason: 'schema' })
      .add('limit.reached', { agentId: root, limit: 'tokens' })
      .add('agent.handed-off', { agentId: root, from: 'a', to: 'b' })
      .add('context.compacted', {
        agentId: root,
        model: 'demo',
        summary: 's',
        ofHistory: 0,
        ofRun: 1,
        generation: 0,
        usage,
      })
      .add('run.errored', { error: { code: 'x', message: 'It broke', retryable: false } })
      .ended('failed');
    expect(fold(journal.events).markers.map(({ kind, label }) => [kind, label])).toEqual([
      ['retry', 'Retried (provider_failed)'],
      ['discarded', 'Text discarded: schema'],
      ['limit', 'Limit reached: tokens'],
      ['handoff', 'Handed off from a to b'],
      ['compacted', 'Earlier messages were summarized'],
      ['error', 'It broke'],
      ['ended', 'The run failed'],
    ]);
  });

  it('has a lane per sub-agent below its parent, and a track per call that is open at the same time', () => {
    const other = { agentId: '01900000-0000-7000-8000-000000000003', parentId: root } as const;
    const inner = {
      agentId: '01900000-0000-7000-8000-000000000004',
      parentId: subAgent.agentId,
    } as const;
    const spawned = { toolCallId: 'x', nth: 0, task: 't', tools: [] };
    const journal = new JournalFixture()
      .created()
      .turn(1, 'a')
      .called('x', 'agent')
      .called('y')
      .completed(1)
      .started('x', 'agent')
      .started('y')
      .spawned('first')
      .add('agent.started', { ...other, name: 'second', model: 'demo', spawned })
      .add('agent.started', { ...inner, name: 'inner', model: 'demo', spawned })
      .finished('y')
      .called('z')
      .started('z')
      .finished('x', 'agent');
    const { lanes } = fold(journal.events);
    expect(lanes.map(({ name, depth }) => [name, depth])).toEqual([
      ['support', 0],
      ['first', 1],
      ['inner', 2],
      ['second', 1],
    ]);
    const tracks = lanes[0]?.tracks.map((track) => track.map(({ label }) => label));
    expect(tracks).toEqual([['Turn 1'], ['agent'], ['send_note', 'send_note']]);
  });

  it('shows that a model is waited for before its first output is stored', () => {
    const journal = new JournalFixture().created();
    expect(
      fold(journal.events)
        .pending()
        .map(({ lane }) => lane.name),
    ).toEqual(['support']);
    journal.turn(1, 'a');
    expect(fold(journal.events).pending()).toEqual([]);
    journal.called('one').completed(1).asked('one', 'ap');
    expect(fold(journal.events).pending()).toEqual([]);
  });

  it('counts the time of a run that still waits as a gap up to now', () => {
    const journal = new JournalFixture()
      .created()
      .wait(100)
      .turn(1, 'a')
      .called('one')
      .completed(1)
      .asked('one', 'ap');
    const timeline = fold(journal.events);
    const scale = scaleOf(timeline, { width: 1_000, now: timeline.endAt + hour });
    expect(scale.folds.map(({ gap }) => gap.to - gap.from)).toEqual([hour]);
  });

  it('finds the last point at which a run can be forked', () => {
    const { events, lastSeq } = approvedAfterHours();
    const timeline = fold(events);
    const seqOf = (type: string) => events.find((event) => event.type === type)?.seq ?? 0;
    expect(timeline.boundaryUpTo(3)).toBe(3);
    expect(timeline.boundaryUpTo(seqOf('turn.started'))).toBe(3);
    expect(timeline.boundaryUpTo(seqOf('approval.requested'))).toBe(3);
    const finished = seqOf('tool.completed');
    expect(timeline.boundaryUpTo(finished - 1)).toBe(3);
    expect(timeline.boundaryUpTo(finished)).toBe(finished);
    expect(timeline.boundaryUpTo(lastSeq)).toBe(lastSeq);
  });

  it('draws no more bars than fit, however many spans there are', () => {
    const journal = new JournalFixture().created();
    for (let turn = 1; turn <= 20_000; turn += 1) {
      journal.wait(5).turn(turn, `t${turn}`).wait(5).completed(turn);
    }
    const timeline = fold(journal.events);
    const scale = scaleOf(timeline, { width: 1_000 });
    const track = timeline.lanes[0]?.tracks[0] ?? [];
    expect(track).toHaveLength(20_000);
    const bars = barsOf(track, scale, { from: 0, to: 1_000, now: timeline.endAt });
    expect(bars.length).toBeLessThan(400);
    expect(bars.reduce((sum, { count }) => sum + count, 0)).toBe(20_000);
    const zoomed = scaleOf(timeline, { width: 1_000_000 });
    const visible = barsOf(track, zoomed, { from: 500_000, to: 501_000, now: timeline.endAt });
    expect(visible.length).toBeLessThan(30);
    expect(visible.every(({ count }) => count === 1)).toBe(true);
  });
});
