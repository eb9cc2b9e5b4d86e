/**
 * One turn: ask the model, and put what it says into the journal as it comes.
 *
 * Text is shown piece by piece; the tool calls enter together with `turn.completed`, in one commit,
 * so that a turn which a crash cuts short leaves no call behind that nobody would settle (E6).
 */
import {
  addUsage,
  type Message,
  noUsage,
  type RunError,
  type RunEvent,
  type Usage,
} from '@relay/protocol';
import {
  type FinishReason,
  type ModelEvent,
  type ModelRequest,
  ProviderFailure,
} from '../ports.ts';
import { backoffMs, maxRetryAfterMs } from './backoff.ts';
import { textOfError } from './error-text.ts';
import { isNestedTooDeep } from './json-depth.ts';
import { closingInstruction, isLastTurn } from './limits.ts';
import type { LiveRun } from './live-run.ts';
import { agentFields } from './machine.ts';
import type { AgentState } from './state.ts';
import { usedCallIds } from './transcript.ts';

export type TurnOutcome =
  | { readonly kind: 'completed' }
  | { readonly kind: 'stopped' }
  | { readonly kind: 'failed'; readonly error: RunError };

/** A model that streams faster than the store commits is held back here. */
const maxBacklog = 4096;
const maxCallIdChars = 200;

export async function takeTurn(run: LiveRun, agent: AgentState): Promise<TurnOutcome> {
  const { engine } = run;
  const model = engine.models(run.identity.tenantId).resolve(agent.model);
  if (model === undefined) {
    const message = `No provider offers the model ${agent.model}`;
    return { kind: 'failed', error: { code: 'unknown_model', message, retryable: false } };
  }
  const request = await requestFor(run, agent);
  for (let attempt = 1; ; attempt += 1) {
    const turn = new TurnInProgress(run, agent, request);
    try {
      const batches = model.stream(request, run.modelSignal)[Symbol.asyncIterator]();
      for (;;) {
        const next = await run.unlessStopped(batches.next());
        if (next === undefined || run.stop !== undefined || run.journal.broken) {
          void batches.return?.().catch(() => undefined);
          return { kind: 'stopped' };
        }
        if (next.done === true) break;
        turn.take(next.value);
        if (run.journal.backlog > maxBacklog) await run.journal.settled();
      }
      if (!turn.finished) throw endedTooSoon();
      turn.complete();
      return { kind: 'completed' };
    } catch (cause) {
      if (run.stop !== undefined) return { kind: 'stopped' };
      const failure = asProviderFailure(cause);
      const tooLate = (failure.retryAfterMs ?? 0) > maxRetryAfterMs;
      if (!failure.retryable || tooLate || attempt >= engine.settings.providerAttempts) {
        return { kind: 'failed', error: failure.toRunError() };
      }
      turn.discard();
      await engine.clock.sleep(backoffMs(attempt, failure.retryAfterMs), run.modelSignal);
      if (run.stop !== undefined) return { kind: 'stopped' };
    }
  }
}

async function requestFor(run: LiveRun, agent: AgentState): Promise<ModelRequest> {
  const transcript = await run.transcript();
  const { system } = run.spec;
  const messages: readonly Message[] =
    system === undefined
      ? transcript.messages
      : [{ role: 'system', content: system }, ...transcript.messages];
  if (isLastTurn(agent, run.spec)) {
    return { model: agent.model, messages: [...messages, closingInstruction], tools: [] };
  }
  const tools = run.spec.tools.flatMap((name) => run.findTool(name) ?? []);
  return {
    model: agent.model,
    messages,
    tools: tools.map(({ name, description, inputSchema }) => ({ name, description, inputSchema })),
  };
}

class TurnInProgress {
  readonly #run: LiveRun;
  readonly #of: { agentId: string; parentId?: string };
  readonly #turn: number;
  readonly #textId: string;
  readonly #reasoningId: string;
  readonly #startedSeq: number;
  readonly #usedIds: Set<string>;
  readonly #isLast: boolean;
  readonly #calls: RunEvent[] = [];
  #finish: FinishReason | undefined;
  #usage: Usage = noUsage;

  constructor(run: LiveRun, agent: AgentState, request: ModelRequest) {
    this.#run = run;
    this.#of = agentFields(agent);
    this.#turn = agent.iterations + 1;
    this.#textId = run.engine.ids.next();
    this.#reasoningId = run.engine.ids.next();
    this.#usedIds = usedCallIds(request.messages);
    this.#isLast = isLastTurn(agent, run.spec);
    const started: RunEvent = {
      type: 'turn.started',
      ...this.#of,
      turn: this.#turn,
      textId: this.#textId,
      reasoningId: this.#reasoningId,
    };
    // Alone it can wait for the first words. The results of the last turn must not: a provider may
    // take its time, and what has happened has to be stored.
    if (run.journal.backlog === 0) run.journal.stage([started]);
    else run.journal.append([started]);
    this.#startedSeq = run.state.seq;
  }

  get finished(): boolean {
    return this.#finish !== undefined;
  }

  take(batch: readonly ModelEvent[]): void {
    const shown: RunEvent[] = [];
    for (const event of batch) {
      switch (event.type) {
        case 'text':
          shown.push({
            type: 'text.appended',
            ...this.#of,
            textId: this.#textId,
            text: event.text,
          });
          break;
        case 'reasoning':
          shown.push({
            type: 'reasoning.appended',
            ...this.#of,
            reasoningId: this.#reasoningId,
            text: event.text,
          });
          break;
        case 'tool-call':
          // In the closing turn no tool is offered; a model that calls one all the same is not asked again.
          if (!this.#isLast) this.#calls.push(this.#called(event));
          break;
        case 'finish':
          this.#finish = event.reason;
          this.#usage = addUsage(this.#usage, event.usage);
          break;
      }
    }
    if (shown.length > 0) this.#run.journal.append(shown);
  }

  /** Left for the gate to commit together with what it decides about the calls. */
  complete(): void {
    this.#run.journal.stage([
      ...this.#calls,
      {
        type: 'turn.completed',
        ...this.#of,
        turn: this.#turn,
        finishReason: this.#calls.length > 0 ? 'tool-calls' : (this.#finish ?? 'other'),
        usage: this.#usage,
      },
    ]);
  }

  discard(): void {
    this.#run.journal.append([
      {
        type: 'turn.discarded',
        ...this.#of,
        turn: this.#turn,
        textId: this.#textId,
        after: this.#startedSeq,
        reason: 'retry',
      },
    ]);
  }

  #called(event: Extract<ModelEvent, { type: 'tool-call' }>): RunEvent {
    const toolCallId = this.#unique(event.id);
    return {
      type: 'tool.called',
      ...this.#of,
      toolCallId,
      ...(toolCallId === event.id ? {} : { providerCallId: event.id }),
      name: event.name,
      input: parseArguments(event.arguments),
    };
  }

  #unique(id: string): string {
    const usable = id !== '' && id.length <= maxCallIdChars;
    const wanted = usable ? id : this.#run.engine.ids.next();
    let candidate = wanted;
    for (let n = 2; this.#usedIds.has(candidate); n += 1) candidate = `${wanted}~${n}`;
    this.#usedIds.add(candidate);
    return candidate;
  }
}

type Input = Extract<RunEvent, { type: 'tool.called' }>['input'];

/** Arguments that are not a JSON object stay text, for the gate to refuse. */
function parseArguments(text: string): Input {
  if (text.trim() === '') return {};
  if (isNestedTooDeep(text)) return text;
  try {
    const value = JSON.parse(text) as Input;
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : text;
  } catch {
    return text;
  }
}

function asProviderFailure(cause: unknown): ProviderFailure {
  if (cause instanceof ProviderFailure) return cause;
  return new ProviderFailure(`The model failed: ${textOfError(cause)}`, { retryable: false });
}

function endedTooSoon(): ProviderFailure {
  return new ProviderFailure('The model’s answer ended before it was finished', {
    retryable: true,
  });
}
