/**
 * Attacks by somebody who can write to the database and does not hold the key: for each kind of row that
 * decides who may do what and for each of its columns, nothing is granted.
 */
import { createHmac } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { DamagedRow, SystemStore, TenantStore } from '@relay/core';
import { RelayError } from '@relay/protocol';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { RowAuthenticator } from '../../src/index.ts';
import { tables } from '../../src/sql/signed-tables.ts';
import { decisionOn, newApproval, newRun, noon, person, step } from '../contract/fixtures.ts';
import { addSession, changeOf, newAction } from '../contract/sessions/fixtures.ts';
import { newCredential } from '../contract/tenants/credentials.ts';
import { newGrant } from '../contract/tenants/grants.ts';
import { newKey } from '../contract/tenants/keys.ts';
import { newPolicy } from '../contract/tenants/policies.ts';
import { newWebhook } from '../contract/tenants/webhooks.ts';

export interface OpenDatabase {
  open(rows: RowAuthenticator): Promise<SystemStore>;
  /** As another program would, past all checks. */
  sql(text: string): Promise<readonly Readonly<Record<string, unknown>>[]>;
  dispose(): Promise<void>;
}

/** Knows the codes of several keys, and signs with the first. */
function keyed(...keys: [string, ...string[]]): RowAuthenticator {
  const mac = (key: string, text: string) =>
    `${key}.${createHmac('sha256', key).update(text).digest('base64url')}`;
  return {
    sign: (text) => mac(keys[0], text),
    verify: (text, code) => keys.some((key) => mac(key, text) === code),
    isCurrent: (code) => code.startsWith(`${keys[0]}.`),
  };
}

/** Columns that give no right. */
const unsigned = ['last_used_at', 'status', 'decided_at', 'decided_by', 'reason', 'answer'].concat([
  'edited',
  'position',
  'args',
  'mac',
]);

const isNumber = (column: string) =>
  /_at$|^is_|^(?:at|version|uses|uses_left|may_decide|ballot|timeout_ms|idempotent|answer_by)$/.test(
    column,
  );

export function tamperingTests(openDatabase: () => Promise<OpenDatabase>): void {
  let database: OpenDatabase;
  let store: SystemStore;
  let one: TenantStore;
  let two: TenantStore;
  let run: { id: string; conversationId: string };

  beforeEach(async () => {
    database = await openDatabase();
    store = await database.open(keyed('k1'));
    for (const id of ['one', 'two']) await store.ensureTenant({ id, name: id, at: noon });
    one = store.tenant('one');
    two = store.tenant('two');
    // No column is NULL, so that each can be changed.
    const pausedAt = noon;
    await one.updateTenant({ pausedAt, settings: { workspace: '/srv/one' } });
    const owned = { tenantId: 'one', owner: 'ada', role: 'viewer', groups: ['g'] };
    const key = newKey({ id: 'k', ...owned, scopes: ['read'], expiresAt: noon + 9 });
    await store.addKey(key, 'hash');
    await one.putCredential(newCredential({ id: 'c', label: 'l', baseUrl: 'https://a.example' }));
    const terms = { params: { to: 'a*' }, expiresAt: noon + 9, uses: 3 };
    await one.addGrant(newGrant(one, { id: 'g', ...terms }));
    await one.policies.put(
      newPolicy({ rules: { allow: [], deny: [{ tool: 'bash' }], ask: [], approvers: [] } }),
    );
    await one.webhooks.add(newWebhook(one, { id: 'w', mayDecide: false }));
    const definition = {
      handle: 'ada',
      agent: 'a',
      model: 'm',
      workspace: 'w',
      parentSessionId: 'p',
    };
    await addSession(one, { id: 's', tokenHash: 'token', definition });
    await one.channels.put({ name: 'general', createdAt: noon, createdBy: person });
    await one.channels.addMember({ channel: 'general', sessionId: 's', addedAt: noon });
    await one.actions.add(newAction({ sessionId: 's' }));
    const fork = { sessionId: 'f', handle: 'bob', by: person };
    const asked = { id: 'q', sessionId: 's', command: 'fork', args: {}, fork } as const;
    const command = { ...asked, at: noon, answerBy: noon + 9 };
    await one.sessions.change({ changes: [changeOf('s')], commands: [command] });
    run = await newRun(one);
    const approval = newApproval(
      { ...run, tenant: one },
      {
        id: 'a',
        question: { prompt: 'p', schema: {} },
        resolvedPaths: { filePath: '/srv/one/a' },
        earlierDenial: { at: new Date(noon).toISOString(), by: person },
        shown: { description: 'a' },
        isConcrete: false,
        isEditable: false,
        rule: { list: 'ask', index: 0, source: 'policy' },
      },
    );
    await one.append(step({ ...run, tenant: one }, { approvals: [approval] }));
    await one.decideApproval(decisionOn(approval));
  });
  afterEach(async () => {
    await store.close();
    await database.dispose();
  });

  /** Damaged, or a tenant that does not exist. */
  const refusals = ['journal_corrupt', 'internal'];

  /** What is found, none if it is refused. */
  async function found<Value>(read: Promise<Value | undefined>): Promise<Value[]> {
    try {
      const value = await read;
      return value === undefined ? [] : [value];
    } catch (error) {
      const isRefused = error instanceof RelayError && refusals.includes(error.code);
      if (isRefused) return [];
      throw error;
    }
  }

  const scope = () => ({
    runId: run.id,
    conversationId: run.conversationId,
    owner: 'ada',
    now: noon,
  });

  /** What each kind of row gives, in its own tenant or another. */
  const rights: Readonly<Record<string, () => Promise<readonly unknown[]>>> = {
    tenants: async () => [
      ...(await found(one.readTenant())),
      ...(await found(store.findTenant('one'))),
      ...(await store.workspaces()),
      ...(await found(one.policies.inForce('assistant'))).flat(),
    ],
    keys: async () => [
      ...(await found(store.findKey('hash'))),
      ...(await found(store.findKey('hashx'))),
      ...(await one.listKeys({ limit: 9 })),
      ...(await found(one.readKey('k'))),
    ],
    credentials: async () =>
      (
        await Promise.all(
          [one, two].flatMap((tenant) => [
            found(tenant.readCredential('openai')),
            found(tenant.readCredential('anthropic')),
            found(tenant.listCredentials()).then(([list = []]) => list),
          ]),
        )
      ).flat(),
    grants: async () => [
      ...(await one.readGrants(scope())),
      ...(await two.readGrants(scope())),
      ...(await one.listGrants({}, { limit: 9 })),
      ...(await found(one.readGrant('g'))),
    ],
    policies: () => found(one.policies.inForce('assistant')),
    webhooks: async () => [
      ...(await found(store.deliveries.find('w'))),
      ...(await found(store.deliveries.find('wx'))),
      ...(await one.webhooks.list({ limit: 9 })),
    ],
    approvals: async () => [
      ...(await found(one.readApproval('a'))),
      ...(await found(one.readApproval('ax'))),
    ],
    run_inbox: async () => (await found(one.readInbox(run.id))).flat(),
    sessions: async () => [
      ...(await found(store.sessions.findToken('token'))),
      ...(await found(store.sessions.findToken('tokenx'))),
      ...(await found(one.sessions.read('s'))),
      ...(await found(one.sessions.read('sx'))),
      ...(await found(one.sessions.readByHandle('ada'))),
      ...(await found(one.sessions.readByHandle('adax'))),
    ],
    channel_members: async () => [
      ...(await one.channels.members('general')),
      ...(await one.channels.channelsOf('s')),
      ...(await one.channels.channelsOf('sx')),
      ...(await two.channels.channelsOf('s')),
    ],
    actions: async () => [
      ...(await one.actions.list({ limit: 9 })),
      ...(await two.actions.list({ limit: 9 })),
      ...(await found(one.actions.read('deploy'))),
    ],
    session_commands: async () => [
      ...(await one.sessions.openCommands('s', 9)),
      ...(await one.sessions.openCommands('sx', 9)),
      ...(await two.sessions.openCommands('s', 9)),
      ...(await found(one.sessions.readCommand('s', 'q'))),
      ...(await found(one.sessions.readCommand('s', 'qx'))),
    ],
  };

  test('there is an attack for each signed table', () => {
    expect(tables.map(({ name }) => name).toSorted()).toEqual(Object.keys(rights).toSorted());
  });

  for (const { name, columns } of tables) {
    describe(`a row of ${name}`, () => {
      // Of all other tables there is one row.
      const where = name === 'tenants' ? `id = 'one'` : '1 = 1';

      for (const column of columns.filter((column) => !unsigned.includes(column))) {
        test(`whose ${column} was changed gives nothing, also with a new checksum`, async () => {
          const [before] = await database.sql(`SELECT * FROM ${name} WHERE ${where}`);
          const isNull = before?.[column] === null;
          const value = isNumber(column)
            ? isNull
              ? '1'
              : `${column} + 1`
            : `COALESCE(${column}, '') || 'x'`;
          await database.sql(`UPDATE ${name} SET ${column} = ${value} WHERE ${where}`);
          expect(await rights[name]?.()).toEqual([]);
          const damaged = await store.damagedRows();
          expect(damaged).toMatchObject([{ table: name }]);
          const checksum = crc32(JSON.stringify(before)).toString(16);
          await database.sql(`UPDATE ${name} SET mac = '${checksum}' WHERE ${column} = ${column}`);
          expect(await rights[name]?.()).toEqual([]);
        });
      }

      test('gives what it should as it is', async () => {
        expect(await rights[name]?.()).not.toEqual([]);
        expect(await store.damagedRows()).toEqual([]);
      });
    });
  }

  test('a damaged row that is used is reported', async () => {
    const reported: DamagedRow[] = [];
    const stop = store.onDamagedRow((row) => reported.push(row));
    await database.sql(`UPDATE keys SET scopes = '["admin"]'`);
    await store.findKey('hash');
    stop();
    await store.findKey('hash');
    expect(reported).toEqual([{ table: 'keys', id: 'k', tenantId: 'one' }]);
  });

  test('a key that was inserted past Relay does not work, whatever code it has', async () => {
    const columns = tables.find(({ name }) => name === 'keys')?.columns ?? [];
    const forged = columns.map((name) => (['id', 'hash'].includes(name) ? `'mine'` : name));
    await database.sql(`INSERT INTO keys (${columns.join(', ')})
      SELECT ${forged.join(', ')} FROM keys`);
    expect(await store.findKey('mine')).toBeUndefined();
  });

  test('rights that were taken away stay so', async () => {
    await one.revokeKey('k', noon);
    await one.revokeGrant('g', noon);
    await database.sql(`UPDATE keys SET revoked_at = NULL`);
    await database.sql(`UPDATE grants SET revoked_at = NULL`);
    expect([await rights['keys']?.(), await rights['grants']?.()]).toEqual([[], []]);
  });

  test('a counted grant cannot be filled up again', async () => {
    const use = (afterSeq: number) =>
      one.append(step({ ...run, tenant: one }, { afterSeq, useGrants: ['g'] }));
    expect(await use(2)).toBe('committed');
    await database.sql('UPDATE grants SET uses_left = 3');
    expect(await use(3)).toBe('refused');
    expect(await rights['grants']?.()).toEqual([]);
  });

  test('a code cannot be used for a row of another tenant or another table', async () => {
    await two.addGrant(newGrant(two, { id: 'h' }));
    await database.sql(`UPDATE grants SET mac = (SELECT g.mac FROM grants g WHERE g.id = 'g')
      WHERE id = 'h'`);
    expect(await two.readGrants(scope())).toEqual([]);
    await database.sql(`UPDATE grants SET tenant_id = 'two', scope_id = 'two' WHERE id = 'g'`);
    expect(await two.readGrants(scope())).toEqual([]);
  });

  test('a policy that was deleted, or replaced by an earlier version, stops all calls', async () => {
    await one.policies.put(
      newPolicy({ version: 2, rules: { allow: [], deny: [], ask: [], approvers: [] } }),
    );
    await database.sql('DELETE FROM policies WHERE version = 2');
    const read = one.policies.inForce('assistant');
    await expect(read).rejects.toThrow('The policy *@2 is damaged: it is missing');
    await expect(one.policies.read(null)).rejects.toMatchObject({ code: 'journal_corrupt' });
    expect(await one.policies.put(newPolicy({ version: 3 }))).toBe(true);
    expect(await one.policies.inForce('assistant')).toMatchObject([{ version: 3 }]);
  });

  test('a change of the key leaves all rows valid, and signs them anew', async () => {
    const before = await Promise.all(Object.values(rights).map((read) => read()));
    const reopen = async (rows: RowAuthenticator) => {
      await store.close();
      store = await database.open(rows);
      [one, two] = [store.tenant('one'), store.tenant('two')];
      return Promise.all(Object.values(rights).map((read) => read()));
    };
    await database.sql(`UPDATE webhooks SET url = '"https://evil.example"'`);
    before[Object.keys(rights).indexOf('webhooks')] = [];
    expect(await reopen(keyed('k2', 'k1'))).toEqual(before);
    await store.resignRows();
    expect(await reopen(keyed('k2'))).toEqual(before);
    expect(await store.damagedRows()).toMatchObject([{ table: 'webhooks', id: 'w' }]);
    expect((await reopen(keyed('k3'))).flat()).toEqual([]);
  });
}
