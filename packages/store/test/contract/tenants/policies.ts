import type { PolicyRecord } from '@relay/core';
import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import { allPages, hostileText, newAudit, noon, person, useStore } from '../fixtures.ts';
import type { Open } from '../fixtures.ts';

export function newPolicy(over: Partial<PolicyRecord> = {}): PolicyRecord {
  const rules = { allow: [{ tool: 'read' }], deny: [], ask: [{ tool: 'bash' }], approvers: [] };
  return { id: uuidv7(), agent: null, version: 1, rules, at: noon, by: person, ...over };
}

export function policyTests(open: Open): void {
  const { system } = useStore(open);

  /** The tenant's own row names the policies in force. */
  async function newTenant() {
    const id = uuidv7();
    await system().ensureTenant({ id, name: id, at: noon });
    return system().tenant(id);
  }

  test('a policy reads back as it was put, whatever it says', async () => {
    const { policies } = await newTenant();
    const deny = Object.values(hostileText).map((text) => ({
      tool: text,
      params: { [text]: text },
    }));
    const policy = newPolicy({ rules: { allow: [], deny, ask: [], approvers: [] } });
    expect(await policies.read(null)).toBeUndefined();
    expect(await policies.put(policy)).toBe(true);
    expect(await policies.read(null)).toEqual(policy);
  });

  test('only the version after the last is taken', async () => {
    const { policies } = await newTenant();
    expect(await policies.put(newPolicy({ version: 2 }))).toBe(false);
    expect(await policies.put(newPolicy())).toBe(true);
    expect(await policies.put(newPolicy())).toBe(false);
    expect(await policies.put(newPolicy({ version: 3 }))).toBe(false);
    expect(await policies.put(newPolicy({ version: 2 }))).toBe(true);
    expect((await policies.read(null))?.version).toBe(2);
  });

  test('of many who change one version at once, one wins', async () => {
    const { policies } = await newTenant();
    const all = Array.from({ length: 10 }, () => newPolicy());
    const outcomes = await Promise.all(all.map((policy) => policies.put(policy)));
    expect(outcomes.filter(Boolean)).toHaveLength(1);
    expect(await policies.read(null)).toEqual(all[outcomes.indexOf(true)]);
  });

  test('every version is kept, newest first', async () => {
    const { policies } = await newTenant();
    const all = Array.from({ length: 7 }, (_, n) => newPolicy({ version: n + 1 }));
    for (const policy of all) await policies.put(policy);
    await policies.put(newPolicy({ agent: 'other' }));
    const listed = await allPages(
      3,
      (page) => policies.versions(null, page),
      ({ version }) => version,
    );
    expect(listed).toEqual(all.map(({ id }) => id).toReversed());
  });

  test('the policy for all and an agent’s own hold together, and no other agent’s', async () => {
    const { policies } = await newTenant();
    const [own, all] = [newPolicy({ agent: 'assistant' }), newPolicy()];
    await policies.put(own);
    expect(await policies.inForce('assistant')).toEqual([own]);
    await policies.put(all);
    await policies.put(newPolicy({ agent: 'other' }));
    expect(await policies.inForce('assistant')).toEqual([all, own]);
    const changed = newPolicy({ agent: 'assistant', version: 2 });
    await policies.put(changed);
    expect(await policies.inForce('assistant')).toEqual([all, changed]);
    expect(await policies.inForce('nobody')).toEqual([all]);
    // An agent may be called anything.
    expect(await policies.inForce('null')).toEqual([all]);
    await policies.put(newPolicy({ agent: 'null' }));
    expect(await policies.inForce('x')).toEqual([all]);
  });

  test('a policy is its tenant’s alone', async () => {
    const [owner, stranger] = [await newTenant(), await newTenant()];
    await owner.policies.put(newPolicy());
    expect(await stranger.policies.read(null)).toBeUndefined();
    expect(await stranger.policies.inForce('assistant')).toEqual([]);
    expect(await stranger.policies.versions(null, { limit: 9 })).toEqual([]);
    expect(await stranger.policies.put(newPolicy())).toBe(true);
  });

  test('the audit trail tells of a change that happened, and of no other', async () => {
    const tenant = await newTenant();
    const [stored, discarded] = [newAudit(), newAudit()];
    await tenant.policies.put(newPolicy(), [stored]);
    expect(await tenant.policies.put(newPolicy(), [discarded])).toBe(false);
    expect(await tenant.audit.unsealed(9)).toEqual([stored]);
  });
}
