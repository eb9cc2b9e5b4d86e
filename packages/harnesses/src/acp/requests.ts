/**
 * What an agent asks for and does with its tools.
 *
 * - A request for permission is one approval of each file that it changes, or of the call. It is answered with
 *   the option for once: any other would allow more, where Relay can neither list nor revoke it.
 * - It is closed, and never denied, when its turn ends. An agent that works in the background asks without a
 *   turn; then it is closed when the session is cancelled or released, or the agent is lost.
 * - An approval is for what was shown. If the call changes while it is open, the request is refused. If it
 *   changes before it runs, the agent has to ask again; if it runs all the same, or without an answer, the turn
 *   is cancelled.
 */
import type {
  CreateElicitationRequest,
  CreateElicitationResponse,
  PermissionOption,
  RequestPermissionRequest,
  RequestPermissionResponse,
  ToolCallUpdate,
} from '@agentclientprotocol/sdk';
import type { Clock, HarnessContext } from '@relay/core';
import { canonicalJson } from '@relay/protocol';
import { reportCall, reportEnd, reportStart } from './events.ts';
import { denialNote } from './prompt.ts';
import type { Reporter } from './reporter.ts';
import {
  type CallOptions,
  differenceOf,
  maxInputChars,
  type NormalisedCall,
  normalise,
  type ToolCallRecord,
  ToolCalls,
} from './tool-calls.ts';

export interface RequestsOptions extends CallOptions {
  readonly context: Pick<HarnessContext, 'requestPermission' | 'ask' | 'reportBreach'>;
  readonly clock: Clock;
  readonly reporter: Reporter;
  /** The end of the requests of the open turn; undefined if there is none. */
  readonly turnSignal: () => AbortSignal | undefined;
  /** What the agent has to know about a call that was denied. */
  readonly onDenied: (note: string) => void;
  /** A request has ended. */
  readonly onClosed: () => void;
  /** The agent does what was not approved. */
  readonly onBreach: () => void;
}

/** Of what an event says about a call. */
const maxShownChars = 2_000;

export class AgentRequests {
  readonly #options: RequestsOptions;
  readonly #calls = new ToolCalls();
  /** The open requests, by tool call. To abort one means that its call has changed. */
  readonly #open = new Map<AbortController, string>();
  #questions = 0;
  #background = new AbortController();

  constructor(options: RequestsOptions) {
    this.#options = options;
  }

  /** A message neither stops a tool nor answers an approval. */
  get holdReason(): 'approval open' | 'tool running' | undefined {
    if (this.#open.size + this.#questions > 0) return 'approval open';
    return this.#calls.isAnyOpen ? 'tool running' : undefined;
  }

  endTurn(): void {
    this.#calls.clear(new Set(this.#open.values()));
  }

  closeBackground(): void {
    this.#background.abort();
    this.#background = new AbortController();
  }

  get #now() {
    return { ...this.#options, now: this.#options.clock.now() };
  }

  /** `new`: the call was not known before. */
  async track(update: ToolCallUpdate): Promise<'new' | 'ended' | 'changed'> {
    const { reporter, turnSignal } = this.#options;
    const before = this.#calls.get(update.toolCallId);
    await reporter.endMessage();
    if (before !== undefined) await this.#compare(before, update);
    const now = this.#now;
    const call = this.#calls.merge(update, now.now);
    const hasEnded = before?.phase !== call.phase && call.phase !== 'announced';
    const { events, reported } = hasEnded ? reportEnd(call, update, now) : reportCall(call, now);
    this.#calls.change(call.id, { reported });
    await reporter.emit(events);
    // Nothing else ends the calls of an agent that works without a turn.
    if (hasEnded && turnSignal() === undefined) this.#calls.forget(call.id);
    if (hasEnded) return 'ended';
    return before === undefined ? 'new' : 'changed';
  }

  async #compare(call: ToolCallRecord, update: ToolCallUpdate): Promise<void> {
    const { id, approved, permission } = call;
    const { reporter } = this.#options;
    if (update.status === 'completed' && (permission === 'denied' || permission === 'asked')) {
      const answer = permission === 'denied' ? 'it was denied' : 'it was not allowed';
      return this.#breach(call, `it has completed, although ${answer}`);
    }
    if (permission === 'withdrawn' && update.status !== 'pending' && update.status !== 'failed') {
      return this.#breach(call, 'it has changed, and the agent did not ask for it again');
    }
    if (approved === undefined || (permission !== 'asked' && permission !== 'allowed')) return;
    const found = differenceOf(approved, update, this.#options);
    if (found === undefined) return;
    const difference = found.length > maxShownChars ? `${found.slice(0, maxShownChars)}…` : found;
    if (permission === 'allowed' && update.status !== 'pending') {
      return this.#breach(call, `after the approval the agent showed ${difference}`);
    }
    const shown = `The agent asked for the call ${id}, and then showed ${difference}`;
    this.#calls.change(id, { permission: 'withdrawn' });
    this.#refuseOpen(id);
    await reporter.error(`${shown}: it has to ask again`, 'call_changed');
  }

  /** An answer to them would be for another call. */
  #refuseOpen(id: string): void {
    for (const [request, toolCallId] of this.#open) if (toolCallId === id) request.abort();
  }

  async #breach({ id, announced }: ToolCallRecord, what: string): Promise<void> {
    const { tool } = normalise(announced, this.#options);
    const error = `The call ${id} of ${tool} is not what was approved: ${what}. The turn is cancelled`;
    // First: it may be running.
    this.#options.onBreach();
    try {
      await this.#options.context.reportBreach({ tool, error });
    } catch (failure) {
      await this.#options.reporter.error(
        `${error} (${(failure as Error).message})`,
        'call_breached',
      );
    }
  }

  #scope(what: string): AbortSignal {
    const turn = this.#options.turnSignal();
    if (turn !== undefined) return turn;
    void this.#options.reporter.log('warn', `The agent asks for ${what} after the end of its turn`);
    return this.#background.signal;
  }

  async requestPermission(
    { toolCall, options }: RequestPermissionRequest,
    signal: AbortSignal,
  ): Promise<RequestPermissionResponse> {
    const { reporter, clock } = this.#options;
    const { toolCallId: id } = toolCall;
    const over = this.#scope(`permission for the call ${id}`);
    await reporter.endMessage();
    const before = this.#calls.get(id)?.approved;
    const merged = this.#calls.merge(toolCall, clock.now());
    const call = normalise(merged.announced, this.#options);
    if (before !== undefined && !isSame(call, normalise(before, this.#options))) {
      this.#refuseOpen(id);
    }
    const { events, reported } = reportCall(merged, this.#now, true);
    this.#calls.change(id, {
      reported,
      approved: merged.announced,
      permission: 'asked',
      phase: 'announced',
    });
    const allow = options.find(({ kind }) => kind === 'allow_once');
    const problem = problemOf(call, allow);
    const own = new AbortController();
    // Before anything is awaited: the call may change meanwhile.
    this.#open.set(own, id);
    try {
      await reporter.emit(events);
      if (problem !== undefined) {
        this.#calls.change(id, { permission: 'denied' });
        await reporter.error(
          `The call ${id} of ${call.tool} is denied: ${problem}`,
          'request_refused',
        );
        return rejected(options);
      }
      const answer = await this.#decide(call, AbortSignal.any([signal, over, own.signal]));
      if (over.aborted || signal.aborted) return cancelled;
      if (own.signal.aborted) return rejected(options);
      this.#calls.change(id, { permission: answer, since: clock.now() });
      if (answer === 'denied') return rejected(options);
    } finally {
      this.#open.delete(own);
      this.#options.onClosed();
    }
    const started = reportStart(this.#calls.get(id) ?? merged, this.#now);
    this.#calls.change(id, { reported: started.reported });
    await reporter.emit(started.events);
    return selected(allow);
  }

  /** Every file of a change must be allowed. */
  async #decide(
    { tool, inputs, isConcrete, shown }: NormalisedCall,
    signal: AbortSignal,
  ): Promise<'allowed' | 'denied'> {
    const { context, reporter, onDenied } = this.#options;
    const asked = { tool, shown, isConcrete, isEditable: false, signal };
    try {
      for (const input of inputs) {
        const answer = await context.requestPermission({ ...asked, input });
        if (answer.allowed) continue;
        if (answer.by !== 'closed') onDenied(denialNote(tool, input, answer.reason));
        return 'denied';
      }
      return 'allowed';
    } catch (error) {
      const why = (error as Error).message;
      await reporter.error(`The call of ${tool} is denied: ${why}`, 'request_refused');
      return 'denied';
    }
  }

  async elicit(
    request: CreateElicitationRequest,
    signal: AbortSignal,
  ): Promise<CreateElicitationResponse> {
    const { context, reporter } = this.#options;
    if (request.mode !== 'form') {
      await reporter.error('The agent asked a question that is not a form', 'request_refused');
      return { action: 'decline' };
    }
    const over = this.#scope('an answer');
    await reporter.endMessage();
    this.#questions += 1;
    try {
      const { message, requestedSchema: schema } = request as {
        readonly message: string;
        readonly requestedSchema: Readonly<Record<string, unknown>>;
      };
      return await context.ask({ message, schema, signal: AbortSignal.any([signal, over]) });
    } finally {
      this.#questions -= 1;
      this.#options.onClosed();
    }
  }
}

function problemOf(
  { inputs, shown }: NormalisedCall,
  allow: PermissionOption | undefined,
): string | undefined {
  if (allow === undefined) return 'the agent offers no way to allow it only once';
  const isTooLarge = JSON.stringify([inputs, shown]).length > maxInputChars;
  return isTooLarge ? 'it is too large to be shown to an approver' : undefined;
}

function isSame(one: NormalisedCall, other: NormalisedCall): boolean {
  return canonicalJson([one.tool, one.inputs]) === canonicalJson([other.tool, other.inputs]);
}

const cancelled: RequestPermissionResponse = { outcome: { outcome: 'cancelled' } };

function selected(option: PermissionOption | undefined): RequestPermissionResponse {
  if (option === undefined) return cancelled;
  return { outcome: { outcome: 'selected', optionId: option.optionId } };
}

/** Only this call: a rule inside the agent could not be listed or revoked either. */
function rejected(options: readonly PermissionOption[]): RequestPermissionResponse {
  return selected(options.find(({ kind }) => kind === 'reject_once'));
}
