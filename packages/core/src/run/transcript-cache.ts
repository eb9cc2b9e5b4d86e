/**
 * Folding a long conversation anew for every turn would cost its whole history. The cache keeps the
 * folds that were used last, within a bound: a hit costs what was added since, a miss costs one
 * read. What it holds is always a prefix of what the journals say, never more (E4).
 */
import { type EventOf, RelayError } from '@relay/protocol';
import type { RunRef, TenantStore } from '../ports.ts';
import { pagesOf } from './pages.ts';
import { emptyTranscript } from './transcript.ts';
import { foldTranscripts, noTranscripts, type Transcripts } from './transcripts.ts';

interface Entry {
  readonly transcripts: Transcripts;
  /** Up to where: ended runs of a conversation, or the `seq` of a run. */
  readonly upTo: number;
}

export interface TranscribedRun {
  readonly id: string;
  readonly spec: EventOf<'run.created'>;
}

function runKey(tenantId: string, runId: string): string {
  return `${tenantId}/run/${runId}`;
}

export class TranscriptCache {
  readonly #entries = new Map<string, Entry>();
  readonly #maxEntries: number;

  constructor(maxEntries = 64) {
    this.#maxEntries = maxEntries;
  }

  /** The transcripts of a run up to `seq`, with the part of the conversation that came before it. */
  async ofRun(store: TenantStore, run: TranscribedRun, seq: number): Promise<Transcripts> {
    const known = this.#entries.get(runKey(store.tenantId, run.id));
    if (known !== undefined && known.upTo <= seq) {
      return foldRun(store, run.id, { ...known, to: seq });
    }
    const before = await this.#withSource(store, run.spec, await this.#before(store, run.spec));
    const transcripts = foldTranscripts(before, [run.spec]);
    return foldRun(store, run.id, { transcripts, upTo: 1, to: seq });
  }

  /** A run that is parked will probably be taken up here again. */
  keepRun(ref: RunRef, transcripts: Transcripts, seq: number): void {
    this.#keep(runKey(ref.tenantId, ref.runId), { transcripts, upTo: seq });
  }

  forgetRun(ref: RunRef): void {
    this.#entries.delete(runKey(ref.tenantId, ref.runId));
  }

  async #before(store: TenantStore, spec: EventOf<'run.created'>): Promise<Transcripts> {
    const { conversationId, history: count } = spec;
    if (count === null || count === 0) return noTranscripts;
    const key = `${store.tenantId}/conversation/${conversationId}`;
    const known = this.#entries.get(key);
    const usable = known !== undefined && known.upTo <= count ? known : undefined;
    let { transcripts } = usable ?? { transcripts: noTranscripts };
    const runs = await store.endedRuns(conversationId, {
      after: usable?.upTo ?? 0,
      upTo: count,
    });
    for (const { runId } of runs) {
      const { first } = await this.#foldEnded(store, runId, transcripts);
      transcripts = { ...noTranscripts, first };
    }
    this.#keep(key, { transcripts, upTo: count });
    return transcripts;
  }

  async #foldEnded(store: TenantStore, runId: string, before: Transcripts): Promise<Transcripts> {
    let transcripts = before;
    for await (const page of pagesOf(store, runId, { after: 0, to: Infinity })) {
      const [spec] = page;
      if (spec?.type === 'run.created') {
        transcripts = await this.#withSource(store, spec, transcripts);
      }
      transcripts = foldTranscripts(transcripts, page);
    }
    return transcripts;
  }

  /**
   * What a fork was forked from comes first: the fork has seen it so, and what it compacts is counted
   * from there. What other runs said that ended in its conversation before it follows.
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
      throw new RelayError('journal_corrupt', `The run ${runId}, which was forked, is not there`);
    }
    const { first } = await this.ofRun(store, { id: runId, spec }, seq);
    const messages = [...first.messages, ...before.first.messages];
    const generation = first.generation + before.first.generation;
    return { ...noTranscripts, first: { ...emptyTranscript, messages, generation } };
  }

  #keep(key: string, entry: Entry): void {
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= this.#maxEntries) break;
      this.#entries.delete(oldest);
    }
  }
}

async function foldRun(
  store: TenantStore,
  runId: string,
  span: Entry & { to: number },
): Promise<Transcripts> {
  let { transcripts } = span;
  for await (const page of pagesOf(store, runId, { after: span.upTo, to: span.to })) {
    transcripts = foldTranscripts(transcripts, page);
  }
  return transcripts;
}
