/** One row of a transcript, drawn as it was at the cursor. */
import { defined, type EventOf, type Stored } from '@relay/protocol/wire';
import { Bot, ChevronDown, ChevronRight, Hand, Wrench } from 'lucide-react';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { CallView } from '../../../call/call-view.tsx';
import { SafeText } from '../../../text/safe-text.tsx';
import { shortContent, summaryOf, usageText } from '../../../transcript/describe.ts';
import { Label, Reasoning, Text } from '../../../transcript/text-view.tsx';
import {
  Decision,
  Part,
  ToolDuration,
  toolLooks,
  ToolResult,
} from '../../../transcript/tool-view.tsx';
import {
  type AgentItem,
  type ApprovalState,
  asOf,
  type MessageItem,
  type NoteItem,
  type Row,
  segmentAt,
  type StartItem,
  type ToolItem,
  toolStateAt,
} from '../../../transcript/transcript.ts';
import { Button } from '../../../ui/button.tsx';
import { cx } from '../../../ui/cx.ts';
import { Badge, StatusBadge, type Tone } from '../../../ui/state.tsx';
import { formatCount, formatDateTime, formatTime } from '../../../ui/values.tsx';

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
