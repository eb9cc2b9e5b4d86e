/**
 * A run while this node drives it: the lease, the journal, and what is going on around it. It is
 * made when the run is taken up and dropped when it is parked (E5); nothing in it is the truth, the
 * journal is.
 */
import { type EventOf, isEnded, type RunEvent } from '@relay/protocol';
import type { Engine } from '../engine.ts';
import { RunJournal } from '../journal.ts';
import type { Mail, RunIdentity, RunRef, TenantStore, Tool } from '../ports.ts';
import type { RunState } from './state.ts';
import { foldEvents, type Transcript } from './transcript.ts';

/** Why a live run stops: a person canceled it, or this node has to let go of it. */
export type Stop =
  | { readonly kind: 'cancel'; readonly reason: string }
  | { readonly kind: 'yield'; readonly reason: string };

export interface LiveRunOptions {
  readonly engine: Engine;
  readonly identity: RunIdentity;
  readonly spec: EventOf<'run.created'>;
  readonly epoch: number;
  readonly state: RunState;
  /** It was created just now: nobody knows of it yet, so nobody can have written to it. */
  readonly isNew?: boolean;
}

export class LiveRun {
  readonly engine: Engine;
  readonly identity: RunIdentity;
  readonly spec: EventOf<'run.created'>;
  readonly store: TenantStore;
  readonly journal: RunJournal;
  readonly epoch: number;
  /** Tools that are running now, by call. */
  readonly running = new Set<string>();
  readonly #modelStop = new AbortController();
  readonly #toolStop = new AbortController();
  readonly #takenUpAt: number;
  #transcript: Transcript | undefined;
  /** Events that came before the transcript was first asked for. */
  #unfolded: RunEvent[] = [];
  #stop: Stop | undefined;
  #happened: RunEvent[] = [];
  #mailWaits: boolean;
  #wakeLoop: (() => void) | undefined;
  #stopModel: (() => void) | undefined;

  constructor(options: LiveRunOptions) {
    this.engine = options.engine;
    this.identity = options.identity;
    this.spec = options.spec;
    this.epoch = options.epoch;
    this.store = options.engine.store.tenant(options.identity.tenantId);
    this.journal = new RunJournal({
      run: options.identity,
      epoch: options.epoch,
      state: options.state,
      store: this.store,
      clock: options.engine.clock,
      publisher: options.engine.publisher,
      observe: (events) => this.#observe(events),
    });
    this.#takenUpAt = options.state.seq;
    this.#mailWaits = options.isNew !== true;
  }

  get ref(): RunRef {
    return { tenantId: this.identity.tenantId, runId: this.identity.id };
  }

  get state(): RunState {
    return this.journal.state;
  }

  get stop(): Stop | undefined {
    return this.#stop;
  }

  /** Aborted when the model's answer is no longer wanted. */
  get modelSignal(): AbortSignal {
    return this.#modelStop.signal;
  }

  /** Aborted by a cancel; a node that merely lets go waits for its tools instead. */
  get toolSignal(): AbortSignal {
    return this.#toolStop.signal;
  }

  /** A tool that the caller asked for and the tenant has. */
  findTool(name: string): Tool | undefined {
    if (!this.spec.tools.includes(name)) return undefined;
    return this.engine.tools(this.identity.tenantId).find(name);
  }

  /** What the model reads. It is loaded when it is first needed, and kept up from then on. */
  async transcript(): Promise<Transcript> {
    if (this.#transcript === undefined) {
      const run = { id: this.identity.id, spec: this.spec };
      const stored = await this.engine.transcripts.ofRun(this.store, run, this.#takenUpAt);
      this.#transcript = foldEvents(stored, this.#unfolded);
      this.#unfolded = [];
    }
    return this.#transcript;
  }

  /** Call when everything is stored and the run leaves memory. */
  leaveTranscript(): void {
    if (this.#transcript === undefined) return;
    if (isEnded(this.state.status)) this.engine.transcripts.forgetRun(this.ref);
    else this.engine.transcripts.keepRun(this.ref, this.#transcript, this.state.seq);
  }

  /** Stops the model at once; with a cancel, the tools too. A cancel outranks a yield. */
  stopWith(stop: Stop): void {
    if (this.#stop?.kind === 'cancel') return;
    this.#stop = stop;
    this.#modelStop.abort(stop);
    this.#stopModel?.();
    if (stop.kind === 'cancel') this.#toolStop.abort(stop);
    this.#wake();
  }

  /** The next thing a model brings, or undefined as soon as the run stops: it may not listen. */
  unlessStopped<Value>(next: Promise<Value>): Promise<Value | undefined> {
    if (this.#stop !== undefined) {
      next.catch(() => undefined);
      return Promise.resolve(undefined);
    }
    return new Promise((resolve, reject) => {
      this.#stopModel = () => resolve(undefined);
      next.then(resolve, reject);
    });
  }

  abandonTools(): void {
    this.#toolStop.abort(this.#stop);
  }

  /** Somebody wrote to this run. A cancel must not wait until the loop comes round. */
  async mailArrived(): Promise<void> {
    this.#mailWaits = true;
    try {
      await this.noticeCancel();
    } finally {
      this.#wake();
    }
  }

  /** Looks for mail that nobody told of. */
  async lookForMail(): Promise<void> {
    const mail = await this.store.readMail(this.identity.id);
    if (mail.length > 0) await this.mailArrived();
  }

  async noticeCancel(): Promise<void> {
    if (!this.#mailWaits) return;
    for (const { letter } of await this.store.readMail(this.identity.id)) {
      if (letter.kind === 'cancel') this.stopWith({ kind: 'cancel', reason: letter.reason });
    }
  }

  async takeMail(): Promise<Mail[]> {
    if (!this.#mailWaits) return [];
    this.#mailWaits = false;
    return this.store.readMail(this.identity.id);
  }

  /** A tool came to its end. */
  toolSettled(toolCallId: string, event: RunEvent): void {
    this.running.delete(toolCallId);
    this.#happened.push(event);
    this.#wake();
  }

  takeHappened(): RunEvent[] {
    const happened = this.#happened;
    this.#happened = [];
    return happened;
  }

  /** Resolves when there is something new: a result, mail, or a stop. */
  async somethingHappens(): Promise<void> {
    if (this.#happened.length > 0 || this.#mailWaits || this.#stop !== undefined) return;
    await this.#woken();
  }

  /** Resolves when a tool has ended since the last look, whatever else is going on. */
  async toolEnds(): Promise<void> {
    const before = this.#happened.length;
    while (this.#happened.length === before && this.running.size > 0) await this.#woken();
  }

  #observe(events: readonly RunEvent[]): void {
    if (this.#transcript !== undefined) {
      this.#transcript = foldEvents(this.#transcript, events);
    } else {
      this.#unfolded.push(...events.filter((event) => event.type !== 'tool.progressed'));
    }
  }

  #woken(): Promise<void> {
    return new Promise((resolve) => {
      this.#wakeLoop = resolve;
    });
  }

  #wake(): void {
    this.#wakeLoop?.();
    this.#wakeLoop = undefined;
  }
}
