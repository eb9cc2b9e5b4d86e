/**
 * A run while this node drives it: the lease, the journal, and what is going on around it. It is
 * made when the run is taken up and dropped when it is parked (E5); nothing in it is the truth, the
 * journal is.
 */
import { type EventOf, isEnded, RelayError, type RunEvent } from '@relay/protocol';
import { auditOfEvents } from '../governance/audit.ts';
import type { Engine } from '../engine.ts';
import { RunJournal } from '../journal.ts';
import type {
  AgentReport,
  QueuedRunCommand,
  RunIdentity,
  RunRef,
  TenantStore,
} from '../ports/index.ts';
import { Activity } from './activity.ts';
import { Answers } from './waiting/answers.ts';
import type { RunState } from './state/state.ts';
import { foldTranscripts, type Transcripts } from './context/transcripts.ts';
import type { TurnOutcome } from './turn.ts';

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

export interface EndedTurn {
  readonly agentId: string;
  readonly outcome: TurnOutcome;
}

export class LiveRun {
  readonly engine: Engine;
  readonly identity: RunIdentity;
  readonly spec: EventOf<'run.created'>;
  readonly store: TenantStore;
  readonly journal: RunJournal;
  readonly epoch: number;
  /** Tools that are running now, by call. */
  readonly #tools = new Map<string, Activity>();
  /** Model calls that are going on, by agent. */
  readonly #turns = new Map<string, Activity>();
  /** Tools that wait for sub-agents which they have spawned, by agent. */
  readonly #waiting = new Map<string, PromiseWithResolvers<AgentReport>>();
  /** Tools that wait in memory for what a person says. */
  readonly answers = new Answers();
  readonly #takenUpAt: number;
  #transcripts: Transcripts | undefined;
  #loading: Promise<void> | undefined;
  /** Events that came before the transcripts were first asked for. */
  #unfolded: RunEvent[] = [];
  #stop: Stop | undefined;
  #happened: RunEvent[] = [];
  #endedTurns: EndedTurn[] = [];
  #commandWaits: boolean;
  #looksAgain = false;
  #wakeLoop: (() => void) | undefined;

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
      audit: (events) => auditOfEvents(options.engine, options.identity, events),
    });
    this.#takenUpAt = options.state.seq;
    this.#commandWaits = options.isNew !== true;
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

  /** What the agents read. It is loaded when it is first needed, and kept up from then on. */
  async transcripts(): Promise<Transcripts> {
    if (this.#transcripts !== undefined) return this.#transcripts;
    this.#loading ??= this.#loadTranscripts();
    await this.#loading;
    return this.knownTranscripts;
  }

  /** After they have been asked for once. */
  get knownTranscripts(): Transcripts {
    if (this.#transcripts === undefined) throw new TypeError('The transcripts are not loaded yet');
    return this.#transcripts;
  }

  async #loadTranscripts(): Promise<void> {
    const run = { id: this.identity.id, spec: this.spec };
    const stored = await this.engine.transcripts.ofRun(this.store, run, this.#takenUpAt);
    this.#transcripts = foldTranscripts(stored, this.#unfolded);
    this.#unfolded = [];
  }

  /** Call when everything is stored and the run leaves memory. */
  leaveTranscripts(): void {
    if (this.#transcripts === undefined) return;
    if (isEnded(this.state.status)) this.engine.transcripts.forgetRun(this.ref);
    else this.engine.transcripts.keepRun(this.ref, this.#transcripts, this.state.seq);
  }

  /** Stops the models at once; with a cancel, the tools too. A cancel outranks a yield. */
  stopWith(stop: Stop): void {
    if (this.#stop?.kind === 'cancel') return;
    this.#stop = stop;
    for (const turn of this.#turns.values()) turn.stop(stop);
    if (stop.kind === 'cancel') {
      for (const tool of this.#tools.values()) tool.stop(stop);
      for (const waiting of this.#waiting.values()) {
        waiting.reject(new RelayError('run_canceled', stop.reason));
      }
    }
    this.wake();
  }

  /** Something goes on without a person, or has just come to its end. */
  get isAtWork(): boolean {
    return this.#turns.size > 0 || this.#tools.size > 0 || this.#hasNews;
  }

  get #hasNews(): boolean {
    return this.#happened.length > 0 || this.#endedTurns.length > 0 || this.#looksAgain;
  }

  get hasTools(): boolean {
    return this.#tools.size > 0;
  }

  isAsking(agentId: string): boolean {
    return this.#turns.has(agentId);
  }

  /** Since when the agent's model has been working on its turn. */
  askingSince(agentId: string): number | undefined {
    return this.#turns.get(agentId)?.since;
  }

  /** Lets a turn go on beside whatever else the run does; its outcome wakes the loop. */
  beginTurn(agentId: string, take: (activity: Activity) => Promise<TurnOutcome>): void {
    const activity = new Activity(agentId, this.engine.clock.now());
    this.#turns.set(agentId, activity);
    if (this.#stop !== undefined) activity.stop(this.#stop);
    void take(activity)
      .catch((error: unknown): TurnOutcome => ({ kind: 'broken', error }))
      .then((outcome) => {
        this.#turns.delete(agentId);
        this.#endedTurns.push({ agentId, outcome });
        this.wake();
      });
  }

  takeEndedTurns(): EndedTurn[] {
    const ended = this.#endedTurns;
    this.#endedTurns = [];
    return ended;
  }

  /** Stops what an agent is doing: its model call and its tools. */
  stopAgent(agentId: string, reason: unknown): void {
    this.#turns.get(agentId)?.stop(reason);
    for (const tool of this.#tools.values()) if (tool.agentId === agentId) tool.stop(reason);
  }

  beginTool(toolCallId: string, agentId: string): Activity {
    const activity = new Activity(agentId);
    this.#tools.set(toolCallId, activity);
    if (this.#stop?.kind === 'cancel') activity.stop(this.#stop);
    return activity;
  }

  isRunning(toolCallId: string): boolean {
    return this.#tools.has(toolCallId);
  }

  /** It has ended, and nobody has looked yet. */
  hasResultOf(toolCallId: string): boolean {
    return this.#happened.some((event) => 'toolCallId' in event && event.toolCallId === toolCallId);
  }

  /** A tool came to its end. What an abandoned attempt brings is no longer wanted. */
  toolSettled(toolCallId: string, event: RunEvent, attempt: Activity): void {
    if (this.#tools.get(toolCallId) !== attempt) return;
    this.#tools.delete(toolCallId);
    this.#happened.push(event);
    this.wake();
  }

  /** The call is settled without its tool, which may still be doing something. */
  abandonTool(toolCallId: string): void {
    this.#tools.get(toolCallId)?.stop(this.#stop);
    this.#tools.delete(toolCallId);
  }

  abandonTools(): void {
    for (const tool of this.#tools.values()) tool.stop(this.#stop);
  }

  /** What a sub-agent will bring to the tool that has spawned it. */
  whenEnded(agentId: string): Promise<AgentReport> {
    const waiting = this.#waiting.get(agentId) ?? Promise.withResolvers<AgentReport>();
    this.#waiting.set(agentId, waiting);
    waiting.promise.catch(() => undefined);
    if (this.#stop?.kind === 'cancel') {
      waiting.reject(new RelayError('run_canceled', this.#stop.reason));
    }
    return waiting.promise;
  }

  agentEnded(report: AgentReport): void {
    this.#waiting.get(report.agentId)?.resolve(report);
    this.#waiting.delete(report.agentId);
  }

  /** Somebody wrote to this run. A cancel must not wait until the loop comes round. */
  async commandsArrived(): Promise<void> {
    this.#commandWaits = true;
    try {
      await this.noticeCancel();
    } finally {
      this.wake();
    }
  }

  /** Looks for commands that nobody told of. */
  async checkInbox(): Promise<void> {
    const queued = await this.store.readInbox(this.identity.id);
    if (queued.length > 0) await this.commandsArrived();
  }

  async noticeCancel(): Promise<void> {
    if (!this.#commandWaits) return;
    for (const { command } of await this.store.readInbox(this.identity.id)) {
      if (command.kind === 'cancel') this.stopWith({ kind: 'cancel', reason: command.reason });
    }
  }

  async takeCommands(): Promise<QueuedRunCommand[]> {
    if (!this.#commandWaits) return [];
    this.#commandWaits = false;
    return this.store.readInbox(this.identity.id);
  }

  /** The ends of tools since the last look, of calls that are still open. */
  takeHappened(): RunEvent[] {
    const happened = this.#happened;
    this.#happened = [];
    return happened;
  }

  /** Resolves when there is something new: a result, a turn, commands, or a stop. */
  async somethingHappens(): Promise<void> {
    const already = this.#hasNews || this.#commandWaits || this.#stop !== undefined;
    this.#looksAgain = false;
    if (!already) await this.#woken();
  }

  /** Resolves when a tool has ended since the last look, whatever else is going on. */
  async toolEnds(): Promise<void> {
    const before = this.#happened.length;
    while (this.#happened.length === before && this.hasTools) await this.#woken();
  }

  /** The state has changed outside the loop: it should look again. */
  lookAgain(): void {
    this.#looksAgain = true;
    this.wake();
  }

  wake(): void {
    this.#wakeLoop?.();
    this.#wakeLoop = undefined;
  }

  #observe(events: readonly RunEvent[]): void {
    if (this.#transcripts !== undefined) {
      this.#transcripts = foldTranscripts(this.#transcripts, events);
    } else {
      this.#unfolded.push(...events.filter((event) => event.type !== 'tool.progressed'));
    }
  }

  #woken(): Promise<void> {
    return new Promise((resolve) => {
      this.#wakeLoop = resolve;
    });
  }
}
