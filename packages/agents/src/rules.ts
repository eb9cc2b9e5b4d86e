/**
 * Permissions as a program has them: an object of its own, read anew for each call, so that whatever
 * the program changes in it holds from the next call on. Nobody else writes to it but for two things:
 * an allow-once rule that is used up is removed, and "always" adds the call to the allowlist.
 */
import { checkPermissions, type ProgramRules } from '@relay/core';
import {
  canonicalJson,
  issueMessage,
  type Permissions,
  permissionsSchema,
  RelayError,
  type ToolPermission,
} from '@relay/protocol';
import { invalidRequest, issuesAt } from './invalid-request.ts';

/** A rule whose parameters may still be what a call carried. */
export interface RuleInput {
  readonly tool: string;
  readonly params?: Readonly<Record<string, unknown>> | undefined;
  readonly exact?: Readonly<Record<string, unknown>> | undefined;
}

export interface Denial {
  readonly toolCallId: string;
  readonly reason?: string | undefined;
}

/** Lists to replace; those left out stay. */
export interface PermissionsUpdate {
  readonly allowlist?: readonly RuleInput[] | undefined;
  readonly allowOnce?: readonly RuleInput[] | undefined;
  readonly denylist?: readonly RuleInput[] | undefined;
  readonly deny?: readonly Denial[] | undefined;
}

/** All four lists, whether or not there is anything in them. */
export type CompletePermissions = {
  [List in keyof Omit<Permissions, 'headless'>]-?: NonNullable<Permissions[List]>;
};

const lists = ['allowlist', 'allowOnce', 'denylist'] as const;

/** Throws `invalid_request` or `invalid_pattern`, with the path of the field. */
export function checkRules(permissions: Permissions): void {
  const parsed = permissionsSchema.safeParse(permissions, { error: issueMessage });
  if (!parsed.success) throw invalidRequest(issuesAt('permissions', parsed.error.issues));
  const [fault] = checkPermissions(permissions);
  if (fault === undefined) return;
  const path = `permissions.${fault.path}`;
  throw new RelayError('invalid_pattern', `${path}: ${fault.message}`, {
    details: [{ path, message: fault.message }],
  });
}

export interface AgentRulesOptions {
  /** "Always" holds for this agent alone, whoever else shares the object. */
  readonly alwaysForItself?: boolean | undefined;
}

/** The rules of one agent, on the object that its program handed in. */
export class AgentRules implements ProgramRules {
  readonly #given: Permissions;
  /** Lists that this agent has for itself, instead of those it was given. */
  readonly #own: Permissions = {};
  readonly #alwaysForItself: boolean;

  constructor(given: Permissions, { alwaysForItself = false }: AgentRulesOptions = {}) {
    checkRules(given);
    this.#given = given;
    this.#alwaysForItself = alwaysForItself;
  }

  current(): Permissions {
    return { ...this.#given, ...this.#own };
  }

  useOnce(index: number): void {
    this.current().allowOnce?.splice(index, 1);
  }

  /** Exactly this call, not its text as a pattern. */
  allowAlways(tool: string, params: Record<string, unknown>): void {
    const rule = literal(tool, params);
    const { allowlist = [] } = this.current();
    if (has(allowlist, rule)) return;
    const own = this.#alwaysForItself || this.#own.allowlist !== undefined;
    if (own) this.#own.allowlist = [...allowlist, rule];
    else (this.#given.allowlist ??= []).push(rule);
  }

  replace(update: PermissionsUpdate): void {
    const next = normalized(update);
    checkRules(next);
    Object.assign(this.#own, next);
  }

  complete(): CompletePermissions {
    const { allowlist = [], allowOnce = [], deny = [], denylist = [] } = this.current();
    return {
      allowlist: [...allowlist],
      allowOnce: [...allowOnce],
      deny: [...deny],
      denylist: [...denylist],
    };
  }
}

function literal(tool: string, params: Record<string, unknown>): ToolPermission {
  return { tool, exact: structuredClone(params) as NonNullable<ToolPermission['exact']> };
}

function has(rules: readonly ToolPermission[], rule: ToolPermission): boolean {
  const text = canonicalJson(rule);
  return rules.some((each) => canonicalJson(each) === text);
}

/** A call's scalars become text, as a pattern is; nothing else can be one. */
function normalized(update: PermissionsUpdate): Permissions {
  const next: Permissions = {};
  for (const list of lists) {
    const rules = update[list];
    if (rules !== undefined) {
      next[list] = rules.map((rule, index) => ruleOf(rule, `permissions.${list}[${index}]`));
    }
  }
  if (update.deny !== undefined) {
    next.deny = update.deny.map(({ toolCallId, reason }) =>
      reason === undefined ? { toolCallId } : { toolCallId, reason },
    );
  }
  return next;
}

function ruleOf({ tool, params, exact }: RuleInput, path: string): ToolPermission {
  return {
    tool,
    ...(params === undefined ? {} : { params: patternsOf(params, `${path}.params`) }),
    ...(exact === undefined ? {} : { exact: exact as NonNullable<ToolPermission['exact']> }),
  };
}

function patternsOf(params: Readonly<Record<string, unknown>>, path: string) {
  const patterns = Object.entries(params).map(([name, value]) => {
    if (typeof value === 'string') return [name, value] as const;
    if (typeof value === 'number' || typeof value === 'boolean') {
      return [name, String(value)] as const;
    }
    const message = 'Only a text, a number or a boolean can be a pattern';
    throw invalidRequest([{ path: `${path}.${name}`, message }]);
  });
  return Object.fromEntries(patterns);
}
