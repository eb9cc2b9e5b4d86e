/** One event: in words first, then as it is stored. */
import { defined, type StoredEvent } from '@relay/protocol/wire';
import { ChevronLeft, ChevronRight } from 'lucide-react';
import { memo, type ReactNode } from 'react';
import { Link } from 'wouter';
import { CallView } from '../../../call/call-view.tsx';
import { Json } from '../../../text/json.tsx';
import { SafeText } from '../../../text/safe-text.tsx';
import { Button, IconButton } from '../../../ui/button.tsx';
import { formatCount, formatDateTime, formatDuration } from '../../../ui/values.tsx';
import { discardReason, shortContent, summaryOf, usageText } from '../../../transcript/describe.ts';
import type { PaneProps } from './run-page.tsx';

export const EventPane = memo(function EventPane({
  journal,
  cursor,
  selected,
  moveTo,
  select,
}: PaneProps) {
  const { fold } = journal;
  const event = fold.at(selected);
  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <div className="flex min-h-10 items-center gap-1 border-b border-line pr-1 pl-3">
        <h2 className="min-w-0 flex-1 truncate text-sm font-semibold">
          {event === undefined ? 'Event' : event.type}
          <span className="ml-2 font-normal text-muted">{formatCount(selected)}</span>
        </h2>
        {event !== undefined && selected !== cursor ? (
          <Button size="sm" onClick={() => moveTo(selected)}>
            Show the run at this point
          </Button>
        ) : null}
        <IconButton
          label="Previous event (k)"
          disabled={selected <= fold.firstSeq}
          onClick={() => select(selected - 1)}
        >
          <ChevronLeft aria-hidden size={16} />
        </IconButton>
        <IconButton
          label="Next event (j)"
          disabled={selected >= journal.lastSeq}
          onClick={() => select(selected + 1)}
        >
          <ChevronRight aria-hidden size={16} />
        </IconButton>
      </div>
      {event === undefined ? (
        <p className="p-4 text-sm text-muted">This event is being read.</p>
      ) : (
        <div className="min-h-0 flex-1 overflow-y-auto p-3">
          <p className="text-sm break-words">
            <SafeText text={summaryOf(event)} maxLength={600} />
          </p>
          <p className="mt-1 text-xs text-muted">
            {formatDateTime(event.at)}
            {sincePrevious(fold.at(selected - 1), event)}
          </p>
          <Facts event={event} />
          <h3 className="mt-3 border-t border-line pt-2 text-xs font-semibold text-muted">
            As it is stored
          </h3>
          <Json value={event} />
        </div>
      )}
    </div>
  );
});

function sincePrevious(previous: StoredEvent | undefined, event: StoredEvent): string {
  if (previous === undefined) return '';
  const ms = Date.parse(event.at) - Date.parse(previous.at);
  return ms < 1 ? '' : ` · ${formatDuration(ms)} after the previous event`;
}

/** What a reader looks for first. The rest is in the stored form below. */
function Facts({ event }: { readonly event: StoredEvent }) {
  const facts = factsOf(event);
  if (facts.length === 0) return null;
  return (
    <dl className="mt-3 grid grid-cols-[auto_minmax(0,1fr)] gap-x-3 gap-y-1 text-sm">
      {facts.map(([name, value]) => (
        <div key={name} className="contents">
          <dt className="text-muted">{name}</dt>
          <dd className="break-words">
            {typeof value === 'string' ? <SafeText text={value} maxLength={600} /> : value}
          </dd>
        </div>
      ))}
    </dl>
  );
}

function factsOf(event: StoredEvent): (readonly [string, ReactNode])[] {
  switch (event.type) {
    case 'run.created':
      return [
        ['Agent', event.agent],
        ['Model', event.model],
        ['Tools', event.tools.join(', ') || 'none'],
        ['At most', `${event.maxIterations} turns`],
      ];
    case 'tool.called':
    case 'tool.started':
      return [
        ['Tool', event.name],
        ['Input', <Json key="input" value={event.input} />],
      ];
    case 'tool.completed':
      return [
        ['Tool', event.name],
        ['Result', <Json key="result" value={event.result ?? event.context ?? null} />],
      ];
    case 'tool.failed':
      return [
        ['Tool', event.name],
        ['Error', event.error],
        ['Code', event.code],
      ];
    case 'tool.denied':
      return [
        ['Tool', event.name],
        ['Reason', event.reason ?? (event.rule === undefined ? 'none given' : 'a rule denies it')],
      ];
    case 'approval.requested':
      return [
        ['Tool', event.tool],
        ['Asked by', event.agentPath.join(' › ')],
        ['Expires', formatDateTime(event.expiresAt)],
        [
          'Approval',
          <Link key="link" href={`/inbox/${event.approvalId}`} className="underline">
            Open in the inbox
          </Link>,
        ],
        [
          'Call',
          <CallView
            key="call"
            tool={event.tool}
            params={event.params}
            {...defined({ preview: event.preview, resolvedPaths: event.resolvedPaths })}
          />,
        ],
      ];
    case 'approval.decided':
      return [
        ['By', event.by.owner ?? event.by.name],
        ['Reason', event.reason ?? 'none given'],
        ...(event.input === undefined
          ? []
          : [['Changed to', <Json key="input" value={event.input} />] as const]),
      ];
    case 'turn.completed':
      return [
        ['Usage', usageText(event.usage)],
        ['Model', event.responseModel ?? 'not named by the provider'],
      ];
    case 'turn.discarded':
      return [['Why', discardReason(event.reason)]];
    case 'agent.ended':
    case 'run.ended':
      return [
        ['Usage', usageText(event.usage)],
        ['Output', event.output ?? ''],
      ];
    case 'context.compacted':
      return [['Summary', event.summary]];
    case 'message.added':
      return [['Message', shortContent(event.content)]];
    case 'run.errored':
      return [
        ['Code', event.error.code],
        ['Can be retried', event.error.retryable ? 'yes' : 'no'],
      ];
    default:
      return [];
  }
}
