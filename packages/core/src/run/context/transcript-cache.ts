/**
 * A bounded cache of transcripts, because folding a long conversation for every turn would cost its
 * whole history. A hit costs the events added since, a miss reads the journals. An entry is always the
 * fold of a prefix of the journals (E4).
 */
import { type EventOf, type Message, RelayError, type StoredEvent } from '@relay/protocol';
import { readJournal } from '../../journal.ts';
import type { RunRef, TenantStore } from '../../ports/index.ts';
import { charsIn } from '../../runtime/memory-budget.ts';
import { emptyTranscript, foldTranscripts, noTranscripts, type Transcripts } from './transcript.ts';

interface Entry {
  readonly transcripts: Transcripts;
  /** The number of ended runs of a conversation, or the `seq` of a run, that are folded. */
  readonly upTo: number;
  /** The last run of a conversation. Once it is pruned, the entry is invalid. */
  readonly lastRunId?: string;
}

export interface RunToTranscribe {
  readonly id: string;
  readonly spec: EventOf<'run.created'>;
}

function runKey(tenantId: string, runId: string): string {
  return `${tenantId}/run/${runId}`;
}

/** Called before journals of this size, in characters, are read. */
export type Reserve = (chars: number) => Promise<void>;

const noReserve: Reserve = () => Promise.resolve();

export interface CacheBounds {
  readonly entries: number;
  /** Of text, images and files in all entries together. */
  readonly chars: number;
}

export class TranscriptCache {
  readonly #entries = new Map<string, Entry & { readonly size: number }>();
  readonly #bounds: CacheBounds;
  readonly #sizes = new WeakMap<Message, number>();
  #size = 0;

  constructor(bounds: Partial<CacheBounds> = {}) {
    // A thousand sessions that take turns are all kept: each miss reads the journals of all turns before.
    this.#bounds = { entries: 2_048, chars: 32 * 1024 * 1024, ...bounds };
  }

  /** The transcripts of a run up to `seq`, including the conversation before it. */
  async ofRun(
    store: TenantStore,
    run: RunToTranscribe,
    seq: number,
    reserve: Reserve = noReserve,
  ): Promise<Transcripts> {
    const known = this.#entries.get(runKey(store.tenantId, run.id));
    if (known !== undefined && known.upTo <= seq) {
      return foldRun(store, run.id, { ...known, to: seq });
    }
    const before = await this.#withSource(
      store,
      run.spec,
      await this.#before(store, run.spec, reserve),
    );
    const transcripts = foldTranscripts(before, [run.spec]);
    return foldRun(store, run.id, { transcripts, upTo: 1, to: seq });
  }

  /** A suspended run will probably be resumed on this node. */
  put(ref: RunRef, transcripts: Transcripts, seq: number): void {
    this.#keep(runKey(ref.tenantId, ref.runId), { transcripts, upTo: seq });
  }

  /** The `seq` up to which the transcripts of a run are cached; 0 if they are not. */
  endOf({ tenantId, runId }: RunRef): number {
    return this.#entries.get(runKey(tenantId, runId))?.upTo ?? 0;
  }

  evict(ref: RunRef): void {
    this.#drop(runKey(ref.tenantId, ref.runId));
  }

  async #before(
    store: TenantStore,
    spec: EventOf<'run.created'>,
    reserve: Reserve,
  ): Promise<Transcripts> {
    const { conversationId, history: count } = spec;
    if (count === null || count === 0) return noTranscripts;
    const key = `${store.tenantId}/conversation/${conversationId}`;
    const known = await this.#kept(store, { key, conversationId, count });
    const span = { after: known.upTo, upTo: count };
    const ended = await store.endedRuns(conversationId, span);
    const last = ended.at(-1);
    if (last === undefined) {
      this.#keep(key, known);
      return known.transcripts;
    }
    await reserve(ended.reduce((sum, { journalSize }) => sum + journalSize, 0));
    const fold = new ConversationFold(known.transcripts);
    for (const { runId } of ended) await this.#foldEnded(store, runId, fold);
    const { transcripts } = fold;
    this.#keep(key, { transcripts, upTo: last.position, lastRunId: last.runId });
    return transcripts;
  }

  /** The entry of the first `count` runs of a conversation, if its last run still exists. */
  async #kept(
    store: TenantStore,
    { key, conversationId, count }: { key: string; conversationId: string; count: number },
  ): Promise<Entry> {
    const none = { transcripts: noTranscripts, upTo: 0 };
    const known = this.#entries.get(key);
    if (known === undefined || known.upTo > count || known.upTo === 0) return none;
    const { upTo } = known;
    const [last] = await store.endedRuns(conversationId, { after: upTo - 1, upTo });
    return last?.runId === known.lastRunId ? known : none;
  }

  async #foldEnded(store: TenantStore, runId: string, fold: ConversationFold): Promise<void> {
    for await (const page of readJournal(store, runId, { after: 0, to: Infinity })) {
      const [spec] = page;
      if (spec?.type === 'run.created' && spec.forkedFrom !== undefined) {
        fold.replace(await this.#withSource(store, spec, fold.transcripts));
      }
      fold.add(page);
    }
    fold.endRun();
  }

  /**
   * Adds the transcript of a fork's source. It comes first, because compactions of the fork count from
   * there; the runs that ended in the fork's conversation before it follow.
   */
  async #withSource(
    store: TenantStore,
    { forkedFrom }: EventOf<'run.created'>,
    before: Transcripts,
  ): Promise<Transcripts> {
    if (forkedFrom === undefined) return before;
    const { runId, seq } = forkedFrom;
    const [spec] = await store.readEvents(runId, { after: 0, limit: 1 });
    if (spec?.type !== 'run.created') {
      throw new RelayError(
        'journal_corrupt',
        `The source run ${runId} of this fork does not exist`,
      );
    }
    const { root } = await this.ofRun(store, { id: runId, spec }, seq);
    const messages = [...root.messages, ...before.root.messages];
    const generation = root.generation + before.root.generation;
    return { ...noTranscripts, root: { ...emptyTranscript, messages, generation } };
  }

  #keep(key: string, entry: Entry): void {
    this.#drop(key);
    const size = this.sizeOf(entry.transcripts);
    this.#entries.set(key, { ...entry, size });
    this.#size += size;
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= this.#bounds.entries && this.#size <= this.#bounds.chars) break;
      this.#drop(oldest);
    }
  }

  #drop(key: string): void {
    this.#size -= this.#entries.get(key)?.size ?? 0;
    this.#entries.delete(key);
  }

  /** In characters. */
  sizeOf({ root, subs }: Transcripts): number {
    let size = 0;
    for (const { messages, open } of [root, ...Object.values(subs)]) {
      size += charsIn(open);
      for (const message of messages) {
        let known = this.#sizes.get(message);
        if (known === undefined) this.#sizes.set(message, (known = charsIn(message)));
        size += known;
      }
    }
    return size;
  }
}

/**
 * Folds the ended runs of a conversation. An event that adds a message copies those before it, which for
 * all runs together would cost the square of their number. So the messages of earlier runs are set aside
 * until an event needs them.
 */
class ConversationFold {
  #earlier: Message[] = [];
  /** Without the earlier messages, so that `runStart` is negative after the end of a run. */
  #own: Transcripts;

  constructor(before: Transcripts) {
    this.#own = before;
    this.endRun();
  }

  get transcripts(): Transcripts {
    const { root, ...others } = this.#own;
    const messages = [...this.#earlier, ...root.messages];
    const runStart = this.#earlier.length + root.runStart;
    return { ...others, root: { ...root, messages, runStart } };
  }

  replace(transcripts: Transcripts): void {
    this.#own = transcripts;
    this.#earlier = [];
  }

  add(events: readonly StoredEvent[]): void {
    if (events.some(concernsEarlierMessages)) this.replace(this.transcripts);
    this.#own = foldTranscripts(this.#own, events);
  }

  endRun(): void {
    const { root } = this.#own;
    const { messages } = root;
    for (const message of messages) this.#earlier.push(message);
    const runStart = root.runStart - messages.length;
    this.#own = { ...noTranscripts, root: { ...root, messages: [], runStart } };
  }
}

function concernsEarlierMessages(event: StoredEvent): boolean {
  return (
    event.type === 'context.compacted' || (event.type === 'run.created' && event.history === null)
  );
}

async function foldRun(
  store: TenantStore,
  runId: string,
  span: Entry & { to: number },
): Promise<Transcripts> {
  let { transcripts } = span;
  for await (const page of readJournal(store, runId, { after: span.upTo, to: span.to })) {
    transcripts = foldTranscripts(transcripts, page);
  }
  return transcripts;
}
