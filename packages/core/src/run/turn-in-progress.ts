/** The output of a model in one turn, and how it enters the journal. */
import {
  addUsage,
  defined,
  type EventOf,
  noUsage,
  type ProviderData,
  type RunEvent,
  type Usage,
} from '@relay/protocol';
import type { ModelEvent, TurnFinish } from '../ports/index.ts';
import { agentFields, type AgentState, answerOf } from './state/agent.ts';
import { progressOf } from './state/machine.ts';
import { isNestedTooDeep, isObject } from './arguments.ts';
import { AnswerLimit } from './answer-limit.ts';
import type { LiveRun } from './live-run.ts';
import { hasOutputGuardrails } from './agents/guardrails.ts';
import { priced } from './agents/limits.ts';
import { findTool } from './agents/profile.ts';
import { usedCallIds } from './context/transcript.ts';

type DiscardReason = EventOf<'turn.discarded'>['reason'];
type ModelToolCall = Extract<ModelEvent, { type: 'tool-call' }>;

const maxCallIdChars = 200;

export class TurnInProgress {
  readonly #run: LiveRun;
  readonly #agent: AgentState;
  readonly #agentFields: { agentId: string; parentId?: string };
  readonly #turn: number;
  readonly #textId: string;
  readonly #reasoningId: string;
  readonly #limit: AnswerLimit;
  readonly #calls: ModelToolCall[] = [];
  #chars = 0;
  #startedSeq: number | undefined;
  /** Of a discarded turn, which is no longer in the state. */
  #discardedText: string | undefined;
  #finish: TurnFinish | undefined;
  #detail: string | undefined;
  #reasoningDropped: true | undefined;
  #usage: Usage = noUsage;
  #responseModel: string | undefined;
  #providerData: ProviderData | undefined;

  constructor(run: LiveRun, agent: AgentState) {
    this.#run = run;
    this.#agent = agent;
    this.#agentFields = agentFields(agent);
    this.#turn = agent.iterations + 1;
    this.#textId = run.engine.ids.next();
    this.#reasoningId = run.engine.ids.next();
    this.#limit = new AnswerLimit(run.engine.settings.maxAnswerChars);
  }

  /** The answer ends where the model may not write more. */
  get isCut(): boolean {
    return this.#finish === 'length' && !this.hasCalls;
  }

  /** The characters of the answer so far. */
  get chars(): number {
    return this.#chars;
  }

  get finished(): boolean {
    return this.#finish !== undefined;
  }

  /** The state holds it already: another copy would cost as much again. */
  get text(): string {
    if (this.#startedSeq === undefined) return '';
    return this.#discardedText ?? answerOf(this.#run.state.agents[this.#agent.id]);
  }

  /** How the model ended the turn, and the provider's own word for it. */
  get end(): { readonly finish: TurnFinish | undefined; readonly detail: string | undefined } {
    return { finish: this.#finish, detail: this.#detail };
  }

  /**
   * The final turn offers no tools: calls in it are ignored. So are those of an answer that was refused,
   * filtered or cut by a full window: the model did not mean to go on with them.
   */
  get hasCalls(): boolean {
    const finish = this.#finish;
    const isVoid =
      finish === 'refusal' || finish === 'content_filter' || finish === 'context_exceeded';
    return this.#calls.length > 0 && this.#agent.limit === null && !isVoid;
  }

  /** Throws `AnswerTooLarge` without adding the batch. */
  add(batch: readonly ModelEvent[]): void {
    this.#chars = this.#limit.add(batch);
    const output: RunEvent[] = [];
    for (const event of batch) {
      switch (event.type) {
        case 'text':
          output.push({
            type: 'text.appended',
            ...this.#agentFields,
            textId: this.#textId,
            text: event.text,
          });
          break;
        case 'reasoning':
          output.push({
            type: 'reasoning.appended',
            ...this.#agentFields,
            reasoningId: this.#reasoningId,
            text: event.text,
          });
          break;
        case 'tool-call':
          this.#calls.push(event);
          break;
        case 'finish':
          this.#finish = event.reason;
          this.#detail = event.detail;
          this.#reasoningDropped = event.reasoningDropped;
          this.#usage = addUsage(this.#usage, event.usage);
          this.#responseModel = event.model;
          this.#providerData = event.providerData;
          break;
      }
    }
    if (output.length === 0) return;
    const events = [...this.#opening(), ...output];
    // What arrives with the end of the answer is committed with the end of the turn, which follows at
    // once; unless guardrails have to check the answer first.
    if (this.finished && !hasOutputGuardrails(this.#run, this.#agent)) {
      this.#run.journal.stage(events);
    } else {
      this.#run.journal.append(events);
    }
  }

  /** Stages the end of the turn: the gate commits it together with its decisions on the calls. */
  complete(): void {
    const calls = this.hasCalls ? this.#toolCalls() : [];
    this.#run.journal.stage([
      ...this.#opening(),
      ...calls,
      {
        type: 'turn.completed',
        ...this.#agentFields,
        turn: this.#turn,
        finishReason: calls.length > 0 ? 'tool_calls' : this.#finishWithoutCalls(),
        usage: priced(this.#run, this.#agent.model, this.#usage),
        ...defined({
          responseModel: this.#responseModel,
          providerData: this.#providerData,
          reasoningDropped: this.#reasoningDropped,
        }),
      },
    ]);
  }

  #finishWithoutCalls(): TurnFinish {
    // A limit of the run cut the answer.
    if (this.#finish === undefined) return 'length';
    return this.#finish === 'tool_calls' ? 'other' : this.#finish;
  }

  /** `code` is that of the error, if one is the reason; `retry` says when the provider is called again. */
  discard(reason: DiscardReason, code?: string, retry?: EventOf<'turn.discarded'>['retry']): void {
    const opening = this.#opening();
    this.#discardedText = this.text;
    this.#run.journal.append([
      ...opening,
      {
        type: 'turn.discarded',
        ...this.#agentFields,
        turn: this.#turn,
        textId: this.#textId,
        after: this.#startedSeq ?? 0,
        reason,
        ...defined({ code, retry }),
        ...(this.finished ? { usage: priced(this.#run, this.#agent.model, this.#usage) } : {}),
      },
    ]);
  }

  /** A turn without output is not in the journal: there is nothing to discard. */
  discardIfStarted(reason: DiscardReason, code?: string): void {
    if (this.#startedSeq !== undefined) this.discard(reason, code);
  }

  #opening(): RunEvent[] {
    if (this.#startedSeq !== undefined) return [];
    this.#startedSeq = this.#run.state.seq + 1;
    return [
      {
        type: 'turn.started',
        ...this.#agentFields,
        turn: this.#turn,
        textId: this.#textId,
        reasoningId: this.#reasoningId,
        // The first turn follows `run.started`, which has it too.
        ...defined({
          progress:
            this.#agent.parentId === null && this.#turn > 1
              ? progressOf(this.#run.state)
              : undefined,
        }),
      },
    ];
  }

  /** Ids are made unique at the end of the turn, because other agents may call tools during it. */
  #toolCalls(): RunEvent[] {
    const used = usedCallIds(this.#run.loadedTranscripts);
    return this.#calls.map((call) => {
      const toolCallId = this.#unique(call.id, used);
      return {
        type: 'tool.called',
        ...this.#agentFields,
        toolCallId,
        ...(toolCallId === call.id ? {} : { providerCallId: call.id }),
        name: call.name,
        ...(this.#isClientTool(call.name) ? { via: 'client' as const } : {}),
        input: inputOf(call.arguments),
      };
    });
  }

  #isClientTool(name: string): boolean {
    return findTool(this.#run, this.#agent, name)?.client !== undefined;
  }

  #unique(id: string, used: Set<string>): string {
    const usable = id !== '' && id.length <= maxCallIdChars;
    const wanted = usable ? id : this.#run.engine.ids.next();
    let candidate = wanted;
    for (let n = 2; used.has(candidate); n += 1) candidate = `${wanted}~${n}`;
    used.add(candidate);
    return candidate;
  }
}

type Input = EventOf<'tool.called'>['input'];

/** Arguments that are not a JSON object stay text: the gate refuses them. */
function inputOf(text: string): Input {
  if (text.trim() === '') return {};
  if (isNestedTooDeep(text)) return text;
  try {
    const value = JSON.parse(text) as Input;
    return isObject(value) ? value : text;
  } catch {
    return text;
  }
}
