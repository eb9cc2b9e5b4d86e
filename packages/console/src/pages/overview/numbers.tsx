/** The state of things at a glance. Each number leads to what it counts. */
import type { Stats } from '@relay/protocol/wire';
import { CircleX, Hand, type LucideIcon, TriangleAlert } from 'lucide-react';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { cx } from '../../ui/cx.ts';
import { type Tone, toneText } from '../../ui/state.tsx';
import { formatCount, formatDuration } from '../../ui/values.tsx';
import type { Range } from './ranges.ts';
import { costOf, fastDecisionsOf, formatShare, unknownCost } from './words.ts';

interface NumbersProps {
  readonly stats: Stats;
  readonly range: Range;
}

export function Numbers({ stats, range }: NumbersProps) {
  const { totals } = stats;
  const { runs, openRuns, pendingApprovals, approvalWaitMs, tokens } = totals;
  const fast = fastDecisionsOf(totals);
  const since = `since=${range.name}`;
  return (
    <ul className="grid grid-cols-2 gap-3 md:grid-cols-3 min-[87.5rem]:grid-cols-6">
      <Tile href={`/runs?${since}`} label="Runs" value={formatCount(runs.started)}>
        Started in {range.words}. {formatCount(openRuns)} {openRuns === 1 ? 'is' : 'are'} open now.
      </Tile>
      <Tile
        href={`/runs?status=failed&${since}`}
        label="Failed"
        value={formatCount(runs.failed)}
        mark={runs.failed > 0 ? { tone: 'failed', icon: CircleX } : undefined}
      >
        {formatCount(runs.completed)} completed, {formatCount(runs.canceled)} canceled.
      </Tile>
      <Tile
        href="/inbox"
        label="Waiting now"
        value={formatCount(pendingApprovals)}
        mark={pendingApprovals > 0 ? { tone: 'waiting', icon: Hand } : undefined}
      >
        {pendingApprovals === 0
          ? 'Nothing waits for a person.'
          : pendingApprovals === 1
            ? 'One request waits for a person.'
            : 'Requests wait for a person.'}
      </Tile>
      <Tile href={`/runs?${since}`} label="Cost" value={costOf(totals)}>
        {formatCount(tokens.input + tokens.output)} tokens. {unknownCost(totals)}
      </Tile>
      <Tile
        href="/inbox?tab=decided"
        label="Median wait"
        value={approvalWaitMs === null ? '–' : formatDuration(approvalWaitMs.p50)}
      >
        From a request to the decision of a person.
      </Tile>
      <Tile
        href="/inbox?tab=decided"
        label="Decided within 3 s"
        value={fast.share === undefined ? '–' : formatShare(fast.share)}
        mark={fast.isHigh ? { tone: 'waiting', icon: TriangleAlert } : undefined}
      >
        {fast.text}
      </Tile>
    </ul>
  );
}

interface TileProps {
  readonly href: string;
  readonly label: string;
  readonly value: string;
  readonly mark?: { readonly tone: Tone; readonly icon: LucideIcon } | undefined;
  readonly children: ReactNode;
}

function Tile({ href, label, value, mark, children }: TileProps) {
  const Icon = mark?.icon;
  return (
    <li className="flex">
      <Link
        href={href}
        className="flex flex-1 flex-col rounded border border-line bg-surface p-3 hover:bg-hover"
      >
        <span className="text-xs font-medium text-muted">{label}</span>
        <span
          className={cx(
            'flex items-center gap-1.5 text-2xl font-semibold',
            mark !== undefined && toneText[mark.tone],
          )}
        >
          {Icon === undefined ? null : <Icon aria-hidden size={20} className="shrink-0" />}
          {value}
        </span>
        <span className="mt-1 text-xs text-muted">{children}</span>
      </Link>
    </li>
  );
}
