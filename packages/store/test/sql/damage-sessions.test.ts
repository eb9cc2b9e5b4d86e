/** That damage to what belongs to a session is detected. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { SystemStore, TenantStore } from '@relay/core';
import type { SessionEvent } from '@relay/protocol';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { noon } from '../contract/fixtures.ts';
import {
  addSession,
  changeOf,
  log,
  newInvocation,
  send,
  whole,
} from '../contract/sessions/fixtures.ts';
import { openSqliteStore } from '../../src/index.ts';

describe('damage to sessions', () => {
  let dir: string;
  let store: SystemStore;
  let tenant: TenantStore;
  const sessionId = 'session';
  let messageId: string;

  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), 'relay-damage-'));
    store = await openSqliteStore({ dir });
    tenant = store.tenant('tenant');
    await addSession(tenant, { id: sessionId });
    await addSession(tenant, { id: 'other' });
    for (const id of [sessionId, 'other']) {
      const events = [log('a'), log('b')];
      const change = changeOf(id, { events });
      await tenant.sessions.change({ changes: [change, change, changeOf(id)] });
    }
    messageId = (await send(tenant, [sessionId])).id;
    await tenant.sessions.change({
      changes: [],
      invocations: [newInvocation({ id: 'invocation' })],
      snapshots: [{ id: 'snapshot', sessionId, seq: 1, at: noon, content: { a: 1 } }],
    });
  });
  afterEach(async () => {
    await store.close();
    rmSync(dir, { recursive: true, force: true });
  });

  /** As another program would, past all our checks. */
  function tamper(sql: string): void {
    const db = new DatabaseSync(join(dir, 'relay.db'));
    db.exec(sql);
    db.close();
  }

  const journal = () => tenant.sessions.readEvents(sessionId, whole);
  const of = `session_id = 'session' AND last_seq`;
  const wrongs: Record<string, string> = {
    'changed text': `UPDATE session_events SET payload = replace(payload, '"a"', '"x"') WHERE ${of} = 3`,
    'a changed time': `UPDATE session_events SET at = at + 1 WHERE ${of} = 3`,
    'an event too many': `UPDATE session_events SET first_seq = first_seq + 1 WHERE ${of} = 3`,
    'a row that is missing in the middle': `DELETE FROM session_events WHERE ${of} = 3`,
    'a row that is missing at the beginning': `DELETE FROM session_events WHERE ${of} = 1`,
    'a row that is missing at the end': `DELETE FROM session_events WHERE ${of} = 7`,
    'two rows that changed places': `UPDATE session_events SET last_seq = 100 WHERE ${of} = 3;
      UPDATE session_events SET last_seq = 3, first_seq = 2 WHERE ${of} = 5;
      UPDATE session_events SET last_seq = 5, first_seq = 4 WHERE ${of} = 100`,
    'a row of another session': `DELETE FROM session_events WHERE ${of} = 3;
      UPDATE session_events SET session_id = 'session' WHERE session_id = 'other' AND last_seq = 3`,
  };
  test.each(Object.entries(wrongs))('%s in a journal is detected', async (_name, sql) => {
    expect(await journal()).toHaveLength(7);
    tamper(sql);
    await expect(journal()).rejects.toMatchObject({ code: 'journal_corrupt' });
    expect(await tenant.sessions.readEvents('other', { after: 3, limit: 9 })).toHaveLength(3);
  });

  test('a row that is missing among pruned terminal output is detected', async () => {
    const text = 'x'.repeat(100 * 1024);
    for (let n = 0; n < 20; n += 1) {
      const events: SessionEvent[] = [{ type: 'terminal.output', text }];
      await tenant.sessions.change({ changes: [changeOf(sessionId, { events })] });
      await tenant.sessions.change({ changes: [changeOf(sessionId)] });
    }
    const [first, ...others] = await tenant.sessions.readEvents(sessionId, { after: 7, limit: 99 });
    expect(first).toMatchObject({ seq: 9, type: 'log' });
    expect(others.length).toBeGreaterThan(20);
    tamper(`DELETE FROM session_events WHERE ${of} = 9`);
    await expect(
      tenant.sessions.readEvents(sessionId, { after: 7, limit: 99 }),
    ).rejects.toMatchObject({ code: 'journal_corrupt' });
    // Also output that is to be kept.
    tamper(`DELETE FROM session_events WHERE ${of} = 46`);
    await expect(
      tenant.sessions.readEvents(sessionId, { after: 44, limit: 99 }),
    ).rejects.toMatchObject({ code: 'journal_corrupt' });
  });

  test('what lies before and after the damage can still be read', async () => {
    tamper(`UPDATE session_events SET at = at + 1 WHERE ${of} = 5`);
    expect(await tenant.sessions.readEvents(sessionId, { after: 0, limit: 3 })).toHaveLength(3);
    expect(await tenant.sessions.readEvents(sessionId, { after: 5, limit: 9 })).toHaveLength(2);
  });

  const edits: Record<string, string> = {
    changed: `UPDATE invocations SET edited_input = '{"where":"there"}' WHERE id = 'edited'`,
    removed: `UPDATE invocations SET edited_input = NULL WHERE id = 'edited'`,
    'put into another': `UPDATE invocations SET (edited_input, edited_checksum) = (
      SELECT edited_input, edited_checksum FROM invocations WHERE id = 'other') WHERE id = 'edited'`,
    'added to one': `UPDATE invocations SET edited_input = '{"where":"there"}' WHERE id = 'plain'`,
  };
  test.each(Object.entries(edits))(
    'the input of an invocation as an approver edited it, %s, is detected',
    async (_name, sql) => {
      const ids = ['edited', 'other', 'plain'];
      const invocations = ids.map((id) => newInvocation({ id, status: 'waiting' }));
      const approved = { from: ['waiting'], to: 'running', at: noon } as const;
      await tenant.sessions.change({
        changes: [],
        invocations,
        invocationChanges: ids.map((id) => ({
          ...approved,
          id,
          ...(id === 'plain' ? {} : { editedInput: { of: id } }),
        })),
      });
      const id = sql.includes(`'plain'`) ? 'plain' : 'edited';
      expect(await tenant.actions.readInvocation(id)).toMatchObject({ status: 'running' });
      tamper(sql);
      await expect(tenant.actions.readInvocation(id)).rejects.toMatchObject({
        code: 'journal_corrupt',
      });
    },
  );

  test('a change of stored state, messages, inputs and snapshots is detected', async () => {
    const reads: Record<string, () => Promise<unknown>> = {
      [`UPDATE sessions SET state = replace(state, 'none', 'active')`]: () =>
        tenant.sessions.read(sessionId),
      [`UPDATE messages SET text = '"other"'`]: () => tenant.messages.read(messageId),
      [`UPDATE invocations SET input = '{"where":"there"}'`]: () =>
        tenant.actions.readInvocation('invocation'),
      [`UPDATE session_snapshots SET content = '{"a":2}'`]: () =>
        tenant.sessions.readSnapshot('snapshot'),
    };
    for (const [sql, read] of Object.entries(reads)) {
      expect(await read()).toBeDefined();
      tamper(sql);
      await expect(read()).rejects.toMatchObject({ code: 'journal_corrupt' });
    }
    await expect(tenant.messages.inbox(sessionId, whole)).rejects.toMatchObject({
      code: 'journal_corrupt',
    });
  });
});
