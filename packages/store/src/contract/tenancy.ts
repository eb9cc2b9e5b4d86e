import type { TenantStore } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import {
  approval,
  cancelMail,
  clock,
  ending,
  newRelay,
  newRun,
  noon,
  person,
  step,
  useStore,
} from './fixtures.ts';
import type { Open } from './fixtures.ts';

/** What one tenant owns, of every kind. */
async function furnish(tenant: TenantStore) {
  const connection = { id: uuidv7(), node: 'node-1' };
  const conversationId = uuidv7();
  const run = await newRun(tenant, { connection, identity: { conversationId } });
  const [open, decided] = [newRelay(run), newRelay(run)];
  await tenant.append(step(run, { raise: [open, decided] }));
  const grant = {
    id: uuidv7(),
    tool: 'send_note',
    scope: 'conversation',
    scopeId: conversationId,
    createdAt: noon,
    createdBy: person,
  } as const;
  const mail = cancelMail('stop');
  await tenant.postMail(run.id, mail);
  await tenant.decideRelay(approval(decided, { grant }));
  await tenant.append(ending(await newRun(tenant, { identity: { conversationId } })));
  return { run, open, mail, connection, conversationId };
}

/** Everything that the owner can see of it. */
async function inventory(tenant: TenantStore, owned: Awaited<ReturnType<typeof furnish>>) {
  const { run, open, connection, conversationId } = owned;
  return {
    run: await tenant.readRun(run.id),
    events: await tenant.readEvents(run.id, { after: 0, limit: 100 }),
    relay: await tenant.readRelay(open.id),
    mail: await tenant.readMail(run.id),
    grants: await tenant.readGrants({ runId: run.id, conversationId }),
    count: await tenant.countEndedRuns(conversationId),
    ended: await tenant.endedRuns(conversationId, { after: 0, upTo: 100 }),
    connection: await tenant.findConnection(connection.id),
  };
}

export function tenancyTests(open: Open): void {
  const { system, tenant: newTenant } = useStore(open);

  test('a tenant sees nothing of another one', async () => {
    const [owner, stranger] = [newTenant(), newTenant()];
    const owned = await furnish(owner);
    expect(await inventory(stranger, owned)).toEqual({
      run: undefined,
      events: [],
      relay: undefined,
      mail: [],
      grants: [],
      count: 0,
      ended: [],
      connection: undefined,
    });
  });

  test('a tenant changes nothing of another one', async () => {
    const [owner, stranger] = [newTenant(), newTenant()];
    const owned = await furnish(owner);
    const before = await inventory(owner, owned);
    const { run, open, mail, connection } = owned;

    expect(await stranger.append(step(run, { afterSeq: 2, take: [mail.id] }))).toBe('fenced');
    expect(await stranger.append(ending(run, { afterSeq: 2 }))).toBe('fenced');
    expect(await stranger.decideRelay(approval(open))).toBe(false);
    expect(await stranger.postMail(run.id, cancelMail('foreign'))).toBe(false);
    await stranger.closeConnection(connection.id);
    const ownRun = await newRun(stranger);
    const close = { relayId: open.id, status: 'closed', at: noon, by: clock, reason: 'r' } as const;
    await stranger.append(step(ownRun, { take: [mail.id], close: [close] }));

    expect(await inventory(owner, owned)).toEqual(before);
  });

  test('a tenant cannot decide a relay of another one for a run of its own', async () => {
    const [owner, stranger] = [newTenant(), newTenant()];
    const { open } = await furnish(owner);
    const ownRun = await newRun(stranger);
    expect(await stranger.decideRelay(approval(open, { runId: ownRun.id }))).toBe(false);
    expect(await stranger.readMail(ownRun.id)).toEqual([]);
    expect(await owner.readRelay(open.id)).toMatchObject({ status: 'pending' });
  });

  test('conversations of the same id in two tenants have nothing to do with each other', async () => {
    const [one, two] = [newTenant(), newTenant()];
    const { conversationId } = await furnish(one);
    const run = await newRun(two, { identity: { conversationId } });
    expect(await two.countEndedRuns(conversationId)).toBe(0);
    await two.append(ending(run));
    expect(await two.endedRuns(conversationId, { after: 0, upTo: 100 })).toEqual([
      { runId: run.id, position: 1 },
    ]);
    expect(await one.countEndedRuns(conversationId)).toBe(1);
    expect(await two.readGrants({ runId: run.id, conversationId })).toEqual([]);
  });

  test('the same mail id in two tenants is two mails', async () => {
    const [one, two] = [newTenant(), newTenant()];
    const { run, mail } = await furnish(one);
    const other = await newRun(two);
    const same = { ...cancelMail('mine'), id: mail.id };
    expect(await two.postMail(other.id, same)).toBe(true);
    expect((await one.readMail(run.id))[0]).toEqual(mail);
    expect(await two.readMail(other.id)).toEqual([same]);
  });

  test('two stores of the same tenant are one', async () => {
    const tenant = newTenant();
    const owned = await furnish(tenant);
    const again = system().tenant(tenant.tenantId);
    expect(again.tenantId).toBe(tenant.tenantId);
    expect(await inventory(again, owned)).toEqual(await inventory(tenant, owned));
  });
}
