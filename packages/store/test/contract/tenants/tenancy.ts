import type { TenantStore } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import { newCredential } from './credentials.ts';
import {
  decisionOn,
  cancelCommand,
  clock,
  ending,
  identityIn,
  newApproval,
  newRun,
  noon,
  person,
  step,
  useStore,
} from '../fixtures.ts';
import type { Open } from '../fixtures.ts';
import { newKey } from './keys.ts';

const idempotency = { key: 'key-1', fingerprint: 'body-1', expiresAt: noon + 1_000 };

/** What one tenant owns, of every kind. */
async function furnish(tenant: TenantStore) {
  const connection = { id: uuidv7(), node: 'node-1' };
  const conversationId = uuidv7();
  const keyId = uuidv7();
  const identity = { conversationId, keyId, workflowId: 'w', labels: { team: 'blue' } };
  const run = await newRun(tenant, { connection, identity, idempotency });
  const [open, decided] = [newApproval(run), newApproval(run)];
  await tenant.append(step(run, { approvals: [open, decided] }));
  const grant = {
    id: uuidv7(),
    tool: 'send_note',
    scope: 'conversation',
    scopeId: conversationId,
    createdAt: noon,
    createdBy: person,
  } as const;
  const queued = cancelCommand('stop');
  await tenant.postRunCommand(run.id, queued);
  await tenant.decideApproval(decisionOn(decided, { grant }));
  await tenant.append(ending(await newRun(tenant, { identity: { conversationId, keyId } })));
  await tenant.putCredential(newCredential());
  return { run, open, queued, connection, conversationId, keyId };
}

/** Everything that the owner can see of it. */
async function inventory(tenant: TenantStore, owned: Awaited<ReturnType<typeof furnish>>) {
  const { run, open, connection, conversationId, keyId } = owned;
  const page = { limit: 100 };
  return {
    run: await tenant.readRun(run.id),
    events: await tenant.readEvents(run.id, { after: 0, limit: 100 }),
    approval: await tenant.readApproval(open.id),
    queued: await tenant.readInbox(run.id),
    grants: await tenant.readGrants({ runId: run.id, conversationId, owner: 'ada', now: noon }),
    count: await tenant.countEndedRuns(conversationId),
    ended: await tenant.endedRuns(conversationId, { after: 0, upTo: 100 }),
    connection: await tenant.findConnection(connection.id),
    runs: (await tenant.listRuns({}, page)).items,
    labelled: (await tenant.listRuns({ label: { name: 'team', value: 'blue' } }, page)).items,
    conversation: (await tenant.listRuns({ conversationId }, page)).items,
    approvals: (await tenant.listApprovals({}, page)).items,
    approvalsOfRun: (await tenant.listApprovals({ runId: run.id }, page)).items,
    keys: await tenant.listKeys(page),
    key: await tenant.readKey(keyId),
    usage: (await tenant.readUsage({ since: 0, keyId })).runs,
    open: (await tenant.countOpenRuns({ keyId })).queued,
    credentials: await tenant.listCredentials(),
    credential: await tenant.readCredential('openai'),
  };
}

export function tenancyTests(open: Open): void {
  const { system, tenant: newTenant } = useStore(open);

  /** Also with what only the system can make. */
  async function furnishFully(tenant: TenantStore) {
    const owned = await furnish(tenant);
    const { tenantId } = tenant;
    await system().addKey(newKey({ id: owned.keyId, tenantId }), `hash of ${owned.keyId}`);
    return owned;
  }

  test('a tenant sees nothing of another one', async () => {
    const [owner, stranger] = [newTenant(), newTenant()];
    const owned = await furnishFully(owner);
    expect(await inventory(stranger, owned)).toEqual({
      run: undefined,
      events: [],
      approval: undefined,
      queued: [],
      grants: [],
      count: 0,
      ended: [],
      connection: undefined,
      runs: [],
      labelled: [],
      conversation: [],
      approvals: [],
      approvalsOfRun: [],
      keys: [],
      key: undefined,
      usage: 0,
      open: 0,
      credentials: [],
      credential: undefined,
    });
    const { runs, labelled, approvals, key, usage, credentials } = await inventory(owner, owned);
    expect([runs.length, labelled.length, approvals.length]).toEqual([2, 1, 2]);
    expect([key?.id, usage, credentials.length]).toEqual([owned.keyId, 1, 1]);
  });

  test('a position in the list of one tenant shows another nothing but its own', async () => {
    const [owner, stranger] = [newTenant(), newTenant()];
    await furnishFully(owner);
    const theirs = await furnishFully(stranger);
    const page = { limit: 100 };
    for (const { id, createdAt } of (await owner.listRuns({}, page)).items) {
      const before = { at: createdAt + 1, id };
      const listed = (await stranger.listRuns({}, { ...page, before })).items;
      expect(listed.map((run) => run.tenantId)).toEqual([stranger.tenantId, stranger.tenantId]);
    }
    for (const { id, requestedAt } of (await owner.listApprovals({}, page)).items) {
      const listed = (
        await stranger.listApprovals({}, { ...page, before: { at: requestedAt + 1, id } })
      ).items;
      expect(listed.map((approval) => approval.runId)).toEqual([theirs.run.id, theirs.run.id]);
    }
    for (const { id, createdAt } of await owner.listKeys(page)) {
      const listed = await stranger.listKeys({ ...page, before: { at: createdAt + 1, id } });
      expect(listed.map((key) => key.id)).toEqual([theirs.keyId]);
    }
  });

  test('rows of other tenants do not count on a page', async () => {
    const [owner, ...strangers] = [newTenant(), newTenant(), newTenant()];
    const owned = await furnishFully(owner);
    for (const stranger of strangers) await furnishFully(stranger);
    const label = { name: 'team', value: 'blue' };
    const first = { limit: 1 };
    for (const filter of [{}, { label }, { workflowId: 'w' }, { agent: 'assistant' }]) {
      expect((await owner.listRuns(filter, first)).items).toMatchObject([
        { tenantId: owner.tenantId },
      ]);
    }
    for (const filter of [{}, { status: 'pending' }, { kind: 'permission' }] as const) {
      expect((await owner.listApprovals(filter, first)).items).toMatchObject([
        { runId: owned.run.id },
      ]);
    }
    expect(await owner.listKeys(first)).toMatchObject([{ id: owned.keyId }]);
  });

  test('an idempotency key of one tenant means nothing to another', async () => {
    const [owner, stranger] = [newTenant(), newTenant()];
    await furnish(owner);
    const identity = identityIn(stranger);
    const made = await stranger.createRun({ identity, lease: null, events: [], idempotency });
    expect(made).toEqual({ kind: 'created' });
  });

  test('a tenant changes nothing of another one', async () => {
    const [owner, stranger] = [newTenant(), newTenant()];
    const owned = await furnishFully(owner);
    const before = await inventory(owner, owned);
    const { run, open, queued, connection, keyId } = owned;

    expect(await stranger.append(step(run, { afterSeq: 2, consumeCommands: [queued.id] }))).toBe(
      'fenced',
    );
    expect(await stranger.append(ending(run, { afterSeq: 2 }))).toBe('fenced');
    expect(await stranger.decideApproval(decisionOn(open))).toBe(false);
    expect(await stranger.postRunCommand(run.id, cancelCommand('foreign'))).toBe(false);
    await stranger.closeConnection(connection.id);
    expect(await stranger.revokeKey(keyId, noon)).toBe(false);
    expect(await stranger.deleteCredential('openai')).toBe(false);
    await stranger.putCredential(newCredential());
    const ownRun = await newRun(stranger);
    const close = {
      approvalId: open.id,
      status: 'closed',
      at: noon,
      by: clock,
      reason: 'r',
    } as const;
    await stranger.append(step(ownRun, { consumeCommands: [queued.id], closeApprovals: [close] }));

    expect(await inventory(owner, owned)).toEqual(before);
  });

  test('a tenant cannot decide an approval of another one for a run of its own', async () => {
    const [owner, stranger] = [newTenant(), newTenant()];
    const { open } = await furnish(owner);
    const ownRun = await newRun(stranger);
    expect(await stranger.decideApproval(decisionOn(open, { runId: ownRun.id }))).toBe(false);
    expect(await stranger.readInbox(ownRun.id)).toEqual([]);
    expect(await owner.readApproval(open.id)).toMatchObject({ status: 'pending' });
  });

  test('conversations of the same id in two tenants have nothing to do with each other', async () => {
    const [one, two] = [newTenant(), newTenant()];
    const { conversationId } = await furnish(one);
    const run = await newRun(two, { identity: { conversationId } });
    expect(await two.countEndedRuns(conversationId)).toBe(0);
    await two.append(ending(run));
    expect(await two.endedRuns(conversationId, { after: 0, upTo: 100 })).toMatchObject([
      { runId: run.id, position: 1 },
    ]);
    expect(await one.countEndedRuns(conversationId)).toBe(1);
    expect(
      await two.readGrants({ runId: run.id, conversationId, owner: 'ada', now: noon }),
    ).toEqual([]);
  });

  test('the same command id in two tenants is two commands', async () => {
    const [one, two] = [newTenant(), newTenant()];
    const { run, queued } = await furnish(one);
    const other = await newRun(two);
    const same = { ...cancelCommand('mine'), id: queued.id };
    expect(await two.postRunCommand(other.id, same)).toBe(true);
    expect((await one.readInbox(run.id))[0]).toEqual(queued);
    expect(await two.readInbox(other.id)).toEqual([same]);
  });

  test('two stores of the same tenant are one', async () => {
    const tenant = newTenant();
    const owned = await furnish(tenant);
    const again = system().tenant(tenant.tenantId);
    expect(again.tenantId).toBe(tenant.tenantId);
    expect(await inventory(again, owned)).toEqual(await inventory(tenant, owned));
  });
}
