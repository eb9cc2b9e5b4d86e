/** What a model has said so far in one turn, on its way into the journal. */
import {
  addUsage,
  type EventOf,
  noUsage,
  type ProviderData,
  type RunEvent,
  type Usage,
} from '@relay/protocol';
import type { FinishReason, ModelEvent } from '../ports/index.ts';
import { agentFields, type AgentState } from './state/agent.ts';
import { isNestedTooDeep } from './json-depth.ts';
import type { LiveRun } from './live-run.ts';
import { priced } from './agents/price.ts';
import { findTool } from './agents/profile.ts';
import { usedCallIds } from './context/transcripts.ts';

type DiscardReason = EventOf<'turn.discarded'>['reason'];
type Called = Extract<ModelEvent, { type: 'tool-call' }>;

const maxCallIdChars = 200;

export class TurnInProgress {
  readonly #run: LiveRun;
  readonly #agent: AgentState;
  readonly #of: { agentId: string; parentId?: string };
  readonly #turn: number;
  readonly #textId: string;
  readonly #reasoningId: string;
  readonly #calls: Called[] = [];
  #startedSeq: number | undefined;
  #text = '';
  #finish: FinishReason | undefined;
  #usage: Usage = noUsage;
  #providerData: ProviderData | undefined;

  constructor(run: LiveRun, agent: AgentState) {
    this.#run = run;
    this.#agent = agent;
    this.#of = agentFields(agent);
    this.#turn = agent.iterations + 1;
    this.#textId = run.engine.ids.next();
    this.#reasoningId = run.engine.ids.next();
  }

  get finished(): boolean {
    return this.#finish !== undefined;
  }

  get text(): string {
    return this.#text;
  }

  /** In the closing turn no tool is offered; a model that calls one all the same is not heard. */
  get hasCalls(): boolean {
    return this.#calls.length > 0 && this.#agent.limit === null;
  }

  take(batch: readonly ModelEvent[]): void {
    const shown: RunEvent[] = [];
    for (const event of batch) {
      switch (event.type) {
        case 'text':
          this.#text += event.text;
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
          this.#calls.push(event);
          break;
        case 'finish':
          this.#finish = event.reason;
          this.#usage = addUsage(this.#usage, event.usage);
          this.#providerData = event.providerData;
          break;
      }
    }
    if (shown.length > 0) this.#run.journal.append([...this.#opening(), ...shown]);
  }

  /** Left for the gate to commit together with what it decides about the calls. */
  complete(): void {
    const calls = this.hasCalls ? this.#called() : [];
    this.#run.journal.stage([
      ...this.#opening(),
      ...calls,
      {
        type: 'turn.completed',
        ...this.#of,
        turn: this.#turn,
        finishReason: calls.length > 0 ? 'tool-calls' : (this.#finish ?? 'other'),
        usage: priced(this.#run, this.#agent.model, this.#usage),
        ...(this.#providerData === undefined ? {} : { providerData: this.#providerData }),
      },
    ]);
  }

  discard(reason: DiscardReason): void {
    const opening = this.#opening();
    this.#run.journal.append([
      ...opening,
      {
        type: 'turn.discarded',
        ...this.#of,
        turn: this.#turn,
        textId: this.#textId,
        after: this.#startedSeq ?? 0,
        reason,
        ...(this.finished ? { usage: priced(this.#run, this.#agent.model, this.#usage) } : {}),
      },
    ]);
  }

  /** Nothing has been said: there is nothing to take back. */
  discardIfBegun(reason: DiscardReason): void {
    if (this.#startedSeq !== undefined) this.discard(reason);
  }

  #opening(): RunEvent[] {
    if (this.#startedSeq !== undefined) return [];
    this.#startedSeq = this.#run.state.seq + 1;
    const { turn, textId, reasoningId } = {
      turn: this.#turn,
      textId: this.#textId,
      reasoningId: this.#reasoningId,
    };
    return [{ type: 'turn.started', ...this.#of, turn, textId, reasoningId }];
  }

  /** Ids are made unique when the turn is complete: other agents may have called tools meanwhile. */
  #called(): RunEvent[] {
    const used = usedCallIds(this.#run.knownTranscripts);
    return this.#calls.map((call) => {
      const toolCallId = this.#unique(call.id, used);
      return {
        type: 'tool.called',
        ...this.#of,
        toolCallId,
        ...(toolCallId === call.id ? {} : { providerCallId: call.id }),
        name: call.name,
        ...this.#whoRuns(call.name),
        input: parseArguments(call.arguments),
      };
    });
  }

  #whoRuns(name: string): { via?: 'client' } {
    const tool = findTool(this.#run, this.#agent, name);
    return tool?.client === undefined ? {} : { via: 'client' };
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
