/**
 * The transcript of a run, folded from its journal.
 *
 * Nothing is overwritten: an item keeps the events that changed it, and a text the `seq` of each piece. So
 * one fold shows the run as it was at any `seq`: what is later is left out. Events are added in the order
 * of the journal, from its start or, for the end of a long one, from any later event.
 */
import type { EventOf, Message, MessageContent, Stored, StoredEvent } from '@relay/protocol/wire';
import { GrowingText, type Segment } from './growing-text.ts';

interface ItemBase {
  readonly key: string;
  /** The event that made it; the item is not part of the transcript before. */
  readonly seq: number;
  readonly agentId: string | undefined;
}

/** What the run was given, or a message that it received on the way. */
export interface MessageItem extends ItemBase {
  readonly kind: 'message';
  readonly role: Message['role'];
  readonly content: MessageContent;
  /** Who sent it, if it arrived while the run was going on. */
  readonly added: Stored<EventOf<'message.added'>> | undefined;
}

export interface TextItem extends ItemBase {
  readonly kind: 'text' | 'reasoning';
  readonly text: GrowingText;
  discarded: Stored<EventOf<'turn.discarded'>> | undefined;
  completed: Stored<EventOf<'turn.completed'>> | undefined;
}

export interface ApprovalState {
  readonly requested: Stored<EventOf<'approval.requested'>> | undefined;
  resolved: Stored<ResolvedEvent> | undefined;
}
type ResolvedEvent = EventOf<'approval.decided' | 'approval.expired' | 'approval.closed'>;
type SettledEvent = EventOf<'tool.completed' | 'tool.failed' | 'tool.denied'>;

export interface ToolItem extends ItemBase {
  readonly kind: 'tool';
  readonly name: string;
  called: Stored<EventOf<'tool.called'>> | undefined;
  started: Stored<EventOf<'tool.started'>> | undefined;
  readonly progress: Stored<EventOf<'tool.progressed'>>[];
  readonly approvals: ApprovalState[];
  settled: Stored<SettledEvent> | undefined;
}

/** A sub-agent, with what it did. */
export interface AgentItem extends ItemBase {
  readonly kind: 'agent';
  readonly agentId: string;
  readonly started: Stored<EventOf<'agent.started'>> | undefined;
  readonly items: Item[];
  ended: Stored<EventOf<'agent.ended'>> | undefined;
}

type NoteEvent = Extract<
  StoredEvent,
  {
    type:
      | 'agent.handed-off'
      | 'agent.switched'
      | 'limit.reached'
      | 'context.compacted'
      | 'memory.recalled'
      | 'turn.discarded'
      | 'run.errored'
      | 'run.ended';
  }
>;

/** Something that happened between messages and calls. */
export interface NoteItem extends ItemBase {
  readonly kind: 'note';
  readonly event: NoteEvent;
}

/** Instructions, and what came before the run. */
export interface StartItem extends ItemBase {
  readonly kind: 'start';
  readonly created: Stored<EventOf<'run.created'>>;
}

export type Item = StartItem | MessageItem | TextItem | ToolItem | AgentItem | NoteItem;

interface OpenTurn {
  readonly items: TextItem[];
}

export class Transcript {
  readonly items: Item[] = [];
  readonly #agents = new Map<string, AgentItem>();
  readonly #tools = new Map<string, ToolItem>();
  readonly #approvals = new Map<string, ApprovalState>();
  readonly #texts = new Map<string, TextItem>();
  readonly #turns = new Map<string, OpenTurn>();

  add(event: StoredEvent): void {
    switch (event.type) {
      case 'text.appended':
        return this.#append(event, 'text', event.textId);
      case 'reasoning.appended':
        return this.#append(event, 'reasoning', event.reasoningId);
      case 'run.created':
        return this.#create(event);
      case 'message.added': {
        const { seq, agentId, content } = event;
        const key = `m${seq}`;
        return this.#push({
          kind: 'message',
          key,
          seq,
          agentId,
          role: 'user',
          content,
          added: event,
        });
      }
      case 'agent.started':
        if (event.parentId !== undefined) this.#addAgent(event, event);
        return undefined;
      case 'agent.ended': {
        const agent = event.parentId === undefined ? undefined : this.#agentOf(event);
        if (agent !== undefined) agent.ended = event;
        return undefined;
      }
      case 'turn.started':
        return void this.#turns.set(event.agentId, { items: [] });
      case 'turn.completed': {
        for (const item of this.#turns.get(event.agentId)?.items ?? []) item.completed = event;
        return void this.#turns.delete(event.agentId);
      }
      case 'turn.discarded': {
        for (const item of this.#turns.get(event.agentId)?.items ?? []) item.discarded = event;
        this.#turns.delete(event.agentId);
        return this.#note(event, event.agentId);
      }
      case 'tool.called':
        return void (this.#tool(event, event.name).called = event);
      case 'tool.started':
        return void (this.#tool(event, event.name).started = event);
      case 'tool.progressed':
        return void this.#tool(event, event.name).progress.push(event);
      case 'tool.completed':
      case 'tool.failed':
      case 'tool.denied':
        return void (this.#tool(event, event.name).settled = event);
      case 'approval.requested': {
        const approval = { requested: event, resolved: undefined };
        this.#approvals.set(event.approvalId, approval);
        return void this.#tool(event, event.tool).approvals.push(approval);
      }
      case 'approval.decided':
      case 'approval.expired':
      case 'approval.closed':
        return this.#resolve(event);
      case 'agent.handed-off':
      case 'agent.switched':
      case 'limit.reached':
      case 'context.compacted':
      case 'memory.recalled':
        return this.#note(event, event.agentId);
      case 'run.errored':
      case 'run.ended':
        return this.#note(event, undefined);
      case 'run.started':
      case 'run.suspended':
      case 'run.resumed':
      case 'run.summarized':
      case 'memory.stored':
      case 'approval.expiring':
        return undefined;
    }
  }

  #create(created: Stored<EventOf<'run.created'>>): void {
    const { seq, messages } = created;
    this.#push({ kind: 'start', key: 'start', seq, agentId: undefined, created });
    for (const [index, { role, content }] of messages.entries()) {
      const key = `c${index}`;
      this.#push({
        kind: 'message',
        key,
        seq,
        agentId: undefined,
        role,
        content: content ?? '',
        added: undefined,
      });
    }
  }

  #append(
    event: Stored<EventOf<'text.appended' | 'reasoning.appended'>>,
    kind: TextItem['kind'],
    id: string,
  ): void {
    let item = this.#texts.get(id);
    if (item === undefined) {
      const { seq, agentId } = event;
      const text = new GrowingText();
      item = { kind, key: id, seq, agentId, text, discarded: undefined, completed: undefined };
      this.#texts.set(id, item);
      this.#turnOf(agentId).items.push(item);
      this.#push(item, event.parentId);
    }
    item.text.append(event.seq, event.text);
  }

  #turnOf(agentId: string): OpenTurn {
    let turn = this.#turns.get(agentId);
    if (turn === undefined) this.#turns.set(agentId, (turn = { items: [] }));
    return turn;
  }

  #tool(
    event: { seq: number; agentId: string; parentId?: string | undefined; toolCallId: string },
    name: string,
  ): ToolItem {
    const { seq, agentId, toolCallId } = event;
    let item = this.#tools.get(toolCallId);
    if (item === undefined) {
      const empty = { called: undefined, started: undefined, settled: undefined };
      const key = `t${toolCallId}`;
      item = { kind: 'tool', key, seq, agentId, name, ...empty, progress: [], approvals: [] };
      this.#tools.set(toolCallId, item);
      this.#push(item, event.parentId);
    }
    return item;
  }

  #resolve(event: Stored<ResolvedEvent>): void {
    let approval = this.#approvals.get(event.approvalId);
    if (approval === undefined) {
      // Its request is before the first event that was read.
      approval = { requested: undefined, resolved: undefined };
      this.#tools.get(event.toolCallId)?.approvals.push(approval);
    }
    approval.resolved = event;
  }

  #note(event: NoteEvent, agentId: string | undefined): void {
    const parentId = 'parentId' in event ? event.parentId : undefined;
    this.#push({ kind: 'note', key: `n${event.seq}`, seq: event.seq, agentId, event }, parentId);
  }

  #agentOf(event: { seq: number; agentId: string; parentId?: string | undefined }): AgentItem {
    return this.#agents.get(event.agentId) ?? this.#addAgent(event, undefined);
  }

  #addAgent(
    { seq, agentId, parentId }: { seq: number; agentId: string; parentId?: string | undefined },
    started: AgentItem['started'],
  ): AgentItem {
    const key = `a${agentId}`;
    const item: AgentItem = {
      kind: 'agent',
      key,
      seq,
      agentId,
      started,
      items: [],
      ended: undefined,
    };
    this.#agents.set(agentId, item);
    // The parent may be a sub-agent too; the root agent's items are the transcript itself.
    const parent = parentId === undefined ? undefined : this.#agents.get(parentId);
    (parent?.items ?? this.items).push(item);
    return item;
  }

  /** `parentId` is set for an item of a sub-agent. */
  #push(item: Item, parentId?: string): void {
    const { seq, agentId } = item;
    const isOfSubAgent = parentId !== undefined && agentId !== undefined;
    const items = isOfSubAgent ? this.#agentOf({ seq, agentId, parentId }).items : this.items;
    items.push(item);
  }
}

/** One line of the transcript as it is drawn: an item, or a part of a long text. */
export interface Row {
  readonly key: string;
  /** The number of agents around it. */
  readonly depth: number;
  readonly item: Item;
  readonly segment: Segment | undefined;
}

/** The transcript as it was at `seq`. A folded item, an agent or a long text, has one row. */
export function rowsAt(
  items: readonly Item[],
  seq: number,
  isFolded: (item: Item) => boolean = () => false,
): Row[] {
  const rows: Row[] = [];
  addRows(rows, { items, seq, depth: 0, isFolded });
  return rows;
}

function addRows(
  rows: Row[],
  scope: {
    readonly items: readonly Item[];
    readonly seq: number;
    readonly depth: number;
    readonly isFolded: (item: Item) => boolean;
  },
): void {
  const { items, seq, depth, isFolded } = scope;
  for (const item of items) {
    if (item.seq > seq) return;
    if (item.kind === 'text' || item.kind === 'reasoning') {
      const length = item.text.lengthAt(seq);
      for (const segment of item.text.segments) {
        if (segment.start >= length) break;
        rows.push({ key: `${item.key}.${segment.start}`, depth, item, segment });
        if (isFolded(item)) break;
      }
      continue;
    }
    rows.push({ key: item.key, depth, item, segment: undefined });
    if (item.kind === 'agent' && !isFolded(item)) {
      addRows(rows, { items: item.items, seq, depth: depth + 1, isFolded });
    }
  }
}

/** The text of a segment as it was at `seq`. */
export function segmentAt(text: GrowingText, segment: Segment, seq: number): string {
  const shown = text.lengthAt(seq) - segment.start;
  return shown >= segment.text.length ? segment.text : segment.text.slice(0, Math.max(0, shown));
}

/** An event if it had happened by `seq`. */
export function asOf<Event extends { readonly seq: number }>(
  event: Event | undefined,
  seq: number,
): Event | undefined {
  return event === undefined || event.seq > seq ? undefined : event;
}

export type ToolState =
  | 'called'
  | 'waiting'
  | 'running'
  | 'completed'
  | 'failed'
  | 'denied'
  | 'expired';

export function toolStateAt(item: ToolItem, seq: number): ToolState {
  const settled = asOf(item.settled, seq);
  if (settled?.type === 'tool.completed') return 'completed';
  if (settled?.type === 'tool.failed') return 'failed';
  if (settled?.type === 'tool.denied') return settled.status;
  const isWaiting = item.approvals.some(
    ({ requested, resolved }) =>
      (requested === undefined || requested.seq <= seq) && asOf(resolved, seq) === undefined,
  );
  if (isWaiting) return 'waiting';
  return asOf(item.started, seq) === undefined ? 'called' : 'running';
}
