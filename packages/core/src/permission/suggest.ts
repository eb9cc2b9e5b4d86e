/** Rules that could replace what people decide again and again. */
import { canonicalJson, type ToolPermission } from '@relay/protocol';
import type { Engine } from '../engine.ts';
import type { ApprovalRecord, StatsRange, TenantStore, ToolStats } from '../ports/index.ts';
import { allowsCall, proposedRule } from './grants.ts';

/** Decisions that are read, of each kind. */
const mostRead = 500;
/** Approved calls of a tool that rules are made from. */
const mostApproved = 50;
/** Rules of a tool that are checked. */
const mostRules = 3;

/**
 * Per tool the most frequent of the rules that it suggests for the calls which people approved, if that
 * rule allows most of them and none that people denied. There is none if not all denied calls were read.
 */
export async function suggestRules(
  engine: Engine,
  store: TenantStore,
  range: Pick<StatsRange, 'since' | 'until'>,
  stats: readonly ToolStats[],
): Promise<ReadonlyMap<string, ToolPermission>> {
  const suggestions = new Map<string, ToolPermission>();
  if (!stats.some(({ approved }) => approved > 1)) return suggestions;
  const [approved, denied] = await Promise.all([
    store.listDecisions('approved', range, mostRead),
    store.listDecisions('denied', range, mostRead),
  ]);
  for (const { tool, denied: deniedCount } of stats) {
    const ofTool = (each: ApprovalRecord) => each.tool === tool;
    const refused = denied.filter(ofTool);
    if (refused.length < deniedCount) continue;
    const accepted = approved.filter(ofTool).slice(0, mostApproved);
    const rule = await findRule(engine, store.tenantId, tool, { accepted, refused });
    if (rule !== undefined) suggestions.set(tool, rule);
  }
  return suggestions;
}

interface Decided {
  readonly accepted: readonly ApprovalRecord[];
  readonly refused: readonly ApprovalRecord[];
}

async function findRule(
  engine: Engine,
  tenantId: string,
  name: string,
  { accepted, refused }: Decided,
): Promise<ToolPermission | undefined> {
  const tool = engine.tools(tenantId).find(name);
  const callOf = ({ edited, params }: ApprovalRecord) => ({
    name,
    params: edited?.params ?? params,
  });
  // A call that needs a person in any case is allowed by no rule.
  const rules = accepted.flatMap((each) =>
    each.rule === undefined ? (proposedRule(tool, callOf(each)) ?? []) : [],
  );
  const groups = [...Map.groupBy(rules, canonicalJson).values()];
  const frequent = groups.toSorted((one, other) => other.length - one.length).slice(0, mostRules);
  const allowed = async (rule: ToolPermission, decisions: readonly ApprovalRecord[]) => {
    let count = 0;
    for (const each of decisions) if (await allowsCall(tool, callOf(each), rule)) count += 1;
    return count;
  };
  for (const [rule] of frequent) {
    if (rule === undefined) continue;
    const matched = await allowed(rule, accepted);
    if (matched < 2 || matched * 2 <= accepted.length) continue;
    if ((await allowed(rule, refused)) === 0) return rule;
  }
  return undefined;
}
