import type { Hint, SessionChange, SystemStore } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../../../../../test/support/postgres.ts';
import { TcpProxy } from '../../../../../test/support/tcp-proxy.ts';
import {
  decisionOn,
  cancelCommand,
  delta,
  ending,
  newApproval,
  newRun,
  noon,
  started,
  step,
} from '../../contract/fixtures.ts';
import { openPostgresDriver } from '../../../src/drivers/postgres/driver.ts';
import { openPostgresStore } from '../../../src/index.ts';
import { newKey } from '../../contract/tenants/keys.ts';
import { addSession, changeOf, send } from '../../contract/sessions/fixtures.ts';

describe('nodes on one database', () => {
  let database: TestDatabase;
  let proxy: TcpProxy;
  let sender: SystemStore;
  let receiver: SystemStore;
  let received: Hint[];
  let receivedBySelf: Hint[];

  beforeEach(async () => {
    database = await createDatabase();
    proxy = new TcpProxy(database.url);
    sender = await openPostgresStore({ url: database.url });
    receiver = await openPostgresStore({ url: await proxy.open() });
    received = [];
    receivedBySelf = [];
    receiver.listen((hint) => received.push(hint));
    sender.listen((hint) => receivedBySelf.push(hint));
    await expect.poll(() => [...received, ...receivedBySelf]).toEqual([all, all]);
    received.length = receivedBySelf.length = 0;
  });
  afterEach(async () => {
    await Promise.all([sender.close(), receiver.close()]);
    await proxy.close();
    await database.drop();
  });

  const all: Hint = { kind: 'all' };
  /** In whatever order, each at least once, and nothing else. */
  const expectReceived = async (...hints: Hint[]) => {
    await expect.poll(() => new Set(received)).toEqual(new Set(hints));
    received.length = 0;
  };

  test('receive what the others have stored, and not their own', async () => {
    const tenant = sender.tenant(uuidv7());
    const { tenantId } = tenant;
    const run = await newRun(tenant);
    const ofRun = { tenantId, runId: run.id };
    await expectReceived({ kind: 'run', ...ofRun });
    await tenant.append(step(run, { events: [delta('a'), delta('b')] }));
    await expectReceived({ kind: 'journal', runId: run.id });
    const approval = newApproval(run);
    await tenant.append(step(run, { afterSeq: 3, approvals: [approval] }));
    const ofApproval: Hint = { kind: 'approval', tenantId, approvalId: approval.id };
    await expectReceived({ kind: 'journal', runId: run.id }, ofApproval);
    await tenant.decideApproval(decisionOn(approval));
    await expectReceived({ kind: 'wake', ...ofRun }, ofApproval);
    await tenant.postRunCommand(run.id, cancelCommand('stop'));
    await expectReceived({ kind: 'wake', ...ofRun });
    await tenant.append(ending(run, { afterSeq: 4, events: [started] }));
    await expectReceived({ kind: 'run', ...ofRun });
    expect(receivedBySelf).toEqual([]);
  });

  test('receive hints of runs that a node has to take, and not of those that wait for a person', async () => {
    const tenant = sender.tenant(uuidv7());
    const { tenantId } = tenant;
    const queued = await newRun(tenant, { lease: null });
    const ofQueued = { tenantId, runId: queued.id };
    await expectReceived({ kind: 'run', ...ofQueued }, { kind: 'wake', ...ofQueued });
    const [given, parked] = [await newRun(tenant), await newRun(tenant)];
    const ofGiven = { tenantId, runId: given.id };
    const ofParked = { tenantId, runId: parked.id };
    await expectReceived({ kind: 'run', ...ofGiven }, { kind: 'run', ...ofParked });
    await tenant.append(step(given, { events: [], release: true }));
    await tenant.append(
      step(parked, { events: [], release: true, progress: { status: 'waiting' } }),
    );
    await expectReceived({ kind: 'wake', ...ofGiven });
  });

  test('receive changes of settings, keys and credentials', async () => {
    const { id: tenantId } = await sender.ensureTenant({ id: uuidv7(), name: 'acme', at: noon });
    const tenant = sender.tenant(tenantId);
    await tenant.updateTenant({ pausedAt: noon });
    await expectReceived({ kind: 'tenant', tenantId });
    const key = newKey({ tenantId, name: 'k', owner: null, scopes: ['runs'] });
    await sender.addKey(key, 'hash');
    expect(await tenant.revokeKey(key.id, noon)).toBe(true);
    await expectReceived({ kind: 'tenant', tenantId });
    const credential = { id: uuidv7(), provider: 'openai', label: null, baseUrl: null, last4: '' };
    await tenant.putCredential({ ...credential, sealed: 's', createdAt: noon, updatedAt: noon });
    await expectReceived({ kind: 'tenant', tenantId });
    expect(await tenant.deleteCredential('openai')).toBe(true);
    await expectReceived({ kind: 'tenant', tenantId });
  });

  test('receive hints of sessions that have changed, also with a step of a run', async () => {
    const tenant = sender.tenant(uuidv7());
    const { tenantId } = tenant;
    const hintOf = (sessionId: string) => ({ kind: 'session', tenantId, sessionId }) as const;
    const [one, two] = [await addSession(tenant), await addSession(tenant)];
    await expectReceived(hintOf(one), hintOf(two));
    const { id: messageId, deliveries } = await send(tenant, [one, two], { channels: ['ops'] });
    await expectReceived(
      hintOf(one),
      hintOf(two),
      { kind: 'message', tenantId, messageId, channels: ['ops'] },
      ...deliveries.map(({ id: deliveryId, sessionId }) => {
        return { kind: 'delivery', tenantId, sessionId, deliveryId } as const;
      }),
    );
    await tenant.sessions.openStream(one, { id: 's', node: 'n', at: noon });
    await expectReceived(hintOf(one));
    const run = await newRun(tenant);
    const ofRun = { tenantId, runId: run.id };
    await expectReceived({ kind: 'run', ...ofRun });
    const command = { runId: run.id, queued: cancelCommand('stop') };
    await tenant.sessions.change({ changes: [changeOf(two)], runCommands: [command] });
    await expectReceived(hintOf(two), { kind: 'wake', ...ofRun });
    const session = { changes: [changeOf(one)] };
    await tenant.append(step(run, { events: [], session }));
    await expectReceived(hintOf(one));
    const stale = changeOf(one, { ifVersion: 1 });
    expect(await tenant.sessions.change({ changes: [stale] })).toMatchObject({ kind: 'conflict' });
    await tenant.messages.edit({ messageId: uuidv7(), at: noon });
    await tenant.sessions.remove(two, { at: noon });
    await expectReceived({ ...hintOf(two), isTokenEnded: true });
  });

  test('receive with the hint of a session that its token was replaced, or has ended with it', async () => {
    const tenant = sender.tenant(uuidv7());
    const { tenantId } = tenant;
    const sessionId = await addSession(tenant, { tokenHash: uuidv7() });
    const hint = { kind: 'session', tenantId, sessionId } as const;
    await expectReceived(hint);
    const changed = async (change: Partial<SessionChange>) => {
      const ifVersion = (await tenant.sessions.read(sessionId))?.version ?? 0;
      const changes = [changeOf(sessionId, { ifVersion, ...change })];
      expect(await tenant.sessions.change({ changes })).toMatchObject({ kind: 'committed' });
    };
    await changed({ redefine: { labels: { team: 'red' } } });
    await expectReceived(hint);
    await changed({ redefine: { tokenHash: uuidv7() } });
    await expectReceived({ ...hint, isTokenEnded: true });
    await changed({ progress: { releasedAt: noon } });
    await expectReceived({ ...hint, isTokenEnded: true });
  });

  test('receive nothing of what was not stored', async () => {
    const id = uuidv7();
    await sender.ensureTenant({ id, name: id, at: noon });
    const tenant = sender.tenant(id);
    const run = await newRun(tenant);
    await expectReceived({ kind: 'run', tenantId: tenant.tenantId, runId: run.id });
    expect(await tenant.append(step(run, { epoch: 7 }))).toBe('fenced');
    expect(await tenant.postRunCommand(uuidv7(), cancelCommand('stop'))).toBe(false);
    expect(await tenant.revokeKey(uuidv7(), noon)).toBe(false);
    await tenant.updateTenant({});
    await expectReceived({ kind: 'tenant', tenantId: tenant.tenantId });
  });

  test('a disconnected node learns that hints may be lost, and receives again', async () => {
    await proxy.close();
    const tenant = sender.tenant(uuidv7());
    await newRun(tenant);
    await proxy.open();
    await expect.poll(() => received).toContainEqual(all);
    const run = await newRun(tenant);
    const hint = { kind: 'run', tenantId: tenant.tenantId, runId: run.id };
    // The hint of the first run, and another one to poll, may still arrive after that.
    await expect.poll(() => received).toContainEqual(hint);
  });

  test('a listener that unsubscribes receives nothing more', async () => {
    const more: Hint[] = [];
    const stop = receiver.listen((hint) => more.push(hint));
    stop();
    const tenant = sender.tenant(uuidv7());
    const run = await newRun(tenant);
    await expectReceived({ kind: 'run', tenantId: tenant.tenantId, runId: run.id });
    expect(more).toEqual([]);
  });
});

describe('words between drivers', () => {
  test('many at once arrive, each once; too many become one hint to poll', async () => {
    const database = await createDatabase();
    const [one, other] = await Promise.all(
      [1, 2].map(() => openPostgresDriver({ url: database.url })),
    );
    const received: (string | undefined)[] = [];
    other?.hints?.listen((word) => received.push(word));
    await expect.poll(() => received).toEqual([undefined]);
    const words = Array.from({ length: 1_500 }, (_, n) => `j\t${uuidv7()} ${n}`);
    for (const word of [...words, ...words]) one?.hints?.send(word);
    await expect.poll(() => received.length).toBe(1 + words.length);
    expect(received.slice(1)).toEqual(words);
    received.length = 0;
    for (let n = 0; n < 5_000; n += 1) one?.hints?.send(`j\t${n}`);
    await expect.poll(() => received).toEqual([undefined]);
    await Promise.all([one?.close(), other?.close()]);
    await database.drop();
  });
});
