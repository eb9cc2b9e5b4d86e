/**
 * The permissions object of a program. It is read again for each call, so that changes by the program
 * apply from the next call on. The library changes it in two cases only: it removes a used allow-once
 * rule, and "always" adds the call to the allowlist.
 */
import { checkPermissions, type ProgramRules } from '@relay/core';
import {
  canonicalJson,
  defined,
  issueMessage,
  type Permissions,
  permissionsSchema,
  RelayError,
  type ToolPermission,
} from '@relay/protocol';
import { invalidRequest, issuesAt } from './validation.ts';

/** A rule whose parameters can be the arguments of a call. */
export interface RuleInput {
  readonly tool: string;
  readonly params?: Readonly<Record<string, unknown>> | undefined;
  readonly exact?: Readonly<Record<string, unknown>> | undefined;
}

export interface Denial {
  readonly toolCallId: string;
  readonly reason?: string | undefined;
}

const lists = ['allowlist', 'allowOnce', 'denylist', 'ask'] as const;

/** Lists to replace; missing ones stay. */
export type PermissionsUpdate = {
  readonly [List in (typeof lists)[number]]?: readonly RuleInput[] | undefined;
} & { readonly deny?: readonly Denial[] | undefined };

/** All four lists of rules that decide a call, also if they are empty; `ask` if there is one. */
export type CompletePermissions = {
  [List in keyof Omit<Permissions, 'headless' | 'ask'>]-?: NonNullable<Permissions[List]>;
} & Pick<Permissions, 'ask'>;

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

/** The rules of one agent, based on the program's object. */
export class AgentRules implements ProgramRules {
  readonly #shared: Permissions;
  /** Lists of this agent that replace those of the shared object. */
  readonly #own: Permissions = {};
  /** "Always" applies to this agent only, also if others share the object. */
  readonly #privateAlways: boolean;

  constructor(shared: Permissions, options: { privateAlways?: boolean | undefined } = {}) {
    checkRules(shared);
    this.#shared = shared;
    this.#privateAlways = options.privateAlways === true;
  }

  current(): Permissions {
    return { ...this.#shared, ...this.#own };
  }

  useOnce(index: number): void {
    this.current().allowOnce?.splice(index, 1);
  }

  /** Allows exactly this call; its arguments are not patterns. */
  allowAlways(tool: string, params: Record<string, unknown>): void {
    const exact = structuredClone(params) as NonNullable<ToolPermission['exact']>;
    const rule = { tool, exact };
    const { allowlist = [] } = this.current();
    if (includesRule(allowlist, rule)) return;
    const isPrivate = this.#privateAlways || this.#own.allowlist !== undefined;
    if (isPrivate) this.#own.allowlist = [...allowlist, rule];
    else (this.#shared.allowlist ??= []).push(rule);
  }

  replace(update: PermissionsUpdate): void {
    const next = normalized(update);
    checkRules(next);
    Object.assign(this.#own, next);
  }

  complete(): CompletePermissions {
    const { allowlist = [], allowOnce = [], deny = [], denylist = [], ask } = this.current();
    return {
      allowlist: [...allowlist],
      allowOnce: [...allowOnce],
      deny: [...deny],
      denylist: [...denylist],
      ...(ask === undefined ? {} : { ask: [...ask] }),
    };
  }
}

function includesRule(rules: readonly ToolPermission[], rule: ToolPermission): boolean {
  const text = canonicalJson(rule);
  return rules.some((each) => canonicalJson(each) === text);
}

/** Converts the scalars of a call to text, because patterns are text; rejects other values. */
function normalized(update: PermissionsUpdate): Permissions {
  const next: Permissions = {};
  for (const list of lists) {
    const rules = update[list];
    if (rules !== undefined) {
      next[list] = rules.map((rule, index) => ruleOf(rule, `permissions.${list}[${index}]`));
    }
  }
  if (update.deny !== undefined) {
    next.deny = update.deny.map(({ toolCallId, reason }) => defined({ toolCallId, reason }));
  }
  return next;
}

function ruleOf({ tool, params, exact }: RuleInput, path: string): ToolPermission {
  return defined({
    tool,
    params: params === undefined ? undefined : patternsOf(params, `${path}.params`),
    exact: exact as ToolPermission['exact'],
  });
}

function patternsOf(params: Readonly<Record<string, unknown>>, path: string) {
  const patterns = Object.entries(params).map(([name, value]) => {
    if (typeof value === 'string') return [name, value] as const;
    if (typeof value === 'number' || typeof value === 'boolean') {
      return [name, String(value)] as const;
    }
    const message = 'A pattern must be a string, a number or a boolean';
    throw invalidRequest([{ path: `${path}.${name}`, message }]);
  });
  return Object.fromEntries(patterns);
}
