/** One row of a conversation. */
import type { EventOf, Run, Stored } from '@relay/protocol/wire';
import {
  ArrowRightLeft,
  Bot,
  ChevronDown,
  ChevronRight,
  CircleAlert,
  LoaderCircle,
  RotateCw,
  Wrench,
} from 'lucide-react';
import { type ReactNode, Suspense } from 'react';
import { Link } from 'wouter';
import { CallSummary } from '../../call/call-summary.tsx';
import { Markdown } from '../../text/markdown.tsx';
import { SafeText } from '../../text/safe-text.tsx';
import { discardReason, summaryOf, usageText } from '../../transcript/describe.ts';
import { Reasoning, Text } from '../../transcript/text-view.tsx';
import { Decision, ToolDuration, toolLooks, ToolResult } from '../../transcript/tool-view.tsx';
import {
  type AgentItem,
  type MessageItem,
  type NoteItem,
  segmentAt,
  type TextItem,
  type ToolItem,
  toolStateAt,
} from '../../transcript/transcript.ts';
import { Button } from '../../ui/button.tsx';
import { cx } from '../../ui/cx.ts';
import { lazyPart } from '../../ui/lazy-part.ts';
import { Loading } from '../../ui/notice.tsx';
import { toneText } from '../../ui/state.tsx';
import { formatDuration, formatTime } from '../../ui/values.tsx';
import { MessageBody } from './content.tsx';
import { removeSent, type Sent } from './outbox.ts';
import type { ChatRow, EndRow, ItemRow, SentRow } from './rows.ts';

const InlineApproval = lazyPart(
  async () => (await import('../inbox/inline-approval.tsx')).InlineApproval,
);
const CallView = lazyPart(async () => (await import('../../call/call-view.tsx')).CallView);

export interface RowActions {
  readonly toggle: (key: string) => void;
  /** Sends the input of a run again; undefined if that is not possible now. */
  readonly retry: ((run: Run) => void) | undefined;
  /** Sends a message again that did not arrive. */
  readonly resend: (sent: Sent) => void;
}

interface ChatRowProps {
  readonly row: ChatRow;
  readonly actions: RowActions;
}

export function ChatRowView({ row, actions }: ChatRowProps) {
  switch (row.kind) {
    case 'item':
      return <ItemView row={row} actions={actions} />;
    case 'end':
      return <End row={row} retry={actions.retry} />;
    case 'sent':
      return <SentView row={row} resend={actions.resend} />;
  }
}

/** Rows of sub-agents are set in; deeper ones than this no further, so that a phone can show them. */
const maxDepth = 3;

function ItemView({ row, actions }: { readonly row: ItemRow; readonly actions: RowActions }) {
  const { speaker, row: part } = row;
  const depth = Math.min(part.depth, maxDepth);
  return (
    <div className="py-1.5">
      {speaker === undefined ? null : <Speaker name={speaker} />}
      <div
        className={cx(depth > 0 && 'border-l-2 border-line pl-3')}
        style={{ marginLeft: depth === 0 ? 0 : (depth - 1) * 14 + 6 }}
      >
        <Content row={row} actions={actions} />
      </div>
    </div>
  );
}

function Speaker({ name }: { readonly name: string }) {
  return (
    <div className="mb-1 flex items-center gap-1.5 text-xs font-medium text-muted">
      <Bot aria-hidden size={14} />
      <SafeText text={name} maxLength={200} />
    </div>
  );
}

function Content({ row, actions }: { readonly row: ItemRow; readonly actions: RowActions }) {
  const { isLive, isFolded } = row;
  const { item, segment } = row.row;
  const onToggle = () => actions.toggle(row.toggleKey);
  switch (item.kind) {
    case 'message':
      return <Message item={item} />;
    case 'text':
      return segment === undefined ? null : (
        <Words item={item} isFirst={segment.start === 0}>
          <Text
            text={segmentAt(item.text, segment, Infinity)}
            fence={segment.fence}
            item={item}
            cursor={Infinity}
            isGrowing={isLive && segment === item.text.segments.at(-1)}
          />
        </Words>
      );
    case 'reasoning':
      return (
        <Reasoning
          item={item}
          text={segment === undefined ? '' : segmentAt(item.text, segment, Infinity)}
          isFirst={segment === undefined || segment.start === 0}
          cursor={Infinity}
          isFolded={isFolded}
          onToggle={onToggle}
        />
      );
    case 'tool':
      return <Tool item={item} isLive={isLive} isOpen={!isFolded} onToggle={onToggle} />;
    case 'agent':
      return <Agent item={item} isFolded={isFolded} onToggle={onToggle} />;
    case 'note':
      return <Note item={item} />;
    case 'start':
      return null;
  }
}

const bubble = 'ml-auto w-fit max-w-[85%] rounded border border-line bg-surface px-3 py-2';

function Message({ item }: { readonly item: MessageItem }) {
  const { role, content, added } = item;
  if (role === 'assistant') {
    return <Markdown text={typeof content === 'string' ? content : ''} />;
  }
  return (
    <div className="flex flex-col items-end gap-0.5" data-message="user">
      <div className={bubble}>
        <MessageBody content={content} />
      </div>
      {added === undefined ? null : (
        <span className="text-xs text-muted">
          <SafeText text={added.from.name} maxLength={200} />, read at {formatTime(added.at)}
        </span>
      )}
    </div>
  );
}

/** Text that was discarded is folded away: what replaced it follows. */
function Words({
  item: { discarded, text },
  isFirst,
  children,
}: {
  readonly item: TextItem;
  readonly isFirst: boolean;
  readonly children: ReactNode;
}) {
  if (discarded === undefined) return children;
  if (!isFirst) return null;
  return (
    <details className="text-xs text-muted">
      <summary>Discarded: {discardReason(discarded.reason)}</summary>
      <del className="mt-1 block break-words whitespace-pre-wrap text-faint">
        <SafeText text={text.segments.map((segment) => segment.text).join('')} />
      </del>
    </details>
  );
}

interface ToolProps {
  readonly item: ToolItem;
  readonly isLive: boolean;
  readonly isOpen: boolean;
  readonly onToggle: () => void;
}

function Tool({ item, isLive, isOpen, onToggle }: ToolProps) {
  const state = toolStateAt(item, Infinity);
  const { tone, label } = toolLooks[state];
  const { started, settled, called, approvals, progress } = item;
  const [asked] = approvals;
  const input = started?.input ?? called?.input ?? asked?.requested?.params;
  const open = isLive ? approvals.filter(({ resolved }) => resolved === undefined) : [];
  const Icon = isOpen ? ChevronDown : ChevronRight;
  const last = progress.at(-1);
  return (
    <div data-tool={item.name} className="flex min-w-0 flex-col gap-2">
      {/* A request shows the call itself. */}
      {open.length > 0 ? null : (
        <div className="min-w-0 rounded border border-line bg-surface">
          <button
            type="button"
            aria-expanded={isOpen}
            onClick={onToggle}
            className="flex min-h-9 w-full min-w-0 items-center gap-2 px-2.5 text-left text-sm pointer-coarse:min-h-11"
          >
            <Icon aria-hidden size={14} className="shrink-0 text-faint" />
            <Wrench aria-hidden size={14} className="shrink-0 text-muted" />
            <span className="min-w-0 flex-1">
              <CallSummary tool={item.name} params={input} />
            </span>
            <span className={cx('shrink-0 text-xs font-medium', toneText[tone])}>{label}</span>
            <ToolDuration
              started={started}
              settled={settled}
              isLive={isLive && state === 'running'}
            />
          </button>
          {isOpen ? (
            <div className="flex flex-col gap-3 border-t border-line p-3 text-sm">
              {input === undefined ? null : (
                <Suspense fallback={<Loading lines={2} />}>
                  <CallView tool={item.name} params={input} />
                </Suspense>
              )}
              {settled === undefined ? null : <ToolResult settled={settled} />}
            </div>
          ) : null}
          {settled === undefined && last !== undefined ? (
            <div className="truncate border-t border-line px-3 py-1 font-mono text-xs text-muted">
              <SafeText text={last.content} maxLength={300} />
            </div>
          ) : null}
        </div>
      )}
      {approvals.map(({ requested, resolved }, index) =>
        resolved === undefined ? null : (
          <div key={index} className="flex flex-wrap items-center gap-x-2 pl-2.5 text-xs">
            <Decision answer={resolved} asked={requested} />
          </div>
        ),
      )}
      {open.map(({ requested }) =>
        requested === undefined ? null : (
          <Suspense key={requested.approvalId} fallback={<Loading lines={3} />}>
            <InlineApproval id={requested.approvalId} />
          </Suspense>
        ),
      )}
    </div>
  );
}

interface AgentProps {
  readonly item: AgentItem;
  readonly isFolded: boolean;
  readonly onToggle: () => void;
}

function Agent({ item: { started, ended }, isFolded, onToggle }: AgentProps) {
  const Icon = isFolded ? ChevronRight : ChevronDown;
  return (
    <button
      type="button"
      aria-expanded={!isFolded}
      onClick={onToggle}
      className="flex min-h-9 w-full min-w-0 items-center gap-2 rounded border border-line bg-sunken px-2.5 text-left text-sm pointer-coarse:min-h-11"
    >
      <Icon aria-hidden size={14} className="shrink-0 text-faint" />
      <Bot aria-hidden size={14} className="shrink-0 text-muted" />
      <span className="shrink-0 font-medium">
        <SafeText text={started?.name ?? 'Sub-agent'} maxLength={200} />
      </span>
      <span className="min-w-0 flex-1 truncate text-xs text-muted">
        <SafeText text={started?.spawned?.task ?? ''} maxLength={300} />
      </span>
      <span className={cx('shrink-0 text-xs font-medium', toneText[agentTone(ended)])}>
        {ended === undefined ? 'Working' : agentEnds[ended.reason]}
      </span>
    </button>
  );
}

const agentEnds: Readonly<Record<EventOf<'agent.ended'>['reason'], string>> = {
  completed: 'Done',
  failed: 'Failed',
  canceled: 'Canceled',
  limit: 'Stopped at a limit',
};

function agentTone(ended: Stored<EventOf<'agent.ended'>> | undefined) {
  if (ended === undefined) return 'working';
  return ended.reason === 'completed' ? 'done' : ended.reason === 'failed' ? 'failed' : 'ended';
}

function Note({ item: { event } }: { readonly item: NoteItem }) {
  if (event.type === 'agent.handed-off') {
    return (
      <div className="flex items-center gap-2 text-sm text-muted">
        <span aria-hidden className="h-px flex-1 bg-line" />
        <ArrowRightLeft aria-hidden size={14} className="shrink-0" />
        <span className="min-w-0 break-words">
          <strong className="font-medium text-text">
            <SafeText text={event.from} maxLength={200} />
          </strong>{' '}
          handed off to{' '}
          <strong className="font-medium text-text">
            <SafeText text={event.to} maxLength={200} />
          </strong>
        </span>
        <span aria-hidden className="h-px flex-1 bg-line" />
      </div>
    );
  }
  return (
    <div className="text-xs text-muted">
      <SafeText text={summaryOf(event)} maxLength={600} />
    </div>
  );
}

interface EndProps {
  readonly row: EndRow;
  readonly retry: RowActions['retry'];
}

function End({ row, retry }: EndProps) {
  const { run, journal, speaker, isLast } = row;
  const { items } = journal.fold.transcript;
  const end = items.findLast((item) => item.kind === 'note' && item.event.type === 'run.ended');
  const ended = end?.kind === 'note' && end.event.type === 'run.ended' ? end.event : undefined;
  if (ended === undefined) {
    return (
      <div className="flex min-h-8 items-center gap-2 pb-2 text-xs text-muted">
        <Progress run={run} row={row} speaker={speaker} />
      </div>
    );
  }
  const failure = ended.error ?? errorOf(row);
  const duration = Date.parse(ended.at) - Date.parse(run.createdAt);
  const canRetry = isLast && retry !== undefined && ended.status !== 'completed';
  return (
    <div className="pb-4">
      {ended.status === 'failed' ? (
        <div
          role="alert"
          className="my-1 flex items-start gap-2 rounded bg-failed-soft p-3 text-sm text-failed"
        >
          <CircleAlert aria-hidden size={16} className="mt-0.5 shrink-0" />
          <div className="min-w-0 flex-1 break-words">
            <strong className="font-semibold">There is no answer.</strong>{' '}
            <SafeText text={failure?.message ?? 'The run failed.'} maxLength={1_000} />
          </div>
        </div>
      ) : null}
      <div className="flex min-h-8 flex-wrap items-center gap-x-3 gap-y-1 text-xs text-muted">
        {ended.status === 'canceled' ? <span>Stopped</span> : null}
        {ended.finishReason === undefined || ended.finishReason === 'stop' ? null : (
          <span className="text-waiting">The answer is not complete: {ended.finishReason}</span>
        )}
        <span>
          {usageText(ended.usage)} · {formatDuration(duration)} ·{' '}
          <SafeText text={run.model} maxLength={200} />
        </span>
        <Link
          href={`/runs/${run.id}`}
          className="underline-offset-2 hover:text-text hover:underline"
        >
          Details
        </Link>
        {canRetry ? (
          <Button size="sm" onClick={() => retry(run)}>
            <RotateCw aria-hidden size={12} /> Try again
          </Button>
        ) : null}
      </div>
    </div>
  );
}

function errorOf({ journal }: EndRow) {
  const item = journal.fold.transcript.items.findLast(
    (each) => each.kind === 'note' && each.event.type === 'run.errored',
  );
  return item?.kind === 'note' && item.event.type === 'run.errored' ? item.event.error : undefined;
}

/** What a run does that has not ended. */
function Progress({
  run,
  row,
  speaker,
}: {
  readonly run: Run;
  readonly row: EndRow;
  readonly speaker: string;
}) {
  // What it waits for is above.
  if (row.journal.fold.timeline.isSuspended) return null;
  return (
    <>
      <LoaderCircle aria-hidden size={12} className="animate-spin text-working" />
      <span>
        {run.status === 'queued' ? (
          'Waits until the server has room for another run'
        ) : (
          <>
            <SafeText text={speaker} maxLength={200} /> is working …
          </>
        )}
      </span>
    </>
  );
}

interface SentProps {
  readonly row: SentRow;
  readonly resend: (sent: Sent) => void;
}

function SentView({ row: { sent, isUnread }, resend }: SentProps) {
  const problem =
    sent.error ?? (isUnread ? 'The answer was complete before this was read.' : undefined);
  return (
    <div className="flex flex-col items-end gap-1 py-1.5" data-message="sending">
      <div className={cx(bubble, 'opacity-70')}>
        <MessageBody content={sent.content} />
      </div>
      {problem === undefined ? (
        <span role="status" className="text-xs text-muted">
          {sent.to === undefined || sent.messageId === undefined
            ? 'Sending …'
            : 'Sent: it is read after the present step'}
        </span>
      ) : (
        <span
          role="alert"
          className="flex flex-wrap items-center justify-end gap-2 text-xs text-failed"
        >
          <span className="min-w-0 break-words">
            {sent.error === undefined ? '' : 'Not sent: '}
            {problem}
          </span>
          <Button size="sm" onClick={() => resend(sent)}>
            Send again
          </Button>
          <Button size="sm" kind="quiet" onClick={() => removeSent([sent.key])}>
            Remove
          </Button>
        </span>
      )}
    </div>
  );
}
