/** Messages in and out of a session, and what its agent says and does in between. */
import type { Approval, Delivery, Session, SessionMessage } from '@relay/sdk';
import { ChevronRight, FileDiff, Wrench } from 'lucide-react';
import { useMemo, useState } from 'react';
import { Link } from 'wouter';
import { useMay } from '../../../api/account.tsx';
import { queries } from '../../../api/queries.ts';
import { CallSummary } from '../../../call/call-summary.tsx';
import { CallView } from '../../../call/call-view.tsx';
import { Json } from '../../../text/json.tsx';
import { Markdown } from '../../../text/markdown.tsx';
import { SafeText } from '../../../text/safe-text.tsx';
import { Button } from '../../../ui/button.tsx';
import { cx } from '../../../ui/cx.ts';
import { Empty, ErrorNotice, errorText, Loading } from '../../../ui/notice.tsx';
import { lookOf, toneText } from '../../../ui/state.tsx';
import { formatDuration, Time } from '../../../ui/values.tsx';
import { hasTerminal, whyNoMessage } from '../abilities.ts';
import { Composer } from '../messages/composer.tsx';
import type { Journal } from './journal.ts';
import { useLiveText } from './live-text.ts';
import { MessageView } from '../messages/message.tsx';
import {
  useDeliveries,
  useMessage,
  usePendingApprovals,
  useSessionMessages,
} from './session-data.ts';
import { TailList } from '../../../ui/tail-list.tsx';
import { DeliveryReceipt } from '../messages/ticks.tsx';
import { type TimelineItem, timelineOf } from './timeline.ts';

interface ConversationProps {
  readonly session: Session;
  readonly journal: Journal;
}

type Shown = TimelineItem | { readonly kind: 'live'; readonly text: string; readonly seq: number };

export function Conversation({ session, journal }: ConversationProps) {
  const mayRun = useMay('runs');
  const [replyTo, setReplyTo] = useState<SessionMessage>();
  const messages = useSessionMessages(session);
  const deliveries = useDeliveries(session.id);
  const approvals = usePendingApprovals(session.id);
  const live = useLiveText(session.activeRunId);
  const timeline = useMemo(
    () => timelineOf(journal.events, (id) => messages.get(id)?.text),
    [journal.events, messages],
  );
  const before = useMemo(() => messagesBefore(timeline), [timeline]);
  const shown = useMemo((): readonly Shown[] => {
    // The journal may have the answer already.
    const isStored = timeline
      .slice(-4)
      .some((item) => saidIn(item, messages)?.trim().startsWith(live.trim()) === true);
    return live === '' || isStored
      ? timeline
      : [...timeline, { kind: 'live', text: live, seq: Infinity }];
  }, [timeline, live, messages]);

  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <div className="min-h-0 flex-1">
        {journal.events.length === 0 && journal.isLoading ? <Loading /> : null}
        {shown.length === 0 && journal.error !== undefined ? <Older journal={journal} /> : null}
        {shown.length === 0 && !journal.isLoading && journal.error === undefined ? (
          <Empty title="Nothing was said yet">
            Write a message below. The session answers here.
            {session.model === 'demo' ? (
              <>
                {' '}
                Try <code className="font-mono">calculate 23*47</code>, or{' '}
                <code className="font-mono">notify hello</code>, which asks for approval.
              </>
            ) : null}
          </Empty>
        ) : (
          <TailList
            label="Conversation"
            items={shown}
            keyOf={({ seq }) => seq}
            top={<Older journal={journal} />}
          >
            {(item) => (
              <div className="mx-auto max-w-[860px] px-4 py-1.5">
                <Item
                  item={item}
                  before={before.get(item.seq)}
                  session={session}
                  messages={messages}
                  deliveries={deliveries}
                  approvals={approvals}
                  onReply={mayRun ? setReplyTo : undefined}
                />
              </div>
            )}
          </TailList>
        )}
      </div>
      <div className="mx-auto w-full max-w-[860px]">
        <Composer
          to={`@${session.identity.handle}`}
          isFirst
          session={session}
          disabledReason={whyNoMessage(session, mayRun)}
          replyTo={replyTo}
          onReplied={() => setReplyTo(undefined)}
          onSent={(message) => {
            queries.setQueryData(['message', message.id], message);
            void queries.invalidateQueries({ queryKey: ['session-messages', session.id] });
          }}
        />
      </div>
    </div>
  );
}

function saidIn(item: TimelineItem, messages: ReadonlyMap<string, SessionMessage>) {
  if (item.kind === 'text') return item.text;
  if (item.kind !== 'message' || item.direction === 'in') return undefined;
  return messages.get(item.messageId)?.text;
}

/** The message above each message, by `seq`. */
function messagesBefore(timeline: readonly TimelineItem[]): ReadonlyMap<number, string> {
  const before = new Map<number, string>();
  let last: string | undefined;
  for (const item of timeline) {
    if (item.kind !== 'message') continue;
    if (last !== undefined) before.set(item.seq, last);
    last = item.messageId;
  }
  return before;
}

export function Older({ journal }: { readonly journal: Journal }) {
  if (journal.error !== undefined) {
    return (
      <ErrorNotice
        title="The journal could not be read"
        error={journal.error}
        onRetry={journal.retry}
      />
    );
  }
  if (journal.isComplete || journal.events.length === 0) return <div className="h-3" />;
  return (
    <div className="flex justify-center p-3">
      <Button size="sm" disabled={journal.isLoading} onClick={() => journal.loadOlder()}>
        Load older events
      </Button>
    </div>
  );
}

interface ItemProps {
  readonly item: Shown;
  readonly before: string | undefined;
  readonly session: Session;
  readonly messages: ReadonlyMap<string, SessionMessage>;
  readonly deliveries: ReadonlyMap<string, Delivery>;
  readonly approvals: readonly Approval[];
  readonly onReply: ((message: SessionMessage) => void) | undefined;
}

function Item({ item, before, session, messages, deliveries, approvals, onReply }: ItemProps) {
  switch (item.kind) {
    case 'message':
      return (
        <MessageItem
          id={item.messageId}
          before={before}
          direction={item.direction}
          session={session}
          messages={messages}
          delivery={deliveries.get(item.messageId)}
          onReply={onReply}
        />
      );
    case 'live':
      return (
        <div aria-busy className="px-3 py-1">
          <Markdown text={item.text} isStreaming />
        </div>
      );
    case 'text':
      return (
        <div className={cx('px-3 py-1', item.isThought && 'text-muted italic')}>
          {item.role === 'agent' && !item.isThought ? null : (
            <div className="text-xs text-muted not-italic">
              {item.isThought ? 'Thinks' : item.role}
            </div>
          )}
          <Markdown text={item.text} />
        </div>
      );
    case 'call':
      return <Call item={item} approval={approvals.find(({ tool }) => tool === item.tool)} />;
    case 'file':
      return (
        <Link
          href={`/sessions/${session.id}?tab=files&file=${encodeURIComponent(item.path)}`}
          className="flex items-center gap-2 px-3 text-sm text-muted hover:text-text"
        >
          <FileDiff aria-hidden size={14} className="shrink-0" />
          <span className="truncate font-mono text-xs">
            {item.operation} <SafeText text={item.path} />
          </span>
        </Link>
      );
    case 'note':
      return (
        <div
          className={cx(
            'flex flex-wrap items-baseline gap-x-2 px-3 text-xs break-words',
            item.tone === 'failed' ? 'text-failed' : 'text-muted',
          )}
        >
          <SafeText text={item.text} />
          <Time at={item.at} />
        </div>
      );
  }
}

interface MessageItemProps {
  readonly id: string;
  /** The message above it: that a message replies to it goes without saying. */
  readonly before: string | undefined;
  readonly direction: 'in' | 'out';
  readonly session: Session;
  readonly messages: ReadonlyMap<string, SessionMessage>;
  readonly delivery: Delivery | undefined;
  readonly onReply: ((message: SessionMessage) => void) | undefined;
}

function MessageItem(props: MessageItemProps) {
  const { id, before, direction, session, messages, delivery, onReply } = props;
  const { message, error } = useMessage(id, messages.get(id));
  if (message === undefined) {
    return (
      <div className="min-h-16 rounded border border-line px-3 py-2 text-sm text-muted">
        {error === null ? 'Loading the message …' : `The message: ${errorText(error)}`}
      </div>
    );
  }
  const known = delivery ?? message.deliveries.find(({ sessionId }) => sessionId === session.id);
  return (
    <MessageView
      message={message}
      direction={direction}
      impliedTo={direction === 'in' ? `@${session.identity.handle}` : ''}
      repliesTo={
        message.replyTo === undefined || message.replyTo === before
          ? undefined
          : messages.get(message.replyTo)
      }
      onReply={onReply === undefined ? undefined : () => onReply(message)}
    >
      {direction === 'in' && known !== undefined ? (
        <DeliveryReceipt delivery={known} isTerminal={hasTerminal(session)} />
      ) : null}
      {direction === 'out'
        ? message.deliveries.map((each) => (
            <span key={each.id} className="inline-flex items-center gap-1 text-xs text-muted">
              @{each.handle} <DeliveryReceipt delivery={each} />
            </span>
          ))
        : null}
    </MessageView>
  );
}

interface CallProps {
  readonly item: Extract<TimelineItem, { kind: 'call' }>;
  /** That the call may wait for. */
  readonly approval: Approval | undefined;
}

function Call({ item, approval }: CallProps) {
  const [isOpen, setOpen] = useState(false);
  const waitsFor = item.state === 'running' ? approval : undefined;
  const { tone, icon: Icon, label } = lookOf(waitsFor === undefined ? item.state : 'waiting');
  return (
    <details
      className="group/call rounded border border-line bg-surface text-sm"
      onToggle={(event) => setOpen(event.currentTarget.open)}
    >
      <summary className="flex min-h-9 items-center gap-2 px-3 pointer-coarse:min-h-11 [&::-webkit-details-marker]:hidden">
        <ChevronRight
          aria-hidden
          size={14}
          className="shrink-0 text-faint group-open/call:rotate-90"
        />
        <Wrench aria-hidden size={14} className="shrink-0 text-muted" />
        <span className="min-w-0 flex-1">
          <CallSummary tool={item.tool} params={item.input ?? {}} />
        </span>
        <span className={cx('flex shrink-0 items-center gap-1 text-xs', toneText[tone])}>
          <Icon aria-hidden size={12} /> {label}
          {item.durationMs === undefined ? null : `, ${formatDuration(item.durationMs)}`}
        </span>
      </summary>
      {isOpen ? (
        <div className="flex flex-col gap-2 border-t border-line p-3">
          {waitsFor === undefined ? null : (
            <Link href={`/inbox/${waitsFor.id}`} className="underline">
              Decide on it in the inbox
            </Link>
          )}
          {item.input === undefined ? null : <CallView tool={item.tool} params={item.input} />}
          {item.state === 'running' ? null : (
            <>
              <h3 className="text-xs font-medium text-muted">
                {item.state === 'failed' ? 'Error' : 'Output'}
              </h3>
              <Json value={item.result ?? null} />
            </>
          )}
        </div>
      ) : null}
    </details>
  );
}
