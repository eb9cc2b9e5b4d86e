/**
 * One run in this process: the same loop as on the server, with an in-memory store of its own.
 *
 *   prepared ──first read──▶ running ──end or error──▶ over
 *       └──────────────────cancel─────────────────▶ over
 *
 * - Only `#finish` leads to `over`, once. It drops everything but ids and rules, so that a program
 *   that keeps an event does not keep the store.
 * - A run that waits for an answer is suspended as on the server; the answer wakes it. Without a time
 *   limit it has no timer, so that it does not keep the process alive.
 */
import {
  answerTo,
  AsyncQueue,
  cancelRun,
  recordDecision,
  type RunControl,
  type RunRef,
  type RunSpec,
  startRun,
} from '@relay/core';
import type { ApprovalKind, StoredEvent } from '@relay/protocol';
import { uuidv7 } from 'uuidv7';
import type { AgentEvent, RelayResponse } from './events.ts';
import { presentEvent } from './present.ts';
import type { AgentRules } from './rules.ts';
import { checkAnswer, readResponse } from './validation.ts';
import { noExpiryMs, wireRun, type Wiring } from './wiring.ts';

type Work = 'model' | 'agent' | 'handoffs' | 'messages' | 'maxIterations' | 'limits' | 'system';

export interface InvocationOptions
  extends Omit<Wiring, 'publish'>, Pick<RunSpec, Work | 'outputSchema' | 'reasoning'> {
  readonly toolNames: readonly string[];
}

interface OpenApproval {
  readonly kind: ApprovalKind;
  readonly tool: string;
  readonly params: Record<string, unknown>;
  readonly expiresAt: number;
  /** The schema of the answer to a question. */
  readonly schema: Readonly<Record<string, unknown>> | undefined;
}

/** What the run needs until it is over. */
interface RunResources {
  readonly options: InvocationOptions;
  readonly control: RunControl;
}

const tenantId = 'program';
/** The maximum delay of a timer; a longer wait takes several. */
const maxTimerMs = 2 ** 31 - 1;
const retryMs = 5;
const programActor = { type: 'key', id: 'program', name: 'program' } as const;

export class Invocation {
  readonly runId = uuidv7();
  readonly agentId = uuidv7();
  readonly events: AsyncQueue<AgentEvent>;
  readonly rules: AgentRules;
  readonly #relays = new Map<string, OpenApproval>();
  readonly #over = Promise.withResolvers<void>();
  #state: 'prepared' | 'running' | 'over' = 'prepared';
  #work: RunResources | undefined;
  /** Resolves when the run has been stored or has failed to; never rejects. */
  #begun: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #stopListening: (() => void) | undefined;

  constructor(options: InvocationOptions) {
    this.rules = options.rules;
    const publish = (_runId: string, events: readonly StoredEvent[]) => this.#publish(events);
    this.#work = { options, control: wireRun({ ...options, publish }) };
    this.events = new AsyncQueue({
      started: () => this.#start(),
      left: () => this.cancel('The event stream was closed by the caller'),
    });
  }

  #start(): void {
    if (this.#state !== 'prepared' || this.#work === undefined) return;
    this.#state = 'running';
    this.#begun = this.#begin(this.#work).catch((error: unknown) => this.#finish(error));
    this.#cancelOn(this.#work.options.signal);
  }

  /** Returns whether this answer was accepted. Throws `invalid_request` if it is invalid. */
  respond(approvalId: string, response: RelayResponse): boolean {
    const relay = this.#relays.get(approvalId);
    const decision = readResponse(response, relay?.kind);
    if (this.#work === undefined || relay === undefined) return false;
    // Expired, even if the run has not been woken yet.
    if (relay.expiresAt <= Date.now()) return false;
    if (relay.schema !== undefined) checkAnswer(relay.schema, decision);
    // Here, so that the caller can answer again: an error of `recordDecision` ends the run.
    answerTo(relay, decision);
    // Before the decision is stored, so that no approval is requested for a call that it allows.
    if (decision.always && relay.kind === 'permission') {
      this.rules.allowAlways(relay.tool, relay.params);
    }
    this.#relays.delete(approvalId);
    const input = { approvalId, ...decision, by: programActor };
    void recordDecision(this.#work.control, tenantId, input).catch((error: unknown) =>
      this.#finish(error),
    );
    return true;
  }

  /** Resolves when the run is over; never rejects. */
  async cancel(reason: string): Promise<void> {
    if (this.#state === 'prepared') this.#finish();
    this.#relays.clear();
    await this.#begun;
    if (this.#work === undefined) return;
    await cancelRun(this.#work.control, this.#ref, { reason, by: programActor }).catch(
      (error: unknown) => this.#finish(error),
    );
    await this.#over.promise;
  }

  get #ref(): RunRef {
    return { tenantId, runId: this.runId };
  }

  async #begin({ options, control }: RunResources): Promise<void> {
    const { agent, model, messages, toolNames: tools, handoffs, maxIterations, limits } = options;
    const { system, outputSchema, reasoning } = options;
    const { runId, agentId } = this;
    const work = { agent, model, system, messages, tools, handoffs, maxIterations, limits };
    const answer = { outputSchema, reasoning };
    await startRun(
      control,
      { surface: 'chat', prompt: 'complete', permissions: {}, ...work, ...answer },
      { tenantId, by: programActor, correlationId: runId, runId, agentId },
    );
  }

  #cancelOn(signal: AbortSignal | undefined): void {
    if (signal === undefined) return;
    const cancel = () => void this.cancel(reasonOf(signal));
    signal.addEventListener('abort', cancel, { once: true });
    this.#stopListening = () => signal.removeEventListener('abort', cancel);
    if (signal.aborted) cancel();
  }

  /** Called by the journal; must not throw. */
  #publish(events: readonly StoredEvent[]): void {
    if (events.length === 0) this.#retry();
    for (const event of events) {
      this.#track(event);
      const shown = presentEvent(event, {
        runId: this.runId,
        findTool: (name) => this.#work?.options.tools.find(name),
        respond: (approvalId, response) => void this.respond(approvalId, response),
      });
      if (shown !== undefined) this.events.push(shown);
      if (event.type === 'run.ended') this.#finish();
    }
  }

  #track(event: StoredEvent): void {
    switch (event.type) {
      case 'approval.requested': {
        const { kind, tool } = event;
        const params = structuredClone(event.params ?? {}) as Record<string, unknown>;
        const expiresAt = Date.parse(event.expiresAt);
        const schema = event.question?.schema;
        this.#relays.set(event.approvalId, { kind, tool, params, expiresAt, schema });
        break;
      }
      case 'approval.expired':
      case 'approval.closed':
        this.#relays.delete(event.approvalId);
        break;
      case 'run.suspended':
        void this.#scheduleWake();
        break;
      default:
        break;
    }
  }

  /**
   * Wakes a suspended run when its approval expires. A timer can fire early, and a wake-up can come
   * while the run is still being suspended: as long as the run waits, it is checked again.
   */
  async #scheduleWake(): Promise<void> {
    const store = this.#work?.control.engine.store.tenant(tenantId);
    const run = await store?.readRun(this.runId);
    if (this.#work === undefined || run?.status !== 'waiting' || run.wakeAt === null) return;
    const ms = run.wakeAt - Date.now();
    if (ms > noExpiryMs / 2) return;
    if (ms <= 0) this.#work.control.supervisor.wake(this.#ref);
    clearTimeout(this.#timer);
    const delayMs = Math.min(Math.max(ms, retryMs), maxTimerMs);
    this.#timer = setTimeout(() => void this.#scheduleWake(), delayMs);
  }

  /** The run was released after an error, and there is no other node to resume it. */
  #retry(): void {
    const wake = () => this.#work?.control.supervisor.wake(this.#ref);
    clearTimeout(this.#timer);
    if (this.#work !== undefined) this.#timer = setTimeout(wake, retryMs);
  }

  #finish(error?: unknown): void {
    if (this.#state === 'over') return;
    this.#state = 'over';
    clearTimeout(this.#timer);
    this.#stopListening?.();
    this.#stopListening = undefined;
    this.#relays.clear();
    const control = this.#work?.control;
    // Its database lies outside of the heap, so the garbage collector would be late to free it.
    void control?.supervisor.stop().then(() => control.engine.store.close());
    this.#work = undefined;
    if (error === undefined) this.events.end();
    else this.events.fail(error);
    this.#over.resolve();
  }
}

function reasonOf(signal: AbortSignal): string {
  const reason: unknown = signal.reason;
  if (reason instanceof Error) return reason.message;
  return typeof reason === 'string' ? reason : 'Aborted';
}
