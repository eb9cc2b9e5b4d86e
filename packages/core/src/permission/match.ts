import { canonicalJson, type Permissions } from '@relay/protocol';
import { checkPattern, compileGlob, type Effect } from './glob/glob.ts';
import { scalarText } from './scalar.ts';

export interface ToolCallLike {
  readonly name: string;
  readonly arguments?: Readonly<Record<string, unknown>>;
}

/** A rule: of the whole tool, of patterns (`params`), of one call as it was made (`exact`). */
export interface ToolRule {
  readonly tool: string;
  readonly params?: Readonly<Record<string, string>> | undefined;
  readonly exact?: Readonly<Record<string, unknown>> | undefined;
}

/** A grant of one call as it was made, not of a pattern. */
export interface ExactPermission {
  readonly tool: string;
  readonly exact: Readonly<Record<string, unknown>>;
}

export interface PatternFault {
  readonly path: string;
  readonly message: string;
}

/** The tool's exact name, and every named parameter there and matched by its pattern. */
export function matchesPermission(toolCall: ToolCallLike, permission: ToolRule): boolean {
  return matchesRule(toolCall, permission, 'allow');
}

/** The same for a rule that denies: its wildcards also stand for line breaks and hidden names. */
export function matchesDenial(toolCall: ToolCallLike, permission: ToolRule): boolean {
  return matchesRule(toolCall, permission, 'deny');
}

/** Whether the text of the rules allows a call. What runs is for `decide` to say. */
export function matchesPermissions(toolCall: ToolCallLike, permissions: Permissions): boolean {
  if (permissions.denylist?.some((rule) => matchesDenial(toolCall, rule)) === true) return false;
  const rules = [...(permissions.allowlist ?? []), ...(permissions.allowOnce ?? [])];
  return rules.some((rule) => matchesPermission(toolCall, rule));
}

/** Exactly these arguments, nothing more and nothing less. */
export function matchesExact(toolCall: ToolCallLike, permission: ExactPermission): boolean {
  if (toolCall.name !== permission.tool) return false;
  try {
    return canonicalJson(toolCall.arguments ?? {}) === canonicalJson(permission.exact);
  } catch {
    return false; // arguments that contain themselves came from no model
  }
}

/** Every pattern that is refused, with the path of its field. */
export function checkPermissions(permissions: Permissions): PatternFault[] {
  const faults: PatternFault[] = [];
  for (const list of ['allowlist', 'allowOnce', 'denylist'] as const) {
    for (const [index, rule] of (permissions[list] ?? []).entries()) {
      for (const [name, pattern] of Object.entries(rule.params ?? {})) {
        const message = checkPattern(pattern);
        const path = `${list}[${index}].params${fieldPath(name)}`;
        if (message !== undefined) faults.push({ path, message });
      }
    }
  }
  return faults;
}

function matchesRule(toolCall: ToolCallLike, rule: ToolRule, effect: Effect): boolean {
  const { tool, exact } = rule;
  if (toolCall.name !== tool) return false;
  if (exact !== undefined && !matchesExact(toolCall, { tool, exact })) return false;
  return Object.entries(rule.params ?? {}).every(([name, pattern]) => {
    const text = scalarText(toolCall.arguments, name);
    return text !== undefined && compileGlob(pattern, effect).matches(text);
  });
}

function fieldPath(name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`;
}
