/** Grants: how "always" creates one, and which calls one would have allowed. */
import {
  type Decider,
  defined,
  type GrantScope,
  RelayError,
  type ToolPermission,
} from '@relay/protocol';
import type { Engine } from '../engine.ts';
import type { Approver } from './approvers.ts';
import { decideCall, decideInTurn, declaredBy } from './decide.ts';
import { lettersRequiredBy } from './glob/glob.ts';
import { checkPermissions, type PatternFault, type ToolRule } from './match.ts';
import type { ApprovalRecord, NewGrant, RunHead, TenantStore, Tool } from '../ports/index.ts';

/** The terms of a grant besides its rule. */
export interface GrantTerms {
  /** Default: the conversation. */
  readonly scope?: GrantScope;
  readonly expiresAt?: number;
  readonly uses?: number;
  /** The exact call, or the rule that its tool suggests. Default: the exact call. */
  readonly rule?: 'exact' | 'suggested';
}

interface GrantRequest {
  readonly tenantId: string;
  readonly approval: ApprovalRecord;
  /** Undefined: the approval has none. */
  readonly run: RunHead | undefined;
  /** The arguments that are executed. */
  readonly params: unknown;
  readonly terms: GrantTerms;
  readonly by: Decider;
  /** The persons who decided, one of them `by`. */
  readonly approvers: readonly Approver[];
}

/** The grant for "always": of exactly this call, unless the suggested rule is requested. */
export function grantFor(
  engine: Engine,
  { tenantId, approval, run, params, terms, by, approvers }: GrantRequest,
): NewGrant {
  const { scope = 'conversation', expiresAt, uses } = terms;
  const now = engine.clock.now();
  if (expiresAt !== undefined) requireFutureExpiry(expiresAt, now);
  const tool = engine.tools(tenantId).find(approval.tool);
  const scopeId = {
    run: run?.id,
    conversation: run?.conversationId ?? approval.conversationId,
    session: approval.sessionId,
    tenant: tenantId,
  }[scope];
  if (scopeId === undefined) throw noSuchScope(scope);
  if (scope === 'tenant') requireNamedFolder(engine, tenantId, approval, params);
  const call = { name: approval.tool, params };
  const grant = {
    id: engine.ids.next(),
    ...(terms.rule === 'suggested' ? suggestedGrantRule(tool, call) : exactRule(call)),
    scope,
    scopeId,
    createdAt: now,
    createdBy: by,
    approvers,
    // The definition that the approver saw, which the tool may no longer have.
    ...defined({ expiresAt, uses, definitionDigest: approval.definitionDigest }),
  };
  for (const approver of approvers) requireAdminForWholeTool(grant, approver);
  return grant;
}

/** A command of an agent runs in the folder of its session. The same text means another command elsewhere. */
function requireNamedFolder(
  { workspace }: Pick<Engine, 'workspace'>,
  tenantId: string,
  { resolvedPaths }: Pick<ApprovalRecord, 'resolvedPaths'>,
  params: unknown,
): void {
  const folder = resolvedPaths?.['cwd'];
  const { cwd } = (params ?? {}) as { readonly cwd?: unknown };
  if (folder === undefined || cwd !== undefined || folder === workspace?.(tenantId)) return;
  const message =
    'The command runs in the folder of its session; grant it for the session or conversation';
  throw new RelayError('invalid_request', `scope: ${message}`, {
    details: [{ path: 'scope', message }],
  });
}

function noSuchScope(scope: GrantScope): RelayError {
  const message = `The call belongs to no ${scope}; grant it for another scope, such as tenant`;
  return new RelayError('invalid_request', `scope: ${message}`, {
    details: [{ path: 'scope', message }],
  });
}

/** For the whole tenant, a whole tool is freed only by an administrator who may also approve. */
export function requireAdminForWholeTool(
  { tool, exact, params, scope }: Pick<NewGrant, 'tool' | 'exact' | 'params' | 'scope'>,
  { scopes }: Pick<Approver, 'scopes'>,
): void {
  if (scope !== 'tenant' || exact !== undefined || scopes.includes('admin')) return;
  if (Object.values(params ?? {}).some(isLimiting)) return;
  throw new RelayError(
    'scope_required',
    `A grant of all calls of ${tool} for the whole tenant needs the scope admin too. Limit it by params, or to a conversation`,
  );
}

/** Whether every value has a letter or digit that the pattern names; the scheme of a URL does not limit. */
function isLimiting(pattern: string): boolean {
  return lettersRequiredBy(pattern.replace(/^https?:\/\//, ''));
}

export function requireFutureExpiry(expiresAt: number, now: number): void {
  if (expiresAt > now) return;
  throw new RelayError('invalid_request', 'expiresAt: must be in the future', {
    details: [{ path: 'expiresAt', message: 'Must be in the future' }],
  });
}

interface NamedCall {
  readonly name: string;
  readonly params: unknown;
}

type Rule = Pick<NewGrant, 'tool' | 'exact' | 'params'>;

function exactRule({ name, params }: NamedCall): Rule {
  if (typeof params !== 'object' || params === null) {
    throw new RelayError(
      'invalid_request',
      '`always` is not possible: the arguments of this call are not an object',
    );
  }
  return { tool: name, exact: params as Record<string, unknown> };
}

/** The rule that a tool suggests for calls like this one; undefined if the tool throws. */
export function suggestedRule(
  tool: Pick<Tool, 'derivePermission'> | undefined,
  params: unknown,
): ToolPermission | undefined {
  if (typeof params !== 'object' || params === null) return undefined;
  try {
    // A copy, so that the tool cannot change the call.
    return tool?.derivePermission?.(structuredClone(params) as Record<string, unknown>);
  } catch {
    return undefined;
  }
}

/**
 * The rule that a tool suggests for calls like this one, if it is usable. Tools are not trusted: a rule
 * that is malformed, names another tool or does not cover the call itself is ignored.
 */
export function proposedRule(tool: Tool | undefined, call: NamedCall): ToolPermission | undefined {
  const rule = suggestedRule(tool, call.params);
  const isValid = rule !== undefined && rule.tool === call.name && faultsOf(rule).length === 0;
  const decided = isValid ? decisionWith(tool, call, rule) : undefined;
  const covers = decided !== undefined && decideCall(...decided).decision === 'allow';
  return covers ? rule : undefined;
}

function suggestedGrantRule(tool: Tool | undefined, call: NamedCall): Rule {
  const rule = proposedRule(tool, call);
  if (rule === undefined) {
    const message = `The tool ${call.name} suggests no rule for this call`;
    throw new RelayError('invalid_request', `rule: ${message}`, {
      details: [{ path: 'rule', message }],
    });
  }
  return { tool: rule.tool, ...defined({ exact: rule.exact, params: rule.params }) };
}

/** The refused patterns of one rule, with paths that are relative to the rule. */
export function faultsOf(rule: ToolPermission): PatternFault[] {
  return checkPermissions({ allowlist: [rule] }).map(({ path, message }) => ({
    path: path.replace(/^allowlist\[0\]\./, ''),
    message,
  }));
}

/** The call, and this rule as its only one; undefined if no rule can allow the call. */
function decisionWith(
  tool: Tool | undefined,
  { name, params }: NamedCall,
  rule: ToolRule,
): Parameters<typeof decideCall> | undefined {
  if (typeof params !== 'object' || params === null) return undefined;
  const { exact, params: patterns } = rule;
  const { definitionDigest } = tool ?? {};
  const terms = defined({ exact, params: patterns, definitionDigest });
  const grant = { id: '', tool: rule.tool, ...terms };
  return [
    { toolCallId: '', name, arguments: params as Record<string, unknown> },
    {
      permissions: {},
      usedOnce: [],
      grants: [grant],
      builtinAllow: false,
      ...declaredBy(tool),
    },
  ];
}

/** Whether this rule alone would allow the call. */
export async function allowsCall(
  tool: Tool | undefined,
  call: NamedCall,
  rule: ToolRule,
): Promise<boolean> {
  const decided = decisionWith(tool, call, rule);
  return decided !== undefined && (await decideInTurn(...decided)).decision === 'allow';
}

export interface GrantPreviewRequest {
  readonly rule: ToolRule;
  readonly scope?: Exclude<GrantScope, 'tenant'>;
  readonly scopeId?: string;
}

export interface GrantPreview {
  readonly matched: ApprovalRecord[];
  /** The number of requests that were checked. */
  readonly looked: number;
}

const maxRequests = 1_000;

/** Which of the tenant's latest permission requests a grant would have allowed. */
export async function previewGrant(
  engine: Engine,
  store: TenantStore,
  { rule, scope, scopeId }: GrantPreviewRequest,
): Promise<GrantPreview> {
  const tool = engine.tools(store.tenantId).find(rule.tool);
  const inScope = (approval: ApprovalRecord): boolean => {
    switch (scope) {
      case 'run':
        return approval.runId === scopeId;
      case 'conversation':
        return approval.conversationId === scopeId;
      case 'session':
        return approval.sessionId === scopeId;
      default:
        return true;
    }
  };
  const matched: ApprovalRecord[] = [];
  let looked = 0;
  for await (const approval of permissionRequests(store)) {
    looked += 1;
    const call = { name: approval.tool, params: approval.params };
    const isMatch = approval.tool === rule.tool && (await allowsCall(tool, call, rule));
    if (isMatch && inScope(approval)) matched.push(approval);
    if (looked === maxRequests) break;
  }
  return { matched, looked };
}

const pageSize = 100;

/** Newest first. */
async function* permissionRequests(store: TenantStore): AsyncGenerator<ApprovalRecord, void> {
  const filter = { kind: 'permission' } as const;
  let page = await store.listApprovals(filter, { limit: pageSize });
  for (;;) {
    yield* page.items;
    if (page.next === null) return;
    page = await store.listApprovals(filter, { limit: pageSize, before: page.next });
  }
}
