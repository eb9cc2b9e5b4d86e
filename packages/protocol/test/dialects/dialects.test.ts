import { describe, expect, it } from 'vitest';
import { eventTypes, parseEvent } from '../../src/events/catalogue.ts';
import {
  deepFreeze,
  framesOf,
  header,
  hidden,
  journal,
  onTheWire,
  subId,
} from './fixture-journal.ts';
import { dialects } from '../../src/dialects/index.ts';

const all = Object.values(dialects);

describe('the fixture journal', () => {
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

  it('marks something in it as not to be shown', () => {
    expect(JSON.stringify(journal)).toContain(hidden);
  });
});

describe('the dialects', () => {
  it('are found under their own names', () => {
    for (const [name, dialect] of Object.entries(dialects)) expect(dialect.name).toBe(name);
  });
});

describe.each(all.map((dialect) => [dialect.name, dialect] as const))('%s', (_name, dialect) => {
  it('makes at most one frame of an event: an object with a type', () => {
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

  it('does not depend on what it projected before', () => {
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
    for (const field of ['digest', 'idempotencyKey', 'providerCallId', 'permissions', 'rule']) {
      expect(text).not.toContain(`"${field}"`);
    }
    for (const field of ['labels', 'textId', 'reasoningId', '"at"']) {
      expect(text).not.toContain(field);
    }
    const unhurried = framesOf(dialect).filter(
      ([, frame]) => (frame as { type: string }).type !== 'approval_expiring',
    );
    expect(JSON.stringify(unhurried)).not.toContain('expiresAt');
    for (const field of ['spawned', 'summary', 'system', 'tools', 'generation', 'via', 'limit']) {
      expect(text).not.toContain(`"${field}":`);
    }
  });

  it('says from which agent down an approval comes, where it is not the first agent’s', () => {
    const approvals = journal.filter((event) => event.type === 'approval.requested');
    const paths = approvals.map((event) => dialect.project(event, header)?.['agentPath']);
    expect(paths).toEqual([undefined, undefined, undefined, ['researcher', 'helper']]);
    const others = journal.filter((event) => event.type !== 'approval.requested');
    for (const event of others) {
      expect(dialect.project(event, header) ?? {}, event.type).not.toHaveProperty('agentPath');
    }
  });

  it('tells of a sub-agent’s call whose it is', () => {
    const looking = journal.filter((event) => 'name' in event && event.name === 'look_up');
    const shown = looking.flatMap((event) => dialect.project(event, header) ?? []);
    expect(shown.length).toBeGreaterThan(0);
    for (const frame of shown) expect(frame).toHaveProperty('agentId', subId);
  });

  it('keeps limits that were reached, compactions and memories to itself', () => {
    const words = ['limit.reached', 'context.compacted', 'memory.recalled', 'memory.stored'];
    const inward = journal.filter(({ type }) => words.includes(type));
    expect(inward).toHaveLength(words.length);
    for (const event of inward) expect(dialect.project(event, header)).toBeUndefined();
  });

  it('shows no time that a tool took', () => {
    expect(JSON.stringify(framesOf(dialect))).not.toContain('987654');
  });

  it('has its last frame at the end of the run', () => {
    const [seq, frame] = framesOf(dialect).at(-1) ?? [];
    const terminal = dialect.name === 'chat' ? 'harness_end' : 'done';
    expect(frame).toHaveProperty('type', terminal);
    expect(seq).toBeGreaterThan(journal.findIndex((event) => event.type === 'run.errored'));
  });
});
