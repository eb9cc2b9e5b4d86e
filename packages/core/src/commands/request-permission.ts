/**
 * Permission for calls that no run makes: invocations of actions, and calls of the programs of sessions
 * (`sessions/request.ts`).
 *
 * Rules answer first: those of the session, the tenant's policies, and grants. Only what they leave open is
 * an approval, which is decided like that of a run (`record-decision.ts`) and closes with what it is for.
 */
import { canonicalJson, defined, displayOf, type Permissions } from '@relay/protocol';
import type { Engine } from '../engine.ts';
import { noticeOfRequest } from '../governance/notifications.ts';
import { findApprover } from '../permission/approvers.ts';
import { decideInTurn, declaredBy, pathsOf, type Verdict } from '../permission/decide.ts';
import { policiesOf } from '../permission/policy.ts';
import type {
  NewApproval,
  Notice,
  PathResolution,
  SessionRecord,
  TenantStore,
  Tool,
} from '../ports/index.ts';
import { digestOfCall, isObject } from '../run/arguments.ts';
import { warningTime } from '../run/waiting/approvals.ts';

/** A call that needs permission, and whose it is. */
export interface RequestedCall {
  /** As rules name it. */
  readonly tool: string;
  readonly input: unknown;
  readonly session?: SessionRecord | undefined;
  readonly invocationId?: string;
  /** The key that it is made with; a session's calls are made with its key. */
  readonly keyId: string | null;
  readonly owner: string;
  /** What is known of the tool. */
  readonly declared?:
    | Partial<
        Pick<
          Tool,
          'needsApproval' | 'kinds' | 'sensitive' | 'definitionDigest' | 'allowedByDefault'
        >
      >
    | undefined;
  /** Where its paths lead. */
  readonly resolution?: PathResolution;
}

export type PermissionEngine = Pick<
  Engine,
  'store' | 'clock' | 'ids' | 'digest' | 'settings' | 'onApproval'
>;

/** The rules of a session count as if its owner had started a run with them. */
export function permissionsOf(session: SessionRecord | undefined): Permissions {
  return session?.permissions ?? {};
}

function pathOf(session: SessionRecord | undefined): string[] {
  return session?.agent === undefined || session.agent === null ? [] : [session.agent];
}

/** How the rules decide a call. What may be used once is for runs, which know what they have used. */
export async function decidePermission(
  engine: PermissionEngine,
  store: TenantStore,
  { tool: name, input, session, keyId, owner, declared, resolution }: RequestedCall,
): Promise<Verdict> {
  const now = engine.clock.now();
  const path = pathOf(session);
  const [grants, records] = await Promise.all([
    store.readGrants({
      sessionId: session?.id,
      conversationId: session?.conversationId,
      owner,
      now,
    }),
    store.policies.inForce(...path),
  ]);
  const policies = policiesOf(records, ...path);
  const requester = policies.some(({ approvers }) => approvers.length > 0)
    ? await findApprover(store, keyId, now)
    : undefined;
  const { allowOnce: _, ...permissions } = permissionsOf(session);
  return decideInTurn(
    { toolCallId: '', name, arguments: isObject(input) ? input : {} },
    {
      permissions,
      usedOnce: [],
      grants,
      policies,
      requester,
      builtinAllow: declared?.allowedByDefault ?? false,
      ...declaredBy(declared, resolution),
    },
  );
}

export function reasonOf({ rule, reason }: Extract<Verdict, { decision: 'deny' }>): string {
  const owner = rule.source === 'policy' ? 'policy' : 'session';
  return reason ?? `Rule ${rule.list}[${rule.index}] of the ${owner} denies it`;
}

/** What else an approver is shown of a call, or is asked. */
export type ShownCall = Pick<
  NewApproval,
  'preview' | 'rule' | 'question' | 'shown' | 'isConcrete' | 'isEditable'
>;

/** A new approval of a call, and the notice of webhooks. */
export function approvalFor(
  engine: PermissionEngine,
  call: RequestedCall,
  more: ShownCall = {},
): { readonly approval: NewApproval; readonly notice: Notice } {
  const { tool, input, session, invocationId, keyId, declared, resolution } = call;
  const { preview, question } = more;
  const requestedAt = engine.clock.now();
  const resolvedPaths = pathsOf(resolution)?.paths;
  const approval: NewApproval = {
    ...more,
    id: engine.ids.next(),
    kind: question === undefined ? 'permission' : 'question',
    agentPath: pathOf(session),
    tool,
    params: input,
    digest:
      question === undefined
        ? digestOfCall(engine, { name: tool, input, resolvedPaths, preview })
        : engine.digest(canonicalJson(question)),
    requestedAt,
    expiresAt: requestedAt + engine.settings.approvalTtlMs,
    ...defined({
      sessionId: session?.id,
      conversationId: session?.conversationId,
      invocationId,
      keyId: keyId ?? undefined,
      definitionDigest: declared?.definitionDigest,
      resolvedPaths,
    }),
  };
  const { flags } = displayOf(approval);
  return { approval, notice: noticeOfRequest(approval, flags) };
}

/** When its owner must look at an approval without an answer: first for the warning, then for the expiry. */
export function warningOf({ requestedAt, expiresAt }: NewApproval): number {
  return warningTime(requestedAt, expiresAt - requestedAt);
}
