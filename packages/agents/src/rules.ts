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
  ruleLimits,
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

/**
 * Throws `invalid_request` or `invalid_pattern`, with the path of the field. An allow rule may come from
 * the arguments of a call: a value that is no valid pattern matches as literal text. A deny rule
 * must be valid, because its author expects it to deny more than that text.
 */
export function checkRules(permissions: Permissions): void {
  const parsed = permissionsSchema.safeParse(permissions, { error: issueMessage });
  if (!parsed.success) throw invalidRequest(issuesAt('permissions', parsed.error.issues));
  const { allowlist: _allowlist, allowOnce: _allowOnce, ...narrowing } = permissions;
  const [fault] = checkPermissions(narrowing);
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

  /** Checked again, because the program may have changed its object. */
  current(): Permissions {
    const lists = this.#lists();
    checkRules(lists);
    return lists;
  }

  #lists(): Permissions {
    return { ...this.#shared, ...this.#own };
  }

  useOnce(index: number): void {
    this.#lists().allowOnce?.splice(index, 1);
  }

  /** Allows exactly this call; its arguments are not patterns. */
  allowAlways(tool: string, params: Record<string, unknown>): void {
    const exact = structuredClone(params) as NonNullable<ToolPermission['exact']>;
    const rule = { tool, exact };
    const { allowlist = [] } = this.#lists();
    // Without room for another rule, the next call like this one needs an approval again.
    if (countRules(this.#lists()) >= ruleLimits.rules || includesRule(allowlist, rule)) return;
    const isPrivate = this.#privateAlways || this.#own.allowlist !== undefined;
    if (isPrivate) this.#own.allowlist = [...allowlist, rule];
    else (this.#shared.allowlist ??= []).push(rule);
  }

  replace(update: PermissionsUpdate): void {
    const next = normalized(update);
    checkRules(next);
    Object.assign(this.#own, next);
  }

  /** The lists themselves, not copies: a program may also change them in place. */
  complete(): CompletePermissions {
    const { allowlist, allowOnce, deny, denylist, ask } = this.#lists();
    const missing = Object.isExtensible(this.#shared) ? this.#shared : this.#own;
    return {
      allowlist: allowlist ?? (missing.allowlist = []),
      allowOnce: allowOnce ?? (missing.allowOnce = []),
      deny: deny ?? (missing.deny = []),
      denylist: denylist ?? (missing.denylist = []),
      ...defined({ ask }),
    };
  }
}

function countRules({ allowlist, allowOnce, deny, denylist, ask }: Permissions): number {
  const all = [allowlist, allowOnce, deny, denylist, ask];
  return all.reduce((count, list) => count + (list?.length ?? 0), 0);
}

function includesRule(rules: readonly ToolPermission[], rule: ToolPermission): boolean {
  const text = canonicalJson(rule);
  return rules.some((each) => canonicalJson(each) === text);
}

/** Converts the scalars of a call to text, because patterns are text. */
function normalized(update: PermissionsUpdate): Permissions {
  const next: Permissions = {};
  for (const list of lists) {
    const rules = update[list];
    if (rules !== undefined) {
      next[list] = rules.map(ruleOf);
    }
  }
  if (update.deny !== undefined) {
    next.deny = update.deny.map(({ toolCallId, reason }) => defined({ toolCallId, reason }));
  }
  return next;
}

/** No pattern matches an object, a list or null: a rule with one allows exactly these arguments. */
function ruleOf({ tool, params, exact }: RuleInput): ToolPermission {
  const values = Object.entries(params ?? {});
  const isText = values.every(([, value]) => isScalar(value));
  const patterns = values.map(([name, value]) => [name, String(value)] as const);
  return defined({
    tool,
    params: params === undefined || !isText ? undefined : Object.fromEntries(patterns),
    exact: (isText ? exact : (exact ?? params)) as ToolPermission['exact'],
  });
}

function isScalar(value: unknown): value is string | number | boolean {
  return ['string', 'number', 'boolean'].includes(typeof value);
}
