/** What audit entries say, in words. */
import type { AuditEntry } from '@relay/protocol/wire';

type Action = AuditEntry['action'];

export const actionWords: Readonly<Record<Action, string>> = {
  'run.started': 'Run started',
  'run.canceled': 'Run canceled',
  'call.allowed': 'Call allowed by a rule',
  'call.denied': 'Call denied by a rule',
  'call.breached': 'Call differs from what was approved',
  'approval.voted': 'Approval voted for',
  'approval.decided': 'Approval decided',
  'approval.refused': 'Decision refused: not an approver',
  'approval.expired': 'Approval expired',
  'approval.closed': 'Approval closed',
  'grant.created': 'Grant created',
  'grant.revoked': 'Grant revoked',
  'policy.changed': 'Policy changed',
  'key.created': 'Key created',
  'key.revoked': 'Key revoked',
  'key.rotated': 'Key rotated',
  'key.refused': 'Key refused',
  'console.link-created': 'Login link created',
  'console.signed-in': 'Signed in to the console',
  'console.signed-out': 'Signed out of the console',
  'decision.refused': 'Decision refused',
  'credential.put': 'Credential set',
  'credential.deleted': 'Credential deleted',
  'tenant.paused': 'Tenant paused',
  'tenant.resumed': 'Tenant resumed',
  'tenant.budgets-changed': 'Budgets changed',
  'tenant.workspace-changed': 'Workspace changed',
  'webhook.created': 'Webhook created',
  'webhook.deleted': 'Webhook deleted',
  'webhook.redelivered': 'Webhook delivered again',
  'session.created': 'Session created',
  'session.attached': 'Session attached',
  'session.taken-over': 'Session taken over',
  'session.released': 'Session released',
  'session.typed': 'Typed into a session',
  'session.deleted': 'Session deleted',
  'message.sent': 'Message sent',
  'message.edited': 'Message edited',
  'message.withdrawn': 'Message withdrawn',
  'delivery.redelivered': 'Message delivered again',
  'channel.changed': 'Channel changed',
  'channel.member-added': 'Channel member added',
  'channel.member-removed': 'Channel member removed',
  'action.registered': 'Action registered',
  'action.removed': 'Action removed',
  'action.invoked': 'Action invoked',
  'action.denied': 'Action denied',
  'store.key-rotated': 'Master key rotated',
  'store.restored': 'Backup restored',
};

export const actions = Object.keys(actionWords) as readonly Action[];

/** Who it was: a person by the owner of the key. */
export function actorName({ owner, name }: AuditEntry['who']): string {
  return owner ?? name;
}

/** The facts that tell entries of one kind apart, the most telling first. */
const telling = [
  'tool',
  'approved',
  'reason',
  'code',
  'agent',
  'name',
  'role',
  'provider',
  'origin',
  'scope',
  'version',
  'handle',
  'channel',
  'action',
] as const;

/** A line about an entry, without ids and digests: those are in its detail. */
export function summaryOf({ what, why }: Pick<AuditEntry, 'what' | 'why'>): string {
  const facts = telling.flatMap((name) => {
    const value = what[name];
    if (value === undefined || value === null) return [];
    if (name === 'approved') return [value === true ? 'approved' : 'denied'];
    return [name === 'version' ? `version ${String(value)}` : String(value)];
  });
  return [...facts, ...(why === undefined ? [] : [`“${why}”`])].join(' · ');
}

/** What `datetime-local` fields hold, in the time zone of the browser. */
export function toLocal(at: string | null): string {
  if (at === null || Number.isNaN(Date.parse(at))) return '';
  const date = new Date(at);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

export function fromLocal(local: string): string {
  return local === '' ? '' : new Date(local).toISOString();
}
