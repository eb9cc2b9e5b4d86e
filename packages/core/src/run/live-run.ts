/**
 * A run while this node drives it: its lease, its journal, and the model calls and tools that run for
 * it. It exists from the claim of the lease, or from a decision that will be stored with the claim, until
 * the run ends, is suspended or yielded (E5). Only the journal is authoritative.
 */
import { type EventOf, isEnded, RelayError, type RunEvent } from '@relay/protocol';
import { auditOfEvents } from '../governance/audit.ts';
import { Reservation } from '../governance/budgets.ts';
import type { Engine } from '../engine.ts';
import { type FirstClaim, isDelta, readJournal, RunJournal } from '../journal.ts';
import type {
  AgentReport,
  ApprovalDecision,
  QueuedRunCommand,
  Reserved,
  RunIdentity,
  RunRef,
  TenantStore,
  Tool,
} from '../ports/index.ts';
import { charsIn, type MemoryAccount } from '../runtime/memory-budget.ts';
import { Signal } from '../runtime/signal.ts';
import { Activity } from './activity.ts';
import { Evidence } from './evidence.ts';
import { SessionTurn } from './session.ts';
import { AnswerWaiters } from './waiting/questions.ts';
import { decide, type StopReason } from './state/machine.ts';
import type { RunState } from './state/state.ts';
import { foldTranscripts, type Transcripts } from './context/transcript.ts';
import type { TurnOutcome } from './turn.ts';

/** Why a live run stops: it is canceled, or this node no longer drives it. */
export type Stop =
  | { readonly kind: 'cancel'; readonly reason: string }
  | { readonly kind: 'yield'; readonly reason: string; readonly isLeaseLost?: boolean };

/** Tools and providers throw the reason of their signal: its message becomes that of the call. */
class StoppedError extends Error {
  override readonly name = 'AbortError';
}

export interface LiveRunOptions {
  readonly engine: Engine;
  readonly identity: RunIdentity;
  readonly spec: EventOf<'run.created'>;
  readonly epoch: number;
  readonly state: RunState;
  /** What was charged before it was loaded; default: nothing. */
  readonly memory?: MemoryAccount;
  /** All events of a run that this call created: its inbox is empty, and its journal need not be read. */
  readonly opening?: readonly RunEvent[];
  readonly resumption?: Resumption | undefined;
  /** What it has reserved of its budgets. */
  readonly reserved?: Reserved | undefined;
}

/** A decision that resumes a suspended run. Its first commit stores the decision and claims the run. */
export interface Resumption {
  readonly decision: ApprovalDecision;
  readonly claim: FirstClaim;
}

/** A text is held by the state and by the transcript of its agent. */
export const bytesPerChar = 2;
/** What a run holds besides its journal, such as its connection to a model. */
export const bytesPerRun = 64 * 1024;

/** Why a model call is aborted that begins again with a message. */
const interruption = new Error('A message interrupted the model call');

export interface RunningTool {
  readonly toolCallId: string;
  readonly agentId: string;
  readonly name: string;
  readonly idempotent: boolean;
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
  /** The session whose turn the run is. */
  readonly turn: SessionTurn | undefined;
  readonly epoch: number;
  readonly reservation: Reservation;
  readonly memory: MemoryAccount;
  readonly evidence: Evidence;
  /** Running tools, by call. */
  readonly #tools = new Map<string, Activity>();
  /** Running model calls, by agent. */
  readonly #turns = new Map<string, Activity>();
  /** Tools that wait for sub-agents which they spawned, by agent. */
  readonly #agentWaiters = new Map<string, PromiseWithResolvers<AgentReport>>();
  /** Tools that wait in memory for the answer of a person. */
  readonly answerWaiters = new AnswerWaiters();
  readonly #loadedSeq: number;
  #transcripts: Transcripts | undefined;
  #loading: Promise<void> | undefined;
  /** Events from before the transcripts were loaded. */
  #unfolded: RunEvent[];
  #stop: Stop | undefined;
  readonly #toolResults: RunEvent[] = [];
  readonly #endedTurns: EndedTurn[] = [];
  #fault: { readonly error: unknown } | undefined;
  #hasCommands: boolean;
  /** The inbox has messages that wait for their boundary. */
  hasMessages = false;
  /** No model is called until a `resume` follows. */
  isPaused = false;
  /** Commands whose consumption may not be stored yet: they may still be in the inbox. */
  readonly #taken = new Set<string>();
  /** Not stored yet, and not applied. */
  #decision: ApprovalDecision | undefined;
  #isMarkedChanged = false;
  readonly #changed = new Signal();

  constructor(options: LiveRunOptions) {
    this.engine = options.engine;
    this.identity = options.identity;
    this.spec = options.spec;
    this.epoch = options.epoch;
    this.memory = options.memory ?? options.engine.memory.open();
    this.store = options.engine.store.tenant(options.identity.tenantId);
    const { sessionId } = options.spec;
    this.turn =
      sessionId === undefined ? undefined : new SessionTurn(options.engine, this.ref, sessionId);
    this.journal = new RunJournal({
      run: options.identity,
      epoch: options.epoch,
      claim: options.resumption?.claim,
      state: options.state,
      store: this.store,
      clock: options.engine.clock,
      publisher: options.engine.publisher,
      log: options.engine.log,
      session: this.turn,
      observe: (events) => this.#observe(events),
      audit: (events) => auditOfEvents(options.engine, options.identity, events),
    });
    this.reservation = new Reservation(this, options.reserved);
    this.evidence = new Evidence(options.engine.digest, options.state);
    const { opening, resumption } = options;
    // The transcript of a run up to `run.created` follows from its spec.
    this.#loadedSeq = opening === undefined ? options.state.seq : 1;
    this.#unfolded = opening?.slice(1) ?? [];
    this.#decision = resumption?.decision;
    // The commit that claims a run for a decision checks that its inbox is empty.
    this.#hasCommands = opening === undefined && resumption === undefined;
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

  /** The transcripts of all agents. They are loaded at the first use and kept up to date from then on. */
  async transcripts(): Promise<Transcripts> {
    if (this.#transcripts !== undefined) return this.#transcripts;
    this.#loading ??= this.#loadTranscripts();
    await this.#loading;
    return this.loadedTranscripts;
  }

  get loadedTranscripts(): Transcripts {
    if (this.#transcripts === undefined) throw new TypeError('The transcripts are not loaded yet');
    return this.#transcripts;
  }

  async #loadTranscripts(): Promise<void> {
    const run = { id: this.identity.id, spec: this.spec };
    const reserve = async (chars: number) => {
      this.memory.add(chars * bytesPerChar);
      if (!this.memory.mayGrow) await this.memory.wait();
    };
    const stored = await this.engine.transcripts.ofRun(this.store, run, this.#loadedSeq, reserve);
    this.#transcripts = foldTranscripts(stored, this.#unfolded);
    this.#unfolded = [];
  }

  /**
   * Throws if the stored journal of this run is damaged. Transcripts, loaded or cached, show that what they
   * were folded from was intact. The runs before this one are read when a model is called.
   */
  async checkJournal(): Promise<void> {
    if (this.#transcripts !== undefined) return;
    const range = { after: this.engine.transcripts.endOf(this.ref), to: this.#loadedSeq };
    for await (const _ of readJournal(this.store, this.identity.id, range)) continue;
  }

  /** To be called when everything is stored and the run is removed from memory. */
  cacheTranscripts(): void {
    if (this.#transcripts === undefined) return;
    if (isEnded(this.state.status)) this.engine.transcripts.evict(this.ref);
    else this.engine.transcripts.put(this.ref, this.#transcripts, this.state.seq);
  }

  /** Stops the model calls; a cancel also stops the tools. A cancel takes precedence over a yield. */
  stopWith(stop: Stop): void {
    if (this.#stop?.kind === 'cancel') return;
    this.#stop = stop;
    const error = new StoppedError(stop.reason);
    for (const turn of this.#turns.values()) turn.stop(error);
    if (stop.kind === 'cancel') {
      for (const tool of this.#tools.values()) tool.stop(error);
      for (const waiter of this.#agentWaiters.values()) {
        waiter.reject(new RelayError('run_canceled', stop.reason));
      }
    }
    this.wake();
  }

  /** Resumes a suspended run; a run that is not suspended stays as it is. */
  resume(): void {
    const decision = decide(this.state, { type: 'resume' });
    if (decision.ok) this.journal.stage(decision.events);
  }

  /** Whether no person can be asked: not for an approval, an answer or an outcome. */
  get isHeadless(): boolean {
    const permissions = this.engine.rules?.(this.ref).current() ?? this.spec.permissions;
    return permissions.headless === true;
  }

  /** Whether something is running, or has results that the loop has not processed. */
  get isActive(): boolean {
    return this.#turns.size > 0 || this.#tools.size > 0 || this.#hasResults;
  }

  get #hasResults(): boolean {
    const hasEnded = this.#toolResults.length > 0 || this.#endedTurns.length > 0;
    return hasEnded || this.#fault !== undefined || this.#isMarkedChanged;
  }

  get hasTools(): boolean {
    return this.#tools.size > 0;
  }

  get runningTools(): RunningTool[] {
    return Array.from(this.#tools, ([toolCallId, { agentId, tool }]) => ({
      toolCallId,
      agentId,
      name: tool?.name ?? '',
      idempotent: tool?.idempotent ?? false,
    }));
  }

  isCallingModel(agentId: string): boolean {
    return this.#turns.has(agentId);
  }

  /** Aborts the agent's model call, so that its turn begins again. */
  interruptTurn(agentId: string): void {
    this.#turns.get(agentId)?.stop(interruption);
  }

  isInterrupted(agentId: string): boolean {
    return this.#turns.get(agentId)?.signal.reason === interruption;
  }

  /** When the running model call of the agent was started. */
  modelCallStartedAt(agentId: string): number | undefined {
    return this.#turns.get(agentId)?.startedAt;
  }

  /** Runs a turn beside the loop; its outcome wakes the loop. */
  beginTurn(agentId: string, turn: (activity: Activity) => Promise<TurnOutcome>): void {
    const activity = new Activity(agentId, this.engine.clock.now());
    this.#turns.set(agentId, activity);
    if (this.#stop !== undefined) activity.stop(new StoppedError(this.#stop.reason));
    void turn(activity)
      .then(
        (outcome) => void this.#endedTurns.push({ agentId, outcome }),
        (error: unknown) => void (this.#fault ??= { error }),
      )
      .finally(() => {
        this.#turns.delete(agentId);
        this.#settleMemory();
        this.wake();
      });
  }

  /** Throws what a turn or a tool could not continue after: this node abandons the run. */
  throwFault(): void {
    if (this.#fault !== undefined) throw this.#fault.error;
  }

  takeEndedTurns(): EndedTurn[] {
    return this.#endedTurns.splice(0);
  }

  /** Stops the model call and the tools of an agent. */
  stopAgent(agentId: string, { message }: StopReason): void {
    const error = new StoppedError(message);
    this.#turns.get(agentId)?.stop(error);
    for (const tool of this.#tools.values()) if (tool.agentId === agentId) tool.stop(error);
  }

  beginTool(toolCallId: string, agentId: string, tool: Tool): Activity {
    const activity = new Activity(agentId, this.engine.clock.now(), tool);
    this.#tools.set(toolCallId, activity);
    if (this.#stop?.kind === 'cancel') activity.stop(new StoppedError(this.#stop.reason));
    return activity;
  }

  isRunning(toolCallId: string): boolean {
    return this.#tools.has(toolCallId);
  }

  /** Whether this attempt at the call is running, and not abandoned. */
  isCurrent(toolCallId: string, attempt: Activity): boolean {
    return this.#tools.get(toolCallId) === attempt;
  }

  /** Its tool has ended, and the loop has not processed the result. */
  hasResultOf(toolCallId: string): boolean {
    return this.#toolResults.some(
      (event) => 'toolCallId' in event && event.toolCallId === toolCallId,
    );
  }

  /** A tool has ended. The result of an abandoned attempt is ignored. */
  toolSettled(toolCallId: string, event: RunEvent, attempt: Activity): void {
    if (!this.isCurrent(toolCallId, attempt)) return;
    this.#tools.delete(toolCallId);
    this.#toolResults.push(event);
    this.wake();
  }

  /** A tool could not finish because the store failed. It runs again when the run is resumed. */
  toolInterrupted(toolCallId: string, error: unknown, attempt: Activity): void {
    if (!this.isCurrent(toolCallId, attempt)) return;
    this.#tools.delete(toolCallId);
    this.#fault ??= { error };
    this.wake();
  }

  /** The call is settled or suspended without this attempt, whose tool may still be running. */
  abandonTool(toolCallId: string): void {
    this.#tools.get(toolCallId)?.stop(new StoppedError(this.#stop?.reason));
    this.#tools.delete(toolCallId);
  }

  stopTools(): void {
    for (const tool of this.#tools.values()) tool.stop(new StoppedError(this.#stop?.reason));
  }

  /** Resolves with the report of a sub-agent. */
  waitForAgent(agentId: string): Promise<AgentReport> {
    const waiter = this.#agentWaiters.get(agentId) ?? Promise.withResolvers<AgentReport>();
    this.#agentWaiters.set(agentId, waiter);
    waiter.promise.catch(() => undefined);
    if (this.#stop?.kind === 'cancel') {
      waiter.reject(new RelayError('run_canceled', this.#stop.reason));
    }
    return waiter.promise;
  }

  agentEnded(report: AgentReport): void {
    this.#agentWaiters.get(report.agentId)?.resolve(report);
    this.#agentWaiters.delete(report.agentId);
  }

  /** The inbox has commands. A cancel takes effect at once, before the next pass of the loop. */
  async commandsArrived(): Promise<void> {
    this.#hasCommands = true;
    try {
      await this.checkForCancel();
    } finally {
      this.wake();
    }
  }

  /** Finds commands whose notification was lost. */
  async checkInbox(): Promise<void> {
    const queued = await this.store.readInbox(this.identity.id);
    if (queued.length > 0) await this.commandsArrived();
  }

  async checkForCancel(): Promise<void> {
    if (!this.#hasCommands) return;
    for (const { command } of await this.store.readInbox(this.identity.id)) {
      if (command.kind === 'cancel') this.stopWith({ kind: 'cancel', reason: command.reason });
    }
  }

  /** The commands in the inbox; undefined if none have arrived since the last read. */
  async readCommands(): Promise<QueuedRunCommand[] | undefined> {
    if (!this.#hasCommands) return undefined;
    this.#hasCommands = false;
    return this.readInbox();
  }

  /** The commands in the inbox that the loop has not taken. Only the loop may call it. */
  async readInbox(): Promise<QueuedRunCommand[]> {
    const queued = await this.store.readInbox(this.identity.id);
    const stored = new Set(queued.map(({ id }) => id));
    for (const id of this.#taken) if (!stored.has(id)) this.#taken.delete(id);
    return queued.filter(({ id }) => !this.#taken.has(id));
  }

  /** Consumes commands in the commit of the events. They are not read again. */
  take(commandIds: readonly string[], events: readonly RunEvent[]): void {
    for (const id of commandIds) this.#taken.add(id);
    this.journal.stage(events, { consumeCommands: commandIds });
  }

  /** The decision that the run was loaded for. */
  takeDecision(): ApprovalDecision | undefined {
    const decision = this.#decision;
    this.#decision = undefined;
    return decision;
  }

  takeToolResults(): RunEvent[] {
    return this.#toolResults.splice(0);
  }

  /** Resolves on a tool result, the end of a turn, commands or a stop, or after `ms`. */
  async waitForChange(ms = Infinity): Promise<void> {
    const hasChanged = this.#hasResults || this.#hasCommands || this.#stop !== undefined;
    this.#isMarkedChanged = false;
    if (hasChanged) return;
    if (ms === Infinity) await this.#changed.wait();
    else await this.#changed.waitFor({ clock: this.engine.clock, ms });
  }

  /** Resolves when another tool has ended. */
  async waitForTool(): Promise<void> {
    const before = this.#toolResults.length;
    while (this.#toolResults.length === before && this.hasTools) await this.#changed.wait();
  }

  /** The state was changed outside the loop: the loop makes another pass. */
  markChanged(): void {
    this.#isMarkedChanged = true;
    this.wake();
  }

  wake(): void {
    this.#changed.notify();
  }

  /** After a turn only its transcript stays in memory, not its reasoning or what was discarded. */
  #settleMemory(): void {
    if (this.#transcripts === undefined) return;
    const chars = this.engine.transcripts.sizeOf(this.#transcripts);
    this.memory.settle(bytesPerRun + chars * bytesPerChar);
  }

  #observe(events: readonly RunEvent[]): void {
    let chars = 0;
    for (const event of events) chars += isDelta(event) ? event.text.length : charsIn(event);
    this.memory.add(chars * bytesPerChar);
    this.evidence.add(events);
    if (this.#transcripts !== undefined) {
      this.#transcripts = foldTranscripts(this.#transcripts, events);
    } else {
      this.#unfolded.push(...events.filter((event) => event.type !== 'tool.progressed'));
    }
  }
}
