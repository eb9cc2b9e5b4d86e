/** Rules for the tool of a call that do not match it, and why. */
import { defined, type RuleRef } from '@relay/protocol';
import { type CallToDecide, matcherFor, type RuleSet, type Verdict } from './decide.ts';
import type { Miss, ToolRule } from './match.ts';
import type { Obstacle, UncoveredCommand } from './shell/allow.ts';
import { turnAfter, withinSteps } from './step-budget.ts';

export interface NearMiss extends RuleRef, ToolRule {
  /** The parameter that does not match. */
  readonly parameter?: string;
  /** Its pattern in the rule. */
  readonly pattern?: string;
  /** The part of its value that the pattern does not match; empty if the value ends too early. */
  readonly part?: string;
  readonly reason: string;
}

const mostMisses = 20;
const mostChars = 200;

/** Only of rules that would change the verdict, in the order in which they are tried. */
export async function nearMisses(
  call: CallToDecide,
  rules: RuleSet,
  verdict: Verdict,
): Promise<NearMiss[]> {
  const found: NearMiss[] = [];
  // What is found before the steps are used up is returned.
  const { steps } = withinSteps(() => {
    for (const miss of missesOf(call, rules, verdict)) {
      found.push(miss);
      if (found.length === mostMisses) return;
    }
  });
  await turnAfter(steps);
  return found;
}

function* missesOf(
  call: CallToDecide,
  rules: RuleSet,
  verdict: Verdict,
): Generator<NearMiss, void> {
  const { counted, matcher } = matcherFor(call, rules);
  for (const { ref, rule } of rulesThatWouldChange(verdict, counted)) {
    if (rule.tool !== call.name) continue;
    const isAllow = ref.list !== 'deny' && ref.list !== 'denylist' && ref.list !== 'ask';
    const miss = isAllow ? matcher.missOfAllow(rule) : matcher.missOfDeny(rule);
    if (miss === undefined) continue;
    const { tool, params, exact } = rule;
    yield { ...ref, ...defined({ params, exact }), tool, ...shown(miss), reason: describe(miss) };
  }
}

interface NamedRule {
  readonly ref: RuleRef;
  readonly rule: ToolRule;
}

function rulesThatWouldChange(verdict: Verdict, rules: RuleSet): NamedRule[] {
  const { permissions, policies = [], grants } = rules;
  const request = (list: 'allowlist' | 'allowOnce' | 'denylist' | 'ask') =>
    (permissions[list] ?? []).map((rule, index): NamedRule => ({
      ref: { list, index, source: 'request' },
      rule,
    }));
  const policy = (list: 'allow' | 'deny' | 'ask') =>
    policies.flatMap(({ id, [list]: all }) =>
      all.map((rule, index): NamedRule => ({ ref: { list, index, source: 'policy', id }, rule })),
    );
  if (verdict.decision === 'deny') return [];
  const denials = [...request('denylist'), ...policy('deny')];
  if (verdict.decision === 'ask' && verdict.rule !== undefined) return denials;
  const asks = [...request('ask'), ...policy('ask')];
  if (verdict.decision === 'allow') return [...denials, ...asks];
  const granted = grants.map((rule, index): NamedRule => ({
    ref: { list: 'grants', index, source: 'grant', id: rule.id },
    rule,
  }));
  // What would allow the call comes first: it is what a person looks for.
  return [
    ...request('allowlist'),
    ...granted,
    ...policy('allow'),
    ...request('allowOnce'),
    ...denials,
    ...asks,
  ];
}

function shown(miss: Miss): Pick<NearMiss, 'parameter' | 'pattern' | 'part'> {
  const parameter = 'parameter' in miss ? miss.parameter : undefined;
  const pattern = 'pattern' in miss ? miss.pattern : undefined;
  const part = partOf(miss);
  return defined({ parameter, pattern, part: part === undefined ? undefined : cut(part) });
}

function partOf(miss: Miss): string | undefined {
  if (miss.kind === 'text') return miss.part;
  return miss.kind === 'command' ? (miss.command.wildcard ?? miss.command.text) : undefined;
}

function describe(miss: Miss): string {
  switch (miss.kind) {
    case 'exact':
      return miss.parameter === undefined
        ? 'The rule is for a call with other arguments.'
        : `The rule is for an exact call, whose \`${miss.parameter}\` is different.`;
    case 'link':
      return 'A path of the call leads elsewhere through a link.';
    case 'concerned':
      return 'A deny or ask rule may be about this command, so only a rule for this exact call allows it.';
    case 'unnamed':
      return `The rule has patterns, but none for \`${miss.parameter}\`, which this call has.`;
    case 'unreadable':
      return `There are deny or ask rules for \`${miss.parameter}\`, and they cannot read all of its value.`;
    case 'absent':
      return `The call has no parameter \`${miss.parameter}\`.`;
    case 'not_text':
      return `No pattern matches \`${miss.parameter}\`: it is not a text, number or boolean.`;
    case 'text':
      return miss.part === ''
        ? `\`${miss.parameter}\` ends before the pattern \`${miss.pattern}\` does.`
        : `The pattern \`${miss.pattern}\` does not match \`${miss.parameter}\` from \`${cut(miss.part)}\` on.`;
    case 'path':
      return `The pattern \`${miss.pattern}\` matches the text of \`${miss.parameter}\`, but not the path that it leads to.`;
    case 'url':
      return `The pattern \`${miss.pattern}\` matches the text of \`${miss.parameter}\`, but not its host and path taken separately.`;
    case 'code':
      return `\`${miss.parameter}\` runs code, which no pattern allows.`;
    case 'command':
      return describeCommand(miss.pattern, miss.command);
  }
}

/** What a wildcard never stands for. */
const literals: Readonly<Partial<Record<Obstacle, string>>> = {
  program: 'the name of a program or its folder',
  evaluated: 'the arguments of a program that evaluates them',
  option: 'an option with side effects',
  subcommand: 'a subcommand that does more than read',
  wrapped: 'a command that another one runs',
  script: 'the script of an interpreter',
};

function describeCommand(pattern: string, { obstacle, text, wildcard }: UncoveredCommand): string {
  const command = `\`${cut(text)}\``;
  const literal = literals[obstacle];
  if (literal !== undefined) {
    const where = wildcard === undefined ? '' : `, here \`${cut(wildcard)}\``;
    return `A wildcard does not stand for ${literal}${where}. Write it out in the pattern \`${pattern}\` to allow ${command}.`;
  }
  switch (obstacle) {
    case 'expands':
      return `The shell replaces a part of ${command} (such as $x, ~ or {a,b}), so no pattern allows it.`;
    case 'folder_changed':
      return `The line changes the folder before ${command}, and what the pattern means depends on the folder.`;
    case 'not_understood':
      return 'The command is not understood completely, so no pattern allows it.';
    default:
      return `No allow rule covers ${command}, which is a part of the line.`;
  }
}

function cut(text: string): string {
  return text.length <= mostChars ? text : `${text.slice(0, mostChars)} …`;
}
