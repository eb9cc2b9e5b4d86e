/** Parts of a tool call: how long it took, what it returned, and who decided about it. */
import { CircleAlert } from 'lucide-react';
import type { ReactNode } from 'react';
import { ArgumentsDiff } from '../call/arguments-diff.tsx';
import { Json } from '../text/json.tsx';
import { SafeText } from '../text/safe-text.tsx';
import { StatusBadge, type Tone } from '../ui/state.tsx';
import { formatDateTime, formatDuration, formatTime, useNow } from '../ui/values.tsx';
import type { ApprovalState, ToolItem, ToolState } from './transcript.ts';

export const toolLooks: Readonly<
  Record<ToolState, { readonly tone: Tone; readonly label: string }>
> = {
  called: { tone: 'ended', label: 'Called' },
  waiting: { tone: 'waiting', label: 'Waiting for a person' },
  running: { tone: 'working', label: 'Running' },
  completed: { tone: 'done', label: 'Completed' },
  failed: { tone: 'failed', label: 'Failed' },
  denied: { tone: 'failed', label: 'Denied' },
  expired: { tone: 'ended', label: 'Expired' },
};

export function Part({ name, children }: { readonly name: string; readonly children: ReactNode }) {
  return (
    <div>
      <div className="text-xs text-muted">{name}</div>
      {children}
    </div>
  );
}

export function ToolDuration({
  started,
  settled,
  isLive,
}: {
  readonly started: ToolItem['started'];
  readonly settled: ToolItem['settled'];
  readonly isLive: boolean;
}) {
  const now = useNow();
  if (started === undefined) return null;
  const from = Date.parse(started.at);
  const measured =
    settled !== undefined && 'durationMs' in settled ? settled.durationMs : undefined;
  const to = settled === undefined ? (isLive ? now : undefined) : Date.parse(settled.at);
  if (measured === undefined && to === undefined) return null;
  return (
    <span className="text-xs text-muted">{formatDuration(measured ?? (to ?? from) - from)}</span>
  );
}

export function ToolResult({ settled }: { readonly settled: NonNullable<ToolItem['settled']> }) {
  switch (settled.type) {
    case 'tool.completed': {
      const { result, context } = settled;
      if (result === undefined && context === undefined) return null;
      return (
        <Part name="Result">
          {typeof result === 'string' || result === undefined ? (
            <div className="max-h-96 overflow-auto font-mono text-xs break-words whitespace-pre-wrap">
              <SafeText text={result ?? context ?? ''} />
            </div>
          ) : (
            <Json value={result} />
          )}
        </Part>
      );
    }
    case 'tool.failed':
      return (
        <p className="flex gap-1 text-failed">
          <CircleAlert aria-hidden size={14} className="mt-1 shrink-0" />
          <span className="min-w-0 break-words">
            <SafeText text={settled.error} />
          </span>
        </p>
      );
    case 'tool.denied':
      return (
        <p className="text-muted">
          Not run: {settled.status}
          {settled.reason === undefined ? '' : ', '}
          <SafeText text={settled.reason ?? ''} />
        </p>
      );
  }
}

export function Decision({
  answer,
  asked,
}: {
  readonly answer: NonNullable<ApprovalState['resolved']>;
  readonly asked: ApprovalState['requested'];
}) {
  const waited =
    asked === undefined
      ? ''
      : ` after ${formatDuration(Date.parse(answer.at) - Date.parse(asked.at))}`;
  const when = (
    <time dateTime={answer.at} title={formatDateTime(answer.at)} className="text-muted">
      {formatTime(answer.at)}
      {waited}
    </time>
  );
  if (answer.type !== 'approval.decided') {
    const status = answer.type === 'approval.expired' ? 'expired' : 'closed';
    return (
      <>
        <StatusBadge status={status} />
        {when}
      </>
    );
  }
  const { approved, by, reason, input, outcome, always } = answer;
  return (
    <>
      <StatusBadge status={approved ? 'approved' : 'denied'} />
      <span>
        by <SafeText text={by.owner ?? by.name} />
        {always === true ? ', always' : ''}
        {outcome === undefined ? '' : `, outcome: ${outcome}`}
        {input === undefined ? '' : ', with changed arguments'}
      </span>
      {when}
      {reason === undefined ? null : (
        <span className="basis-full pl-5 text-muted">
          “<SafeText text={reason} />”
        </span>
      )}
      {input === undefined || asked === undefined ? null : (
        <div className="basis-full pl-5">
          <ArgumentsDiff before={asked.params} after={input} />
        </div>
      )}
    </>
  );
}
