/** A summary in the place of older messages: what the model reads from then on (E4). */
import type { EventOf, Message, RunEvent } from '@relay/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { deepFreeze, eventsOf, runCreated } from '../../support/agent-events.ts';
import {
  emptyTranscript,
  foldTranscript,
  leadingInstructions,
  type Transcript,
} from '../../../src/run/context/transcript.ts';

const root = eventsOf({ agentId: 'root' });
const summary: Message = { role: 'user', content: 'In short' };

function user(content: string): Message {
  return { role: 'user', content };
}

function system(content: string): Message {
  return { role: 'system', content };
}

function assistant(content: string): Message {
  return { role: 'assistant', content };
}

function fold(transcript: Transcript, ...events: readonly RunEvent[]): Transcript {
  return events.reduce(
    (before, event) => foldTranscript(deepFreeze(before), deepFreeze(event)),
    transcript,
  );
}

/** A run of a conversation: what is asked, and what is answered. */
function run(asked: readonly Message[], ...answers: string[]): RunEvent[] {
  return [
    runCreated({ messages: [...asked], history: 0 }),
    ...answers.flatMap((answer) => [root.turn, root.said(answer), root.completed]),
  ];
}

const ended: RunEvent = {
  type: 'run.ended',
  status: 'completed',
  output: '',
  usage: { inputTokens: 0, outputTokens: 0 },
};

function compacted(more: Partial<EventOf<'context.compacted'>>): RunEvent {
  return root.compacted(more);
}

describe('a compaction', () => {
  const talk = fold(emptyTranscript, ...run([user('q1')], 'a1', 'a2', 'a3'));

  it('replaces the oldest messages of the run by a summary', () => {
    expect(fold(talk, compacted({ ofRun: 3 })).messages).toEqual([summary, assistant('a3')]);
    expect(fold(talk, compacted({ ofRun: 1 })).messages).toEqual([
      summary,
      assistant('a1'),
      assistant('a2'),
      assistant('a3'),
    ]);
  });

  it('may leave nothing but the summary', () => {
    expect(fold(talk, compacted({ ofRun: 4 })).messages).toEqual([summary]);
  });

  it('leaves the instructions at the front where they are', () => {
    const asked = [system('Be kind'), system('Be brief'), user('q1')];
    const told = fold(emptyTranscript, ...run(asked, 'a1', 'a2'));
    expect(fold(told, compacted({ ofRun: 4 })).messages).toEqual([
      system('Be kind'),
      system('Be brief'),
      summary,
      assistant('a2'),
    ]);
  });

  it('does not repeat instructions where it counts less than them', () => {
    const told = fold(emptyTranscript, ...run([system('Be kind'), system('Be brief'), user('q')]));
    for (const ofRun of [0, 1, 2]) {
      expect(fold(told, compacted({ ofRun })).messages).toEqual([
        system('Be kind'),
        system('Be brief'),
        summary,
        user('q'),
      ]);
    }
    const later = fold(told, ended, ...run([user('q2')]));
    for (const ofHistory of [0, 1, 2]) {
      expect(fold(later, compacted({ ofHistory, ofRun: 0 })).messages).toEqual([
        system('Be kind'),
        system('Be brief'),
        summary,
        user('q'),
        user('q2'),
      ]);
    }
  });

  it('treats later instructions like any other message', () => {
    const told = fold(emptyTranscript, ...run([user('q1'), system('And be quick')], 'a1'));
    expect(fold(told, compacted({ ofRun: 2 })).messages).toEqual([summary, assistant('a1')]);
  });

  it('is followed by later messages', () => {
    const after = fold(talk, compacted({ ofRun: 4 }), root.turn, root.said('a4'), root.completed);
    expect(after.messages).toEqual([summary, assistant('a4')]);
  });

  it('does not touch a turn that is going on', () => {
    const talking = fold(talk, root.turn, root.said('a'));
    const after = fold(talking, compacted({ ofRun: 4 }), root.said('4'), root.completed);
    expect(after.messages).toEqual([summary, assistant('a4')]);
  });

  it('is one of a sub-agent’s own messages too, which begin with its task', () => {
    const sub = eventsOf({ agentId: 'sub', parentId: 'root' });
    const task = sub.spawnedBy('c1', { task: 'Find it' });
    const working = fold(talk, task, sub.turn, sub.said('Looking'), sub.completed);
    expect(working.messages).toEqual([user('Find it'), assistant('Looking')]);
    const after = fold(working, sub.compacted({ ofRun: 1 }));
    expect(after.messages).toEqual([summary, assistant('Looking')]);
  });
});

describe('a compaction of a conversation with earlier runs', () => {
  const before = fold(emptyTranscript, ...run([user('q1')], 'a1'), ended);
  const now = fold(before, ...run([user('q2')], 'a2'));

  it('counts messages before the run and of the run separately', () => {
    expect(now.runStart).toBe(2);
    const part = fold(now, compacted({ ofHistory: 1, ofRun: 0 }));
    expect(part.messages).toEqual([summary, assistant('a1'), user('q2'), assistant('a2')]);
    const whole = fold(now, compacted({ ofHistory: 2, ofRun: 1 }));
    expect(whole.messages).toEqual([summary, assistant('a2')]);
  });

  it('says where the messages of the run begin from then on', () => {
    expect(fold(now, compacted({ ofHistory: 1, ofRun: 0 })).runStart).toBe(2);
    expect(fold(now, compacted({ ofHistory: 2, ofRun: 0 })).runStart).toBe(1);
    expect(fold(now, compacted({ ofHistory: 2, ofRun: 2 })).runStart).toBe(1);
  });

  it('keeps the messages of another run that ended in between', () => {
    // The same run, read by a later one: by then another had ended before it.
    const other = fold(before, ...run([user('other q')], 'other a'), ended);
    const reread = fold(other, ...run([user('q2')], 'a2'));
    expect(fold(reread, compacted({ ofHistory: 2, ofRun: 1 })).messages).toEqual([
      summary,
      user('other q'),
      assistant('other a'),
      assistant('a2'),
    ]);
  });

  it('removes only what is counted, whichever runs ended in between', () => {
    const said = fc.array(fc.string({ minLength: 1, maxLength: 3 }), { maxLength: 4 });
    fc.assert(
      fc.property(said, said, said, fc.nat(5), fc.nat(5), (first, between, own, h, r) => {
        const history = fold(emptyTranscript, ...run([user('q1')], ...first), ended);
        const ofHistory = Math.min(h, history.messages.length);
        const ofRun = Math.min(r, own.length + 1);
        const event = compacted({ ofHistory, ofRun });
        const live = fold(history, ...run([user('q3')], ...own));
        const other = run([user('q2')], ...between);
        const reread = fold(history, ...other, ended, ...run([user('q3')], ...own));
        const kept = live.messages.slice(history.messages.length + ofRun);
        const rest = [...history.messages.slice(ofHistory), ...kept];
        expect(fold(live, event).messages).toEqual([summary, ...rest]);
        const others = [user('q2'), ...between.map(assistant)];
        expect(fold(reread, event).messages).toEqual([
          summary,
          ...history.messages.slice(ofHistory),
          ...others,
          ...kept,
        ]);
      }),
    );
  });
});

describe('compactions after each other', () => {
  const talk = fold(emptyTranscript, ...run([system('Be kind'), user('q1')], 'a1', 'a2'));
  const once = fold(talk, compacted({ ofRun: 3, summary: 'First' }));

  it('count up', () => {
    expect([talk.generation, once.generation]).toEqual([0, 1]);
  });

  it('summarize the summary as what came before the run', () => {
    expect(once).toMatchObject({ runStart: 2 });
    const twice = fold(
      once,
      root.turn,
      root.said('a3'),
      root.completed,
      compacted({ ofHistory: 2, ofRun: 1, generation: 1, summary: 'Second' }),
    );
    expect(twice.messages).toEqual([system('Be kind'), user('Second'), assistant('a3')]);
    expect(twice.generation).toBe(2);
  });

  it('change nothing if they were made from another transcript', () => {
    for (const generation of [1, 2, -1]) {
      expect(fold(talk, compacted({ ofRun: 2, generation })).messages).toBe(talk.messages);
    }
    for (const generation of [0, 2]) {
      const after = fold(once, compacted({ ofHistory: 1, ofRun: 1, generation }));
      expect(after).toMatchObject({ messages: once.messages, generation: 1, runStart: 2 });
    }
  });

  it('change nothing if the one of their run before them did not apply, though the count fits', () => {
    const call = [root.turn, root.called('c1'), root.completed, root.done('c1')];
    // Two runs of one conversation went on side by side, and each has compacted what it read.
    const other = [...run([user('other q')], 'other a'), compacted({ ofRun: 2, summary: 'Other' })];
    const own = [
      ...run([user('q1')], 'a1', 'a2'),
      compacted({ ofRun: 3, generation: 0 }),
      ...call,
      compacted({ ofHistory: 1, ofRun: 1, generation: 1 }),
    ];
    const reread = fold(emptyTranscript, ...other, ended, ...own, ended);
    expect(reread.messages.slice(0, 4)).toEqual([
      user('Other'),
      user('q1'),
      assistant('a1'),
      assistant('a2'),
    ]);
    expect(reread.messages.slice(4).map(({ role }) => role)).toEqual(['assistant', 'tool']);
    // The next run reads the same thing as it is compacted, so that its compactions count again.
    const next = fold(reread, ...run([user('q2')]), compacted({ ofHistory: 6, generation: 1 }));
    expect(next.messages).toEqual([summary]);
  });

  it('continue counting in the next run of the conversation, and start again with a new prompt', () => {
    const next = fold(once, ended, ...run([user('q2')], 'b1'));
    expect(next).toMatchObject({ generation: 1, runStart: 3 });
    const both = fold(next, compacted({ ofHistory: 3, ofRun: 1, generation: 1 }));
    expect(both.messages).toEqual([system('Be kind'), summary, assistant('b1')]);
    const anew = fold(once, runCreated({ messages: [user('q')], history: null }));
    expect(anew).toEqual({ ...emptyTranscript, messages: [user('q')] });
  });
});

describe('leadingInstructions', () => {
  it('are the system’s messages before the first other one', () => {
    expect(leadingInstructions([])).toBe(0);
    expect(leadingInstructions([user('q')])).toBe(0);
    expect(leadingInstructions([system('a'), system('b'), user('q'), system('c')])).toBe(2);
    expect(leadingInstructions([system('a'), system('b')])).toBe(2);
  });
});
