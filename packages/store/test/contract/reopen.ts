import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import { newCredential } from './tenants/credentials.ts';
import { newKey } from './tenants/keys.ts';
import {
  decisionOn,
  cancelCommand,
  delta,
  ending,
  identityIn,
  newApproval,
  newRun,
  noon,
  person,
  step,
  withStore,
} from './fixtures.ts';
import type { Open } from './fixtures.ts';
import { newGrant } from './tenants/grants.ts';

export function reopenTests(open: Open): void {
  test('everything is there after the store is closed and opened again', () =>
    withStore(open, async ({ store, reopen }) => {
      const tenantId = uuidv7();
      const tenant = store.tenant(tenantId);
      const connection = { id: uuidv7(), node: 'node-1' };
      const progress = {
        status: 'running',
        checkpoint: 'c',
        snapshot: 's',
        snapshotSeq: 1,
      } as const;
      const idempotency = { key: 'k', fingerprint: 'f', expiresAt: noon + 1_000 };
      const identity = { labels: { team: 'blue' }, workflowId: 'w' };
      const run = await newRun(tenant, { connection, progress, identity, idempotency });
      const [pending, decided] = [newApproval(run), newApproval(run)];
      await tenant.append(
        step(run, { approvals: [pending, decided], events: [delta('a'), delta('b')] }),
      );
      await tenant.postRunCommand(run.id, cancelCommand('stop'));
      await tenant.decideApproval(decisionOn(decided));
      await tenant.append(
        ending(await newRun(tenant, { identity: { conversationId: run.conversationId } })),
      );
      await store.ensureTenant({ id: tenantId, name: 'acme', at: noon });
      await tenant.updateTenant({ pausedAt: noon, settings: { a: 1 } });
      await tenant.addGrant(newGrant(tenant, { uses: 2, expiresAt: noon + 1 }));
      await tenant.putCredential(newCredential());
      await store.writeMetadata('note', 'value');
      const key = newKey({ tenantId, name: 'k', owner: 'ada', scopes: ['runs'] });
      await store.addKey(key, 'hash');

      const look = async (system: typeof store) => {
        const of = system.tenant(tenantId);
        return {
          tenant: await system.findTenant('acme'),
          key: await system.findKey('hash'),
          orphans: await system.orphanedConnections('node-2', noon),
          run: await of.readRun(run.id),
          events: await of.readEvents(run.id, { after: 0, limit: 100 }),
          approvals: [await of.readApproval(pending.id), await of.readApproval(decided.id)],
          queued: await of.readInbox(run.id),
          ended: await of.endedRuns(run.conversationId, { after: 0, upTo: 9 }),
          record: await of.readTenant(),
          paused: await system.pausedTenants(),
          note: await system.readMetadata('note'),
          credentials: await of.listCredentials(),
          keys: await of.listKeys({ limit: 9 }),
          grants: await of.listGrants({}, { limit: 9 }),
          usage: await of.readUsage({ since: 0 }),
          counts: await of.countOpenRuns({}),
          runs: (await of.listRuns({ label: { name: 'team', value: 'blue' } }, { limit: 9 })).items,
          pending: (await of.listApprovals({ status: 'pending' }, { limit: 9 })).items,
        };
      };
      const before = await look(store);
      expect(before.queued[0]?.command).toMatchObject({ kind: 'cancel', by: person });
      const again = await reopen();
      expect(await look(again)).toEqual(before);
      const lists = [before.runs, before.pending, before.keys, before.grants];
      expect(lists.map(({ length }) => length)).toEqual([1, 1, 1, 1]);
      const repeated = { identity: identityIn(tenant), lease: null, events: [], idempotency };
      const exists = { kind: 'exists', runId: run.id, fingerprint: 'f' };
      expect(await again.tenant(tenantId).createRun(repeated)).toEqual(exists);
      expect(await again.tenant(tenantId).append(step(run, { afterSeq: 3 }))).toBe('committed');
    }));
}
