import { describe, expect, it } from 'vitest';
import { eventTypes, parseEvent, type RunEvent } from '../../src/events/catalogue.ts';
import {
  deepFreeze,
  framesOf,
  header,
  hidden,
  journal,
  onTheWire,
  placed,
  subId,
} from './fixture-journal.ts';
import { dialects } from '../../src/dialects/index.ts';

const schema = { type: 'string' };
const question: RunEvent = {
  type: 'approval.requested',
  agentId: '01963a5c-7892-7abc-8ef0-123456789abc',
  approvalId: '01963a5c-7893-7abc-8ef0-123456789abc',
  toolCallId: 'call_1',
  kind: 'question',
  tool: 'order',
  params: { what: 'shirt' },
  digest: 'd',
  question: { nth: 1, prompt: 'Which size?', schema },
  agentPath: ['assistant'],
  expiresAt: '2026-03-02T10:00:00.000Z',
};

const all = Object.values(dialects);

describe('fixture journal', () => {
  it('uses every event type of the catalogue', () => {
    const used = new Set(journal.map((event) => event.type));
    expect(eventTypes.filter((type) => !used.has(type))).toEqual([]);
  });

  it.each(journal.map((event) => [event.seq, event.type, event] as const))(
    'holds at %i a %s that the catalogue declares, to the last field',
    (_seq, _type, event) => {
      const { seq: _, at: __, ...bare } = event;
      expect(parseEvent(event)).toEqual(bare);
    },
  );

  it('contains values that must stay hidden', () => {
    expect(JSON.stringify(journal)).toContain(hidden);
  });
});

describe('dialects', () => {
  it('are registered under their own names', () => {
    for (const [name, dialect] of Object.entries(dialects)) expect(dialect.name).toBe(name);
  });
});

describe.each(all.map((dialect) => [dialect.name, dialect] as const))(
  'dialect %s',
  (_name, dialect) => {
    it('projects an event to at most one frame with a type', () => {
      for (const event of journal) {
        const frame = dialect.project(event, header);
        if (frame === undefined) continue;
        expect(Array.isArray(frame)).toBe(false);
        expect(frame.type).toMatch(/^[a-z]+(_[a-z]+)*$/);
      }
    });

    it('is a pure function of the event and the header', () => {
      for (const event of journal) {
        const own = deepFreeze(structuredClone(event));
        const once = onTheWire(dialect.project(own, deepFreeze({ ...header })));
        expect(onTheWire(dialect.project(own, deepFreeze({ ...header })))).toEqual(once);
        expect(own).toEqual(event);
      }
    });

    it('keeps no state between events', () => {
      const forwards = framesOf(dialect);
      const backwards = journal
        .toReversed()
        .map((event) => [event.seq, onTheWire(dialect.project(event, header))] as const)
        .filter(([, frame]) => frame !== undefined)
        .toReversed();
      expect(backwards).toEqual(forwards);
    });

    it('never shows a secret or an internal field', () => {
      const text = JSON.stringify(framesOf(dialect));
      expect(text).not.toContain(hidden);
      for (const field of ['digest', 'idempotencyKey', 'providerCallId', 'permissions']) {
        expect(text).not.toContain(`"${field}"`);
      }
      for (const field of ['labels', 'textId', 'reasoningId']) expect(text).not.toContain(field);
      for (const [, frame] of framesOf(dialect)) expect(frame).not.toHaveProperty('at');
      // Which rule has denied a call is said, and what its id is not.
      const ruled = framesOf(dialect).filter(([, frame]) => 'rule' in (frame as object));
      for (const [, frame] of ruled) expect(frame).toMatchObject({ output: { status: 'denied' } });
      const unhurried = framesOf(dialect).filter(
        ([, frame]) => (frame as { type: string }).type !== 'approval_expiring',
      );
      expect(JSON.stringify(unhurried)).not.toContain('expiresAt');
      for (const field of ['spawned', 'summary', 'system', 'tools', 'generation', 'via', 'limit']) {
        expect(text).not.toContain(`"${field}":`);
      }
    });

    it('shows the agent path of an approval of a sub-agent only', () => {
      const approvals = journal.filter((event) => event.type === 'approval.requested');
      const paths = approvals.map((event) => dialect.project(event, header)?.['agentPath']);
      expect(paths).toEqual([undefined, undefined, undefined, ['researcher', 'helper']]);
      const others = journal.filter((event) => event.type !== 'approval.requested');
      for (const event of others) {
        expect(dialect.project(event, header) ?? {}, event.type).not.toHaveProperty('agentPath');
      }
    });

    it('puts the agentId on calls of sub-agents', () => {
      const looking = journal.filter((event) => 'name' in event && event.name === 'look_up');
      const shown = looking.flatMap((event) => dialect.project(event, header) ?? []);
      expect(shown.length).toBeGreaterThan(0);
      for (const frame of shown) expect(frame).toHaveProperty('agentId', subId);
    });

    it('hides reached limits, compactions and memories', () => {
      const words = ['limit.reached', 'context.compacted', 'memory.recalled', 'memory.stored'];
      const inward = journal.filter(({ type }) => words.includes(type));
      expect(inward).toHaveLength(words.length);
      for (const event of inward) expect(dialect.project(event, header)).toBeUndefined();
    });

    it('hides the duration of tools', () => {
      expect(JSON.stringify(framesOf(dialect))).not.toContain('987654');
    });

    it('shows the question of a tool and the JSON Schema of its answer', () => {
      expect(dialect.project(placed(question), header)).toMatchObject({
        kind: 'question',
        toolCallId: 'call_1',
        prompt: 'Which size?',
        schema,
      });
    });

    it('ends with the last frame of the run', () => {
      const [seq, frame] = framesOf(dialect).at(-1) ?? [];
      const terminal = dialect.name === 'chat' ? 'harness_end' : 'done';
      expect(frame).toHaveProperty('type', terminal);
      expect(seq).toBeGreaterThan(journal.findIndex((event) => event.type === 'run.errored'));
    });
  },
);
