import type { RunFilter } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import { ending, hostileText, newRun, noon, useStore } from '../fixtures.ts';
import type { Open } from '../fixtures.ts';
import { at, created, ids, idsOf } from './run-lists.ts';

export function runFilterTests(open: Open): void {
  const { tenant: newTenant } = useStore(open);

  test('by status, one or several', async () => {
    const tenant = newTenant();
    const queued = await at(tenant, 0, { lease: null });
    const running = await at(tenant, 1, { progress: { status: 'running' } });
    const over = await at(tenant, 2);
    await tenant.append(ending(over));
    expect(await idsOf(tenant, { status: 'queued' })).toEqual(ids(queued));
    expect(await idsOf(tenant, { status: 'completed' })).toEqual(ids(over));
    expect(await idsOf(tenant, { status: ['completed', 'queued'] })).toEqual(ids(over, queued));
    expect(await idsOf(tenant, { status: ['running', 'running'] })).toEqual(ids(running));
    expect(await idsOf(tenant, { status: ['waiting', 'failed'] })).toEqual([]);
    expect(await idsOf(tenant, { status: [] })).toEqual([]);
  });

  test('by what a run belongs to', async () => {
    const tenant = newTenant();
    const [conversationId, parentRunId] = [uuidv7(), uuidv7()];
    const plain = await at(tenant, 0);
    const identity = { conversationId, parentRunId, workflowId: 'w', agent: 'helper' };
    const whole = await at(tenant, 1, { identity });
    const same = await at(tenant, 2, { identity: { conversationId, agent: 'helper' } });
    expect(await idsOf(tenant, { conversationId })).toEqual(ids(same, whole));
    expect(await idsOf(tenant, { parentRunId })).toEqual(ids(whole));
    expect(await idsOf(tenant, { workflowId: 'w' })).toEqual(ids(whole));
    expect(await idsOf(tenant, { agent: 'helper' })).toEqual(ids(same, whole));
    expect(await idsOf(tenant, { agent: 'assistant' })).toEqual(ids(plain));
    for (const filter of [{ workflowId: 'W' }, { agent: '' }, { parentRunId: conversationId }]) {
      expect(await idsOf(tenant, filter)).toEqual([]);
    }
  });

  test('by a label: its name and its value', async () => {
    const tenant = newTenant();
    const blue = await at(tenant, 0, { identity: { labels: { team: 'blue', env: 'prod' } } });
    const red = await at(tenant, 1, { identity: { labels: { team: 'red', env: 'prod' } } });
    const label = (name: string, value: string) => idsOf(tenant, { label: { name, value } });
    expect(await label('team', 'blue')).toEqual(ids(blue));
    expect(await label('env', 'prod')).toEqual(ids(red, blue));
    for (const [name, value] of [
      ['team', 'green'],
      ['blue', 'team'],
      ['prod', 'env'],
      ['toString', ''],
    ] as const) {
      expect(await label(name, value)).toEqual([]);
    }
  });

  test('by time: since is in, until is out', async () => {
    const tenant = newTenant();
    const made = [];
    for (let ms = 0; ms < 4; ms += 1) made.push(await at(tenant, ms));
    const [, one, two] = made;
    const filter = { since: noon + 1, until: noon + 3 };
    expect(await idsOf(tenant, filter)).toEqual(ids(two, one));
    const before = { at: noon + 2, id: two?.id ?? '' };
    expect((await tenant.listRuns(filter, { limit: 9, before })).items).toMatchObject([
      { id: one?.id },
    ]);
    const later = { at: noon + 9, id: 'z' };
    expect((await tenant.listRuns(filter, { limit: 9, before: later })).items).toHaveLength(2);
    expect(await idsOf(tenant, { since: noon + 3, until: noon + 1 })).toEqual([]);
  });

  test('all that are named must hold, whichever they are', async () => {
    const tenant = newTenant();
    const [conversationId, parentRunId] = [uuidv7(), uuidv7()];
    const identity = { conversationId, parentRunId, workflowId: 'w', agent: 'a' };
    const whole = await at(tenant, 5, {
      identity: { ...identity, labels: { a: '1' } },
      progress: { status: 'waiting' },
    });
    const fitting: RunFilter = {
      conversationId,
      parentRunId,
      workflowId: 'w',
      agent: 'a',
      label: { name: 'a', value: '1' },
      status: ['waiting', 'failed'],
      since: noon,
      until: noon + 9,
    };
    const wrong: RunFilter = {
      conversationId: uuidv7(),
      parentRunId: uuidv7(),
      workflowId: 'x',
      agent: 'b',
      label: { name: 'a', value: '2' },
      status: ['completed', 'queued'],
      since: noon + 9,
      until: noon,
    };
    const names = Object.keys(fitting) as (keyof RunFilter)[];
    for (const first of names) {
      for (const second of names) {
        const both = { [first]: fitting[first], [second]: fitting[second] };
        expect(await idsOf(tenant, both)).toEqual(ids(whole));
        expect(await idsOf(tenant, { ...both, [second]: wrong[second] })).toEqual([]);
      }
      expect(await idsOf(tenant, { ...fitting, [first]: wrong[first] })).toEqual([]);
    }
    expect(await idsOf(tenant, fitting)).toEqual(ids(whole));
  });

  test('hostile text is found by exactly itself', async () => {
    const tenant = newTenant();
    const texts = Object.values(hostileText);
    const found = new Map<string, string>();
    for (const text of texts) {
      const identity = { agent: text, workflowId: text, labels: { [text]: text } };
      found.set(text, (await newRun(tenant, { identity, events: [created(text)] })).id);
    }
    for (const text of texts) {
      for (const filter of [
        { agent: text },
        { workflowId: text },
        { label: { name: text, value: text } },
      ]) {
        const [listing, ...more] = (await tenant.listRuns(filter, { limit: 9 })).items;
        expect(listing).toMatchObject({ id: found.get(text), agent: text, workflowId: text });
        expect(listing?.opening).toEqual(created(text));
        expect(more).toEqual([]);
      }
    }
  });
}
