/** A conversation as rows: the transcripts of its runs one after another, then what is being sent. */
import type { MessageContent, Run } from '@relay/protocol/wire';
import type { JournalState } from '../../transcript/journal.ts';
import { type Item, type Row, rowsAt } from '../../transcript/transcript.ts';
import type { Sent } from './outbox.ts';

interface RowBase {
  readonly key: string;
  readonly run: Run;
}

/** A part of a transcript. */
export interface ItemRow extends RowBase {
  readonly kind: 'item';
  readonly row: Row;
  readonly toggleKey: string;
  readonly isFolded: boolean;
  /** The agent whose words and calls begin here. */
  readonly speaker: string | undefined;
  /** The run goes on. */
  readonly isLive: boolean;
}

/** The end of a run: how it ended, or what it is doing. It is always there, so that nothing moves. */
export interface EndRow extends RowBase {
  readonly kind: 'end';
  readonly journal: JournalState;
  /** The agent that works or has answered. */
  readonly speaker: string;
  readonly isLast: boolean;
}

export interface SentRow {
  readonly kind: 'sent';
  readonly key: string;
  readonly sent: Sent;
  readonly isUnread: boolean;
}

export type ChatRow = ItemRow | EndRow | SentRow;

interface Conversation {
  /** Oldest first. */
  readonly runs: readonly Run[];
  readonly journals: ReadonlyMap<string, JournalState>;
  readonly sent: readonly Sent[];
  /** Items that are not as they are at first: calls and reasoning folded, sub-agents open. */
  readonly toggled: ReadonlySet<string>;
}

export function chatRows({ runs, journals, sent, toggled }: Conversation): ChatRow[] {
  const rows: ChatRow[] = [];
  for (const run of shownRuns(runs, journals)) {
    const journal = journals.get(run.id);
    if (journal === undefined) continue;
    const isLast = run === runs.at(-1);
    addRun(rows, { run, journal, isLast, toggled });
  }
  for (const each of sent) {
    if (isStored(each, runs, journals)) continue;
    rows.push({ kind: 'sent', key: each.key, sent: each, isUnread: isUnread(each, journals) });
  }
  return rows;
}

/**
 * Those that were read, back to the first that was not: older runs appear one above the other, never in
 * between. A new run does not hide the others before it was read.
 */
export function shownRuns(
  runs: readonly Run[],
  journals: ReadonlyMap<string, JournalState>,
): readonly Run[] {
  const isRead = ({ id }: Run) => hasEvents(journals.get(id));
  const newest = runs.findLastIndex(isRead);
  const missing = runs.slice(0, newest + 1).findLastIndex((run) => !isRead(run));
  return runs.slice(missing + 1).filter(isRead);
}

/** Whether a journal has the message. */
export function isStored(
  { to, runId, messageId, earlier }: Sent,
  runs: readonly Run[],
  journals: ReadonlyMap<string, JournalState>,
): boolean {
  if (to === undefined) {
    return runs.some(
      ({ id }) =>
        (runId === undefined ? !earlier.has(id) : id === runId) && hasEvents(journals.get(id)),
    );
  }
  const items = journals.get(to)?.fold.transcript.items ?? [];
  return items.some(
    (item) =>
      item.kind === 'message' && item.added !== undefined && item.added.messageId === messageId,
  );
}

/** Whether the run that a message was sent to has ended without reading it. */
export function isUnread(
  { to, messageId }: Sent,
  journals: ReadonlyMap<string, JournalState>,
): boolean {
  if (to === undefined || messageId === undefined) return false;
  const journal = journals.get(to);
  return isOver(journal) && journal?.isWhole === true;
}

/** By its journal: the list of runs may be older. */
export function isCanceled(
  runId: string | undefined,
  journals: ReadonlyMap<string, JournalState>,
): boolean {
  const last = journals.get(runId ?? '')?.fold.events.at(-1);
  return last?.type === 'run.ended' && last.status === 'canceled';
}

function hasEvents(journal: JournalState | undefined): boolean {
  return journal !== undefined && journal.fold.events.length > 0;
}

function isOver(journal: JournalState | undefined): boolean {
  return journal?.fold.timeline.isOver ?? false;
}

interface RunOptions {
  readonly run: Run;
  readonly journal: JournalState;
  readonly isLast: boolean;
  readonly toggled: ReadonlySet<string>;
}

function addRun(rows: ChatRow[], { run, journal, isLast, toggled }: RunOptions): void {
  const toggleKey = (item: Item) => `${run.id}.${item.key}`;
  const isFolded = (item: Item) =>
    isFoldable(item) && (item.kind === 'agent') === toggled.has(toggleKey(item));
  let speaker = run.agent;
  /** Whose words came last; undefined after a message of a person. */
  let last: string | undefined;
  for (const row of rowsAt(journal.fold.transcript.items, Infinity, isFolded)) {
    const { item } = row;
    if (item.kind === 'start') speaker = item.created.agent;
    if (item.kind === 'note' && item.event.type === 'agent.switched') speaker = item.event.name;
    if (!isShown(item)) continue;
    const isSpoken = item.kind === 'text' || item.kind === 'reasoning' || item.kind === 'tool';
    const isNew = row.depth === 0 && isSpoken && last !== speaker;
    if (item.kind === 'message') last = undefined;
    else if (isNew) last = speaker;
    rows.push({
      kind: 'item',
      key: `${run.id}.${row.key}`,
      run,
      row,
      toggleKey: toggleKey(item),
      isFolded: isFolded(item),
      speaker: isNew ? speaker : undefined,
      isLive: !isOver(journal),
    });
  }
  rows.push({ kind: 'end', key: `${run.id}.end`, run, journal, speaker, isLast });
}

function isFoldable({ kind }: Item): boolean {
  return kind === 'tool' || kind === 'reasoning' || kind === 'agent';
}

/** What a reader of a conversation does not miss: the run page has it. */
function isShown(item: Item): boolean {
  switch (item.kind) {
    case 'start':
      return false;
    case 'message':
      return item.role === 'user' || item.role === 'assistant';
    case 'tool':
      // A handoff that has worked has a line of its own.
      return item.name !== 'handoff' || item.settled?.type !== 'tool.completed';
    case 'note':
      return shownNotes.has(item.event.type);
    case 'text':
    case 'reasoning':
    case 'agent':
      return true;
  }
}

/** The end of a run has a row of its own, and discarded text says so itself. */
const shownNotes: ReadonlySet<string> = new Set([
  'agent.handed-off',
  'limit.reached',
  'context.compacted',
  'memory.recalled',
]);

/** The text of a message without its images and files. */
export function textOf(content: MessageContent): string {
  if (typeof content === 'string') return content;
  return content.map((part) => (part.type === 'text' ? part.text : '')).join('');
}

/** What a person wrote to start the run, to send it again. */
export function inputOf({ fold }: JournalState): MessageContent | undefined {
  const item = fold.transcript.items.findLast(
    (each) => each.kind === 'message' && each.role === 'user' && each.added === undefined,
  );
  return item?.kind === 'message' ? item.content : undefined;
}
