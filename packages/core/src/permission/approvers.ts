/**
 * Who may decide about a call. The policy's `approvers` name them; without a matching rule it is every
 * caller with the scope `approve`.
 *
 *  - The first rule that matches counts, those of the policy for all agents first: the policy of an
 *    agent cannot weaken them.
 *  - A rule matches what a deny rule would match. Rules before it that cannot read the call may be about
 *    it, and must be met too.
 *  - A call that a rule matches is allowed only by its approvers, by a grant that enough of them made, or
 *    by the policy. Rules of a request count as the decision of the person who started the run.
 */
import { type ApproverRule, type Decider, rolesHeld } from '@relay/protocol';
import type { KeyRecord, TenantStore } from '../ports/index.ts';
import { isValidKey } from './keys.ts';

/** A person who decides, as far as rules ask. */
export interface Approver {
  readonly person: string;
  /** `null` for a local caller without a key. */
  readonly keyId: string | null;
  /** The keys that this one replaces by rotation: a rule that names one of them names it too. */
  readonly replaces: readonly string[];
  /** Empty if the key is no longer valid. */
  readonly scopes: readonly string[];
  readonly groups: readonly string[];
}

const localApprover: Approver = {
  person: 'local',
  keyId: null,
  replaces: [],
  scopes: ['read', 'runs', 'approve'],
  groups: [],
};

/** The person who uses a key now; without a key, the local user. */
export async function findApprover(
  store: TenantStore,
  keyId: string | null,
  now: number,
): Promise<Approver> {
  if (keyId === null) return localApprover;
  const key = await store.readKey(keyId);
  return key === undefined
    ? { person: keyId, keyId, replaces: [], scopes: [], groups: [] }
    : approverWithKey(key, now);
}

export function approverWithKey(key: KeyRecord, now: number): Approver {
  const { id, owner, replaces, scopes, groups } = key;
  const person = owner ?? id;
  return { person, keyId: id, replaces, scopes: isValidKey(key, now) ? scopes : [], groups };
}

export function keyIdOf({ type, id }: Decider): string | null {
  return type === 'key' ? id : null;
}

/** Whether a rule lets this person decide in a run that `requester` started. */
export function isEntitled(rule: ApproverRule, approver: Approver, requester: string): boolean {
  const { scopes, person, groups, keyId, replaces } = approver;
  if (!scopes.includes('approve')) return false;
  if (rule.notRequester && person === requester) return false;
  if (rule.roles !== undefined) {
    return rolesHeld(scopes).some((role) => rule.roles?.includes(role) === true);
  }
  if (rule.groups !== undefined) return groups.some((group) => rule.groups?.includes(group));
  if (rule.keys !== undefined) return rule.keys.some((id) => id === keyId || replaces.includes(id));
  return true;
}

/** Whether these persons together can decide to approve. */
export function isQuorum(
  rule: ApproverRule,
  approvers: readonly Approver[],
  requester: string,
): boolean {
  const entitled = approvers.filter((each) => isEntitled(rule, each, requester));
  return new Set(entitled.map(({ person }) => person)).size >= rule.quorum;
}

/** Says who may decide, for people. */
export function describeApprovers(rule: ApproverRule): string {
  const { roles, groups, keys, quorum, notRequester } = rule;
  const persons = quorum === 1 ? 'a person' : `${quorum} persons`;
  const except = notRequester ? ', other than the person who started the run' : '';
  return `${persons} ${qualification({ roles, groups, keys })}${except}`;
}

function qualification({ roles, groups, keys }: Pick<ApproverRule, 'roles' | 'groups' | 'keys'>) {
  if (roles !== undefined) return `with the role ${anyOf(roles)}`;
  if (groups !== undefined) return `in the group ${anyOf(groups)}`;
  if (keys !== undefined) return `with one of ${keys.length} named keys`;
  return 'with the scope approve';
}

function anyOf(names: readonly string[]): string {
  return names.join(' or ');
}

/**
 * Why a rule can never be met: it names unknown or unusable keys, or fewer persons than its quorum.
 * Roles and groups may get members later.
 */
export function faultOfApprovers(
  { keys, quorum }: ApproverRule,
  known: ReadonlyMap<string, Approver>,
): { readonly path: string; readonly message: string } | undefined {
  if (keys === undefined) return undefined;
  const unusable = keys.findIndex((id) => known.get(id)?.scopes.includes('approve') !== true);
  if (unusable >= 0) {
    const message = known.has(keys[unusable] ?? '')
      ? 'This key lacks the scope approve, or is revoked or expired. If it was rotated, name the key that replaces it'
      : 'No such key';
    return { path: `keys[${unusable}]`, message };
  }
  const persons = new Set(keys.map((id) => known.get(id)?.person)).size;
  if (persons >= quorum) return undefined;
  const message = `Can never be reached: the keys belong to ${persons === 1 ? 'one person' : `${persons} persons`}`;
  return { path: 'quorum', message };
}
