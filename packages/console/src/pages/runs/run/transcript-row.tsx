/** One row of a transcript, drawn as it was at the cursor. */
import { defined, type EventOf, type Stored } from '@relay/protocol/wire';
import { Bot, ChevronDown, ChevronRight, CircleAlert, Hand, Wrench } from 'lucide-react';
import { memo, type ReactNode } from 'react';
import { Link } from 'wouter';
import { ArgumentsDiff } from '../../../call/arguments-diff.tsx';
import { CallView } from '../../../call/call-view.tsx';
import { Json } from '../../../text/json.tsx';
import { Markdown } from '../../../text/markdown.tsx';
import { SafeText } from '../../../text/safe-text.tsx';
import { Button } from '../../../ui/button.tsx';
import { cx } from '../../../ui/cx.ts';
import { Badge, StatusBadge, type Tone } from '../../../ui/state.tsx';
import {
  formatCount,
  formatDateTime,
  formatDuration,
  formatTime,
  useNow,
} from '../../../ui/values.tsx';
import { discardReason, shortContent, summaryOf, usageText } from './describe.ts';
import {
  type AgentItem,
  type ApprovalState,
  asOf,
  type MessageItem,
  type NoteItem,
  type Row,
  segmentAt,
  type StartItem,
  type TextItem,
  type ToolItem,
  type ToolState,
  toolStateAt,
} from './transcript.ts';

interface RowProps {
  readonly row: Row;
  readonly cursor: number;
  readonly isSelected: boolean;
  /** The run goes on, and the cursor is at its end. */
  readonly isLive: boolean;
  readonly isFolded: boolean;
  readonly onToggle: () => void;
  readonly onSelect: (seq: number) => void;
}

export function TranscriptRow(props: RowProps) {
  const { row, isSelected } = props;
  return (
    <div
      className={cx('px-4 py-1.5', isSelected && 'bg-selected')}
      style={{ paddingLeft: 16 + row.depth * 20 }}
    >
      <div className={cx(row.depth > 0 && 'border-l-2 border-line pl-3')}>
        <Content {...props} />
      </div>
    </div>
  );
}

function Content({ row, cursor, isLive, isFolded, onToggle, onSelect }: RowProps): ReactNode {
  const { item, segment } = row;
  switch (item.kind) {
    case 'start':
      return <Start item={item} />;
    case 'message':
      return <Message item={item} onSelect={onSelect} />;
    case 'text':
      return segment === undefined ? null : (
        <Text
          text={segmentAt(item.text, segment, cursor)}
          fence={segment.fence}
          item={item}
          cursor={cursor}
          isFirst={segment.start === 0}
          isGrowing={isLive && segment === item.text.segments.at(-1)}
        />
      );
    case 'reasoning':
      return (
        <Reasoning
          item={item}
          text={segment === undefined ? '' : segmentAt(item.text, segment, cursor)}
          isFirst={segment === undefined || segment.start === 0}
          cursor={cursor}
          isFolded={isFolded}
          onToggle={onToggle}
        />
      );
    case 'tool':
      return <Tool item={item} cursor={cursor} isLive={isLive} onSelect={onSelect} />;
    case 'agent':
      return <Agent item={item} cursor={cursor} isFolded={isFolded} onToggle={onToggle} />;
    case 'note':
      return <Note item={item} onSelect={onSelect} />;
  }
}

function Label({ children }: { readonly children: ReactNode }) {
  return <div className="mb-0.5 text-xs font-medium text-muted">{children}</div>;
}

function Start({ item: { created } }: { readonly item: StartItem }) {
  const { agent, model, tools, system, history, forkedFrom, labels } = created;
  const parts = [
    `${agent} with ${model}`,
    tools.length === 0 ? 'no tools' : `${tools.length} ${tools.length === 1 ? 'tool' : 'tools'}`,
    ...(history === null || history === 0
      ? []
      : [`after ${history} earlier ${history === 1 ? 'run' : 'runs'} of the conversation`]),
    ...Object.entries(labels).map(([name, value]) => `${name}: ${value}`),
  ];
  return (
    <div className="text-xs text-muted">
      <SafeText text={parts.join(' · ')} />
      {forkedFrom === undefined ? null : (
        <>
          {' · '}
          <Link href={`/runs/${forkedFrom.runId}?seq=${forkedFrom.seq}`} className="underline">
            forked at event {forkedFrom.seq} of another run
          </Link>
        </>
      )}
      {system === undefined ? null : (
        <details className="mt-1">
          <summary>Instructions, {formatCount(system.length)} characters</summary>
          <div className="mt-1 rounded border border-line bg-surface p-2 break-words whitespace-pre-wrap">
            <SafeText text={system} />
          </div>
        </details>
      )}
    </div>
  );
}

const roles: Readonly<Record<MessageItem['role'], string>> = {
  user: 'User',
  assistant: 'Assistant, earlier',
  system: 'Instructions',
  tool: 'Tool result, earlier',
};

function Message({
  item,
  onSelect,
}: {
  readonly item: MessageItem;
  readonly onSelect: (seq: number) => void;
}) {
  const { added } = item;
  return (
    <div className="max-w-[72ch]">
      <Label>
        {added === undefined ? (
          roles[item.role]
        ) : (
          <button type="button" onClick={() => onSelect(item.seq)}>
            Message that arrived at {formatTime(added.at)}
          </button>
        )}
      </Label>
      <div className="rounded border border-line bg-surface px-3 py-2 text-base break-words whitespace-pre-wrap">
        <SafeText text={shortContent(item.content)} />
      </div>
    </div>
  );
}

const MarkdownOnce = memo(Markdown);

interface TextProps {
  readonly text: string;
  readonly fence: string | undefined;
  readonly item: TextItem;
  readonly cursor: number;
  readonly isFirst: boolean;
  readonly isGrowing: boolean;
}

function Text({ text, fence, item, cursor, isFirst, isGrowing }: TextProps) {
  const discarded = asOf(item.discarded, cursor);
  const isOpen = isGrowing && item.completed === undefined && discarded === undefined;
  const shown = fence === undefined ? text : `${fence}\n${text}`;
  if (discarded === undefined) {
    return (
      <div className="max-w-[80ch] text-base" aria-live={isOpen ? 'off' : undefined}>
        <MarkdownOnce text={shown} isStreaming={isOpen} />
        {isOpen ? (
          <span
            aria-hidden
            className="inline-block h-4 w-1.5 animate-pulse bg-working align-text-bottom"
          />
        ) : null}
      </div>
    );
  }
  return (
    <div className="max-w-[80ch] text-base">
      {isFirst ? (
        <Label>
          <span className="text-failed">Discarded: {discardReason(discarded.reason)}</span>
        </Label>
      ) : null}
      <del className="block text-faint line-through">
        <MarkdownOnce text={shown} />
      </del>
    </div>
  );
}

function Reasoning({
  item,
  text,
  isFirst,
  cursor,
  isFolded,
  onToggle,
}: {
  readonly item: TextItem;
  readonly text: string;
  readonly isFirst: boolean;
  readonly cursor: number;
  readonly isFolded: boolean;
  readonly onToggle: () => void;
}) {
  const Icon = isFolded ? ChevronRight : ChevronDown;
  const isDiscarded = asOf(item.discarded, cursor) !== undefined;
  return (
    <div className="max-w-[80ch]">
      {isFirst ? (
        <button
          type="button"
          aria-expanded={!isFolded}
          onClick={onToggle}
          className="flex items-center gap-1 text-xs text-muted hover:text-text"
        >
          <Icon aria-hidden size={12} />
          Reasoning{isDiscarded ? ', discarded' : ''}, {formatCount(item.text.lengthAt(cursor))}{' '}
          characters
        </button>
      ) : null}
      {isFolded ? null : (
        <div
          className={cx(
            'mt-1 border-l-2 border-line pl-3 text-sm break-words whitespace-pre-wrap text-muted',
            isDiscarded && 'line-through',
          )}
        >
          <SafeText text={text} maxLength={20_000} />
        </div>
      )}
    </div>
  );
}

const toolLooks: Readonly<Record<ToolState, { readonly tone: Tone; readonly label: string }>> = {
  called: { tone: 'ended', label: 'Called' },
  waiting: { tone: 'waiting', label: 'Waiting for a person' },
  running: { tone: 'working', label: 'Running' },
  completed: { tone: 'done', label: 'Completed' },
  failed: { tone: 'failed', label: 'Failed' },
  denied: { tone: 'failed', label: 'Denied' },
  expired: { tone: 'ended', label: 'Expired' },
};

function Tool({
  item,
  cursor,
  isLive,
  onSelect,
}: {
  readonly item: ToolItem;
  readonly cursor: number;
  readonly isLive: boolean;
  readonly onSelect: (seq: number) => void;
}) {
  const state = toolStateAt(item, cursor);
  const { tone, label } = toolLooks[state];
  const started = asOf(item.started, cursor);
  const settled = asOf(item.settled, cursor);
  const progress = item.progress.findLast(({ seq }) => seq <= cursor);
  const asked = item.approvals.find(({ requested }) => asOf(requested, cursor))?.requested;
  const input = started?.input ?? item.called?.input ?? item.approvals[0]?.requested?.params;
  return (
    <div className="max-w-[100ch] rounded border border-line bg-surface">
      <div className="flex min-h-9 flex-wrap items-center gap-2 px-3 py-1">
        <Wrench aria-hidden size={14} className="text-muted" />
        <button
          type="button"
          className="font-mono text-sm font-medium hover:underline"
          onClick={() => onSelect((settled ?? started ?? item).seq)}
        >
          {item.name}
        </button>
        <Badge tone={tone}>{label}</Badge>
        <ToolDuration started={started} settled={settled} isLive={isLive && state === 'running'} />
      </div>
      <div className="flex flex-col gap-2 border-t border-line px-3 py-2 text-sm">
        {input === undefined ? null : (
          <CallView
            tool={item.name}
            params={input}
            {...defined({ preview: asked?.preview, resolvedPaths: asked?.resolvedPaths })}
          />
        )}
        {item.approvals.map((approval, index) => (
          <Approval key={index} approval={approval} cursor={cursor} onSelect={onSelect} />
        ))}
        {settled === undefined && progress !== undefined ? (
          <Part name="Progress">
            <div className="font-mono text-xs break-words whitespace-pre-wrap">
              <SafeText text={progress.content} />
            </div>
          </Part>
        ) : null}
        {settled === undefined ? null : <ToolResult settled={settled} />}
      </div>
    </div>
  );
}

function Part({ name, children }: { readonly name: string; readonly children: ReactNode }) {
  return (
    <div>
      <div className="text-xs text-muted">{name}</div>
      {children}
    </div>
  );
}

function ToolDuration({
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

function ToolResult({ settled }: { readonly settled: NonNullable<ToolItem['settled']> }) {
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

function Approval({
  approval: { requested, resolved },
  cursor,
  onSelect,
}: {
  readonly approval: ApprovalState;
  readonly cursor: number;
  readonly onSelect: (seq: number) => void;
}) {
  const asked = asOf(requested, cursor);
  const answer = asOf(resolved, cursor);
  if (asked === undefined && answer === undefined) return null;
  const seq = answer?.seq ?? asked?.seq ?? 0;
  const id = asked?.approvalId ?? answer?.approvalId ?? '';
  return (
    <div className="flex flex-wrap items-center gap-x-2 gap-y-1">
      <Hand aria-hidden size={14} className="text-waiting" />
      {asked?.question === undefined ? null : (
        <span>
          <SafeText text={asked.question.prompt} />
        </span>
      )}
      {answer === undefined ? (
        <span className="text-waiting">
          {asked?.kind === 'outcome'
            ? 'A person must say whether it took effect'
            : 'Waits for the decision of a person'}
        </span>
      ) : (
        <Decision answer={answer} asked={asked} />
      )}
      <Button kind="quiet" size="sm" onClick={() => onSelect(seq)}>
        Event
      </Button>
      <Link href={`/inbox/${id}`} className="text-xs text-muted underline">
        In the inbox
      </Link>
    </div>
  );
}

function Decision({
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

function Agent({
  item,
  cursor,
  isFolded,
  onToggle,
}: {
  readonly item: AgentItem;
  readonly cursor: number;
  readonly isFolded: boolean;
  readonly onToggle: () => void;
}) {
  const { started } = item;
  const ended = asOf(item.ended, cursor);
  const Icon = isFolded ? ChevronRight : ChevronDown;
  return (
    <div className="max-w-[100ch] rounded border border-line bg-sunken px-3 py-1.5">
      <button
        type="button"
        aria-expanded={!isFolded}
        onClick={onToggle}
        className="flex min-h-7 w-full items-center gap-2 text-left text-sm"
      >
        <Icon aria-hidden size={14} className="text-muted" />
        <Bot aria-hidden size={14} className="text-muted" />
        <span className="font-medium">{started?.name ?? 'Sub-agent'}</span>
        <Badge tone={ended === undefined ? 'working' : endTone(ended)}>
          {ended === undefined ? 'Working' : ended.reason}
        </Badge>
        {ended === undefined ? null : (
          <span className="truncate text-xs text-muted">{usageText(ended.usage)}</span>
        )}
      </button>
      {started?.spawned === undefined ? null : (
        <div className="pb-1 pl-6 text-sm break-words whitespace-pre-wrap text-muted">
          <SafeText text={started.spawned.task} maxLength={400} />
        </div>
      )}
    </div>
  );
}

function endTone({ reason }: Stored<EventOf<'agent.ended'>>): Tone {
  return reason === 'completed' ? 'done' : reason === 'failed' ? 'failed' : 'ended';
}

const badNotes = new Set(['run.errored', 'limit.reached', 'turn.discarded']);

function Note({
  item: { event, seq },
  onSelect,
}: {
  readonly item: NoteItem;
  readonly onSelect: (seq: number) => void;
}) {
  if (event.type === 'run.ended') {
    return (
      <div className="flex items-center gap-2 border-t border-line pt-2 text-xs text-muted">
        <StatusBadge status={event.status} />
        {formatDateTime(event.at)} · {usageText(event.usage)}
        {event.finishReason === undefined || event.finishReason === 'stop'
          ? ''
          : ` · the answer is not complete: ${event.finishReason}`}
      </div>
    );
  }
  return (
    <div className={cx('text-xs', badNotes.has(event.type) ? 'text-failed' : 'text-muted')}>
      <button type="button" className="text-left hover:underline" onClick={() => onSelect(seq)}>
        <SafeText text={summaryOf(event)} maxLength={600} />
      </button>
      {event.type === 'context.compacted' ? (
        <details>
          <summary>Summary that the model reads instead</summary>
          <div className="mt-1 rounded border border-line bg-surface p-2 text-sm break-words whitespace-pre-wrap text-text">
            <SafeText text={event.summary} />
          </div>
        </details>
      ) : null}
      {event.type === 'memory.recalled' ? (
        <details>
          <summary>What was recalled</summary>
          <ul className="mt-1 list-disc pl-5 text-text">
            {event.memories.map(({ id, text }) => (
              <li key={id}>
                <SafeText text={text} maxLength={400} />
              </li>
            ))}
          </ul>
        </details>
      ) : null}
    </div>
  );
}
