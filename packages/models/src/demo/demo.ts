/**
 * The model `demo`: no key, no network, deterministic. Its output depends on the transcript only, so a
 * call can be repeated after a crash.
 */
import {
  type Clock,
  type Model,
  type ModelEvent,
  type TurnFinish,
  type ModelRequest,
  ProviderFailure,
  systemClock,
} from '@relay/core';
import { type Message, type MessageToolCall, textOf } from '@relay/protocol';
import { answerTo, type DemoResult, type DemoPlan, planFor } from './commands.ts';
import { callAborted } from '../http/provider-failure.ts';

export interface DemoModelOptions {
  readonly clock?: Pick<Clock, 'sleep'>;
}

type Stream = AsyncGenerator<readonly ModelEvent[], void, undefined>;

const tokensPerBatch = 4;
/** Then it yields to the event loop. */
const batchesPerTurn = 16;

export function createDemoModel({ clock = systemClock }: DemoModelOptions = {}): Model {
  return {
    async *stream(request, signal) {
      const { maxOutputTokens = Infinity } = request;
      let written = 0;
      for await (const batch of answer(request, clock, signal)) {
        const finish = batch.find(({ type }) => type === 'finish');
        const texts = batch.filter(({ type }) => type === 'text');
        const total =
          finish?.type === 'finish' ? finish.usage.outputTokens : written + texts.length;
        if (total > maxOutputTokens) {
          yield [
            ...texts.slice(0, maxOutputTokens - written),
            {
              type: 'finish',
              reason: 'length',
              usage: { inputTokens: tokensIn(request), outputTokens: maxOutputTokens },
            },
          ];
          return;
        }
        written += texts.length;
        yield batch;
        if (signal.aborted) throw callAborted();
      }
    },
  };
}

async function* answer(
  request: ModelRequest,
  clock: Pick<Clock, 'sleep'>,
  signal: AbortSignal,
): Stream {
  if (signal.aborted) throw callAborted();
  const plan = nextStep(request);
  const inputTokens = tokensIn(request);
  const finish = (reason: TurnFinish, outputTokens: number): ModelEvent => ({
    type: 'finish',
    reason,
    usage: { inputTokens, outputTokens },
  });
  switch (plan.kind) {
    case 'fail':
      throw new ProviderFailure(`The demo provider answered ${plan.status}`, {
        retryable: plan.status === 429 || plan.status >= 500,
      });
    case 'answer':
      yield* streamTokens(wordsOf(plan.text));
      yield [finish('stop', wordsOf(plan.text).length)];
      return;
    case 'say':
      yield* streamTokens(countTo(plan.tokens));
      yield [finish('stop', plan.tokens)];
      return;
    case 'wait': {
      const before = wordsOf(`I wait for ${plan.ms} ms`);
      yield* streamTokens(before);
      await clock.sleep(plan.ms, signal);
      if (signal.aborted) throw callAborted();
      yield [textEvent(' and'), textEvent(' go'), textEvent(' on.')];
      yield [finish('stop', before.length + 3)];
      return;
    }
    case 'call': {
      const words = wordsOf(plan.text);
      const first = callsIn(request.messages).length + 1;
      yield* streamTokens(words);
      const calls = plan.calls.map((call, index): ModelEvent => ({
        type: 'tool-call',
        id: `call_${first + index}`,
        ...call,
      }));
      const written = plan.calls.reduce((sum, call) => sum + tokensOf(call.arguments), 0);
      yield [...calls, finish('tool_calls', words.length + calls.length + written)];
    }
  }
}

/** Reports the results of the last tool calls, or follows the last user message. */
function nextStep({ messages, tools }: ModelRequest): DemoPlan {
  const lastUser = messages.findLastIndex(({ role }) => role === 'user');
  const since = messages.slice(lastUser + 1);
  const results = callsIn(since).map((call): DemoResult => ({
    call,
    result: resultOf(call.id, since),
  }));
  if (results.length > 0) return { kind: 'answer', text: answerTo(results) };
  return planFor(textOf(messages[lastUser]?.content ?? ''), new Set(tools.map(({ name }) => name)));
}

function callsIn(messages: readonly Message[]): MessageToolCall[] {
  return messages.flatMap((message) =>
    message.role === 'assistant' ? (message.tool_calls ?? []) : [],
  );
}

function resultOf(callId: string, messages: readonly Message[]): string | undefined {
  const result = messages.find(
    (message) => message.role === 'tool' && message.tool_call_id === callId,
  );
  return result === undefined ? undefined : textOf(result.content);
}

/** Words with the space before them, so that joined they form the text. */
function wordsOf(text: string): string[] {
  return text.match(/\s*\S+/g) ?? [];
}

function* countTo(tokens: number): Generator<string, void, undefined> {
  for (let n = 1; n <= tokens; n += 1) yield n === 1 ? '1' : ` ${n}`;
}

async function* streamTokens(tokens: Iterable<string>): Stream {
  let batch: ModelEvent[] = [];
  let batches = 0;
  for (const token of tokens) {
    batch.push(textEvent(token));
    if (batch.length < tokensPerBatch) continue;
    yield batch;
    batch = [];
    batches += 1;
    if (batches % batchesPerTurn === 0) await new Promise(setImmediate);
  }
  if (batch.length > 0) yield batch;
}

function textEvent(text: string): ModelEvent {
  return { type: 'text', text };
}

/** Four characters per token. */
function tokensOf(text: string): number {
  return Math.ceil(text.length / 4);
}

function tokensIn({ messages }: ModelRequest): number {
  return messages.reduce((sum, { content }) => sum + tokensOf(textOf(content)), 0);
}
