/** Standing answers: how "always" makes one, and what one would have allowed. */
import { type Decider, type GrantScope, RelayError, type ToolPermission } from '@relay/protocol';
import type { Engine } from '../engine.ts';
import { decide, declaredBy } from './decide.ts';
import { checkPermissions, type PatternFault, type ToolRule } from './match.ts';
import { suggestedRule } from './suggest.ts';
import type { NewGrant, ApprovalRecord, RunHead, TenantStore, Tool } from '../ports/index.ts';

/** What a grant is made with besides its rule. */
export interface GrantTerms {
  /** Left out: the conversation. */
  readonly scope?: GrantScope;
  readonly expiresAt?: number;
  readonly uses?: number;
  /** The call to the letter, or what its tool proposes for calls like it; left out: the call. */
  readonly rule?: 'exact' | 'suggested';
}

interface Granting {
  readonly approval: ApprovalRecord;
  readonly run: RunHead;
  /** What is executed. */
  readonly params: unknown;
  readonly terms: GrantTerms;
  readonly by: Decider;
}

/** "Always" grants exactly this call, as a literal and not as a pattern, unless asked otherwise. */
export function grantFor(engine: Engine, granting: Granting): NewGrant {
  const { approval, run, params, terms, by } = granting;
  const { scope = 'conversation', expiresAt, uses } = terms;
  const now = engine.clock.now();
  if (expiresAt !== undefined) refusePast(expiresAt, now);
  const tool = engine.tools(run.tenantId).find(approval.tool);
  const scopeIds = { run: run.id, conversation: run.conversationId, tenant: run.tenantId };
  return {
    id: engine.ids.next(),
    ...(terms.rule === 'suggested'
      ? proposed(tool, { name: approval.tool, params })
      : literal({ name: approval.tool, params })),
    scope,
    scopeId: scopeIds[scope],
    createdAt: now,
    createdBy: by,
    ...(expiresAt === undefined ? {} : { expiresAt }),
    ...(uses === undefined ? {} : { uses }),
  };
}

export function refusePast(expiresAt: number, now: number): void {
  if (expiresAt > now) return;
  throw new RelayError('invalid_request', 'expiresAt: lies in the past', {
    details: [{ path: 'expiresAt', message: 'Lies in the past' }],
  });
}

interface NamedCall {
  readonly name: string;
  readonly params: unknown;
}

type Rule = Pick<NewGrant, 'tool' | 'exact' | 'params'>;

function literal({ name, params }: NamedCall): Rule {
  if (typeof params !== 'object' || params === null) {
    throw new RelayError('invalid_request', 'Only a call with arguments can be granted for always');
  }
  return { tool: name, exact: params as Record<string, unknown> };
}

/**
 * What a tool proposes to grant for calls like this one. It comes from the tool's own code: where it
 * is malformed, of another tool, or does not cover the very call, there is none.
 */
export function proposedRule(tool: Tool | undefined, call: NamedCall): ToolPermission | undefined {
  const rule = suggestedRule(tool, call.params);
  const sound = rule !== undefined && rule.tool === call.name && faultsOf(rule).length === 0;
  return sound && isCovered(tool, call, rule) ? rule : undefined;
}

function proposed(tool: Tool | undefined, { name, params }: NamedCall): Rule {
  const rule = proposedRule(tool, { name, params });
  if (rule === undefined) {
    const message = `The tool ${name} proposes no rule for this call`;
    throw new RelayError('invalid_request', `rule: ${message}`, {
      details: [{ path: 'rule', message }],
    });
  }
  return {
    tool: name,
    ...(rule.exact === undefined ? {} : { exact: rule.exact }),
    ...(rule.params === undefined ? {} : { params: rule.params }),
  };
}

/** What is wrong with the patterns of one rule, by the rule's own fields. */
export function faultsOf(rule: ToolPermission): PatternFault[] {
  return checkPermissions({ allowlist: [rule] }).map(({ path, message }) => ({
    path: path.replace(/^allowlist\[0\]\./, ''),
    message,
  }));
}

function isCovered(tool: Tool | undefined, call: NamedCall, rule: ToolRule): boolean {
  const { name, params } = call;
  if (typeof params !== 'object' || params === null) return false;
  const { exact, params: patterns } = rule;
  const grant = {
    id: '',
    tool: rule.tool,
    ...(exact === undefined ? {} : { exact }),
    ...(patterns === undefined ? {} : { params: patterns }),
  };
  const verdict = decide(
    { toolCallId: '', name, arguments: params as Record<string, unknown> },
    {
      permissions: {},
      usedOnce: [],
      grants: [grant],
      builtinAllow: false,
      ...declaredBy(tool),
    },
  );
  return verdict.decision === 'allow';
}

export interface PreviewWish {
  readonly rule: ToolRule;
  readonly scope?: Exclude<GrantScope, 'tenant'>;
  readonly scopeId?: string;
}

export interface Preview {
  readonly matched: ApprovalRecord[];
  /** How many requests were looked at. */
  readonly looked: number;
}

const lookBack = 1_000;
const pageSize = 200;

/** Which of the tenant's latest requests to people a grant would have answered. */
export async function previewGrant(
  engine: Engine,
  store: TenantStore,
  wish: PreviewWish,
): Promise<Preview> {
  const tool = engine.tools(store.tenantId).find(wish.rule.tool);
  const conversations = new Map<string, string | undefined>();
  const inScope = async ({ runId }: ApprovalRecord): Promise<boolean> => {
    if (wish.scope === undefined) return true;
    if (wish.scope === 'run') return runId === wish.scopeId;
    if (!conversations.has(runId)) {
      conversations.set(runId, (await store.readRunHead(runId))?.conversationId);
    }
    return conversations.get(runId) === wish.scopeId;
  };
  const matched: ApprovalRecord[] = [];
  let looked = 0;
  for await (const approval of latestRequests(store)) {
    looked += 1;
    const call = { name: approval.tool, params: approval.params };
    if (approval.tool !== wish.rule.tool || !isCovered(tool, call, wish.rule)) continue;
    if (await inScope(approval)) matched.push(approval);
  }
  return { matched, looked };
}

async function* latestRequests(store: TenantStore): AsyncGenerator<ApprovalRecord, void> {
  let page = await store.listApprovals({ kind: 'permission' }, { limit: pageSize });
  for (let seen = page.length; ; seen += page.length) {
    yield* page;
    const last = page.at(-1);
    if (last === undefined || page.length < pageSize || seen >= lookBack) return;
    const before = { at: last.requestedAt, id: last.id };
    page = await store.listApprovals({ kind: 'permission' }, { limit: pageSize, before });
  }
}
