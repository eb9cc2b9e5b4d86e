/** A rule in words, as rows show it. */
import type { ToolList } from '@relay/protocol/wire';
import { Json } from '../../text/json.tsx';
import { SafeText } from '../../text/safe-text.tsx';
import { Badge } from '../../ui/state.tsx';
import type { ApproverRule, ToolRule } from './draft.ts';
import { useTools } from './use-policy.ts';

export type Kind = NonNullable<ToolList['tools'][number]['kinds']>[string];

export const kindWords: Readonly<Record<Kind, string>> = {
  command: 'command',
  path: 'path',
  url: 'URL',
};

/** The kind that the tool declares for a parameter; undefined: text. */
export function useKinds(tool: string): Readonly<Record<string, Kind>> {
  const { data } = useTools();
  return data?.tools.find(({ name }) => name === tool)?.kinds ?? {};
}

export function RuleSummary({ rule }: { readonly rule: ToolRule | ApproverRule }) {
  const kinds = useKinds(rule.tool);
  const { tool, params } = rule;
  const exact = 'exact' in rule ? rule.exact : undefined;
  const patterns = Object.entries(params ?? {});
  return (
    <div className="flex min-w-0 flex-1 flex-col text-sm">
      <div className="flex min-h-8 min-w-0 flex-wrap content-center items-baseline gap-x-3 gap-y-1">
        <code className="font-mono font-medium break-all">
          <SafeText text={tool} maxLength={200} />
        </code>
        {patterns.length === 0 && exact === undefined ? (
          <span className="text-muted">every call</span>
        ) : null}
        {patterns.map(([name, pattern]) => (
          <span key={name} className="inline-flex min-w-0 flex-wrap items-baseline gap-1.5">
            <span className="text-xs text-muted">
              <span className="font-mono">
                <SafeText text={name} maxLength={200} />
              </span>
              {kinds[name] === undefined || kinds[name] === name
                ? ''
                : ` (${kindWords[kinds[name]]})`}
            </span>
            <code dir="ltr" className="rounded-sm bg-sunken px-1 font-mono break-all">
              <SafeText text={pattern} maxLength={500} />
            </code>
          </span>
        ))}
      </div>
      {exact === undefined ? null : (
        <div className="min-w-0 pb-1">
          <span className="text-xs text-muted">exactly these arguments</span>
          <Json value={exact} />
        </div>
      )}
      {'quorum' in rule ? <Approvers rule={rule} /> : null}
    </div>
  );
}

function Approvers({ rule }: { readonly rule: ApproverRule }) {
  const { agent, quorum, notRequester } = rule;
  return (
    <div className="flex flex-wrap items-center gap-1.5 pb-1 text-muted">
      <span>{approversText(rule)}</span>
      {quorum > 1 ? <Badge tone="ended">{quorum} persons</Badge> : null}
      {notRequester ? <Badge tone="ended">not the requester</Badge> : null}
      {agent === undefined ? null : (
        <Badge tone="ended">
          agent <SafeText text={agent} />
        </Badge>
      )}
    </div>
  );
}

export function approversText({ roles, groups, keys }: Partial<ApproverRule>): string {
  if (roles !== undefined) return `Decided by ${roles.join(' or ')}`;
  if (groups !== undefined) return `Decided by the group ${groups.join(' or ')}`;
  if (keys !== undefined)
    return `Decided by ${keys.length} named ${keys.length === 1 ? 'key' : 'keys'}`;
  return 'Decided by anyone who may approve';
}
