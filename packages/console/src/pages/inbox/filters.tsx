/** Which approvals are shown: kept in the address. */
import { escapeMisleading } from '@relay/protocol/display';
import type { Approval, ApprovalKind } from '@relay/protocol/wire';
import { useMemo } from 'react';
import { cx } from '../../ui/cx.ts';
import { pathText } from './words.ts';

export interface Filter {
  readonly kind: ApprovalKind | undefined;
  readonly tool: string | undefined;
  readonly includes: (approval: Approval) => boolean;
  /** Only what the person may decide. */
  readonly isMine: boolean;
  readonly isActive: boolean;
}

const kinds = { permission: 'Permissions', question: 'Questions', outcome: 'Unknown outcomes' };

export function filterOf(search: URLSearchParams): Filter {
  const kind = (Object.keys(kinds) as ApprovalKind[]).find((each) => each === search.get('kind'));
  const tool = search.get('tool') ?? undefined;
  const agent = search.get('agent') ?? undefined;
  const isMine = search.get('mine') === 'true';
  return {
    kind,
    tool,
    includes: (approval) =>
      (kind === undefined || approval.kind === kind) &&
      (tool === undefined || approval.tool === tool) &&
      (agent === undefined || pathText(approval.agentPath) === agent),
    isMine,
    isActive: isMine || kind !== undefined || tool !== undefined || agent !== undefined,
  };
}

interface FilterBarProps {
  readonly search: URLSearchParams;
  readonly setSearch: (change: (before: URLSearchParams) => URLSearchParams) => void;
  /** What there is to choose from. */
  readonly approvals: readonly Approval[];
  readonly isPending: boolean;
}

export function FilterBar({ search, setSearch, approvals, isPending }: FilterBarProps) {
  const set = (name: string, value: string) =>
    setSearch((before) => {
      if (value === '') before.delete(name);
      else before.set(name, value);
      return before;
    });
  const tools = useMemo(
    () => [...new Set(approvals.map(({ tool }) => tool))].toSorted(),
    [approvals],
  );
  const agents = useMemo(
    () => [...new Set(approvals.map(({ agentPath }) => pathText(agentPath)))].toSorted(),
    [approvals],
  );
  const tool = search.get('tool') ?? '';
  const agent = search.get('agent') ?? '';
  const isMine = search.get('mine') === 'true';
  return (
    <div className="flex min-w-0 items-center gap-2 overflow-x-auto py-1">
      <Choice
        label="Kind"
        value={search.get('kind') ?? ''}
        onChange={(value) => set('kind', value)}
      >
        <option value="">All kinds</option>
        {Object.entries(kinds).map(([kind, text]) => (
          <option key={kind} value={kind}>
            {text}
          </option>
        ))}
      </Choice>
      <Choice label="Tool" value={tool} onChange={(value) => set('tool', value)}>
        <option value="">All tools</option>
        <Options values={withChosen(tools, tool)} />
      </Choice>
      <Choice label="Agent" value={agent} onChange={(value) => set('agent', value)}>
        <option value="">All agents</option>
        <Options values={withChosen(agents, agent)} />
      </Choice>
      {isPending ? (
        <label
          className={cx(
            'flex h-7 shrink-0 items-center gap-1.5 rounded border px-2 text-xs whitespace-nowrap max-sm:order-first pointer-coarse:h-11',
            isMine ? 'border-line-strong bg-selected text-text' : 'border-line text-muted',
          )}
        >
          <input
            type="checkbox"
            className="accent-solid"
            checked={isMine}
            onChange={(event) => set('mine', event.target.checked ? 'true' : '')}
          />
          Only mine to decide
        </label>
      ) : null}
    </div>
  );
}

interface ChoiceProps {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly children: React.ReactNode;
}

function Choice({ label, value, onChange, children }: ChoiceProps) {
  return (
    <select
      aria-label={label}
      value={value}
      onChange={(event) => onChange(event.target.value)}
      className={cx(
        'h-7 max-w-40 shrink-0 rounded border px-1.5 text-xs pointer-coarse:h-11',
        value === '' ? 'border-line text-muted' : 'border-line-strong bg-selected text-text',
      )}
    >
      {children}
    </select>
  );
}

function Options({ values }: { readonly values: readonly string[] }) {
  return values.map((value) => (
    <option key={value} value={value}>
      {escapeMisleading(value)}
    </option>
  ));
}

function withChosen(values: readonly string[], chosen: string): readonly string[] {
  return chosen === '' || values.includes(chosen) ? values : [chosen, ...values];
}
