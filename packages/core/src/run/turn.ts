/**
 * One turn: call the model, and write its output to the journal as it streams.
 *
 * A turn enters the journal with its first output. Text is published piece by piece; the tool calls
 * enter together with `turn.completed`, in one commit, so that a turn which a crash interrupts leaves
 * no unsettled call (E6).
 *
 * Turns of several agents run side by side, and none waits for another.
 */
import {
  type FieldIssue,
  issuesOfAnswer,
  type JsonSchema,
  type Message,
  RelayError,
  type RunError,
} from '@relay/protocol';
import { type Model, type ModelRequest, ProviderFailure } from '../ports/index.ts';
import type { AdmittedRequest } from '../governance/budgets.ts';
import type { Activity } from './activity.ts';
import { charsOfBatch } from './answer-limit.ts';
import { errorText, isStoreFault, textOfIssues } from './errors.ts';
import type { LiveRun } from './live-run.ts';
import { TurnInProgress } from './turn-in-progress.ts';
import { checkInput, checkOutput, hasOutputGuardrails } from './agents/guardrails.ts';
import { finalTurnInstruction } from './agents/limits.ts';
import { answerFields, offeredTools, profileOf } from './agents/profile.ts';
import { compactAfterRefusal, compactBeforeTurn } from './context/compaction.ts';
import { recall } from './context/memory.ts';
import { type Transcript, transcriptOf } from './context/transcript.ts';
import { exponentialBackoff } from '../runtime/backoff.ts';
import { eventLoop } from '../runtime/event-loop-budget.ts';
import type { AgentState } from './state/agent.ts';

export type TurnOutcome =
  | { readonly kind: 'completed' }
  | { readonly kind: 'stopped' }
  | { readonly kind: 'failed'; readonly error: RunError };

/** A model that streams faster than the store commits waits at this many events or characters. */
const maxBacklog = 4096;
const maxBacklogChars = 128 * 1024;

/** Rejects if the store failed, or Relay has a bug: this node abandons the run. */
export async function takeTurn(
  run: LiveRun,
  agent: AgentState,
  activity: Activity,
): Promise<TurnOutcome> {
  const { engine } = run;
  const model = engine.models(run.identity.tenantId).resolve(agent.model);
  if (model === undefined) {
    return failed('unknown_model', `No provider offers the model ${agent.model}`);
  }
  const transcript = transcriptOf(await run.transcripts(), agent);
  const isFirst = agent.iterations === 0;
  const input = isFirst ? inputOf(run, transcript) : addedTo(transcript);
  if (input.length > 0) {
    const error = await checkInput(run, agent, activity, input);
    if (activity.stopped) return stopped(run, agent);
    if (error !== undefined) return { kind: 'failed', error };
  }
  if (isFirst) {
    await recall(run, agent, activity);
    if (activity.stopped) return stopped(run, agent);
  }
  await compactBeforeTurn({ run, agent, activity, model }, await requestFor(run, agent));
  let wasTooLong = false;
  let waitedMs = 0;
  /** Asks the model once to correct an answer; this is not part of the conversation. */
  let correction: readonly Message[] = [];
  for (let attempt = 1; ; attempt += 1) {
    const turn = new TurnInProgress(run, agent);
    let admitted: AdmittedRequest | undefined;
    try {
      admitted = await run.reservation.admit(await requestFor(run, agent, correction));
      const { request } = admitted;
      const isFinished = await consumeStream(run, activity, model, request, turn);
      if (!isFinished) return stopped(run, agent, turn);
      if (admitted.isShortened && turn.isCut) {
        if (hasOutputGuardrails(run, agent)) turn.discard('guardrail', 'budget_exceeded');
        else turn.complete();
        const { maxOutputTokens } = request;
        const message = `The budget allowed ${maxOutputTokens} tokens for the answer, which needed more`;
        return failed('budget_exceeded', message);
      }
      if (turn.end.finish === 'context_exceeded') {
        const isShorter =
          !wasTooLong && (await compactAfterRefusal({ run, agent, activity, model }));
        wasTooLong = true;
        if (activity.stopped) return stopped(run, agent, turn);
        if (isShorter) {
          turn.discard('retry', 'context_exceeded');
          continue;
        }
      }
      const answer = turn.text;
      const issues = turn.hasCalls ? [] : outputIssues(request.outputSchema, answer);
      // No guardrail has checked the text of a turn that is no answer: then it is not shown.
      const isShown = !hasOutputGuardrails(run, agent);
      const unanswered = errorOfEnd(turn, { answer, isShown, isInvalid: issues.length > 0 });
      if (unanswered !== undefined) {
        // The turn stays in the journal: it was paid for, and its end says why there is no answer.
        if (answer !== '' && (!isShown || answer.trim() === '')) {
          turn.discard('guardrail', unanswered.code);
        } else turn.complete();
        return { kind: 'failed', error: unanswered };
      }
      if (issues.length > 0) {
        turn.discard('schema', 'output_invalid');
        if (correction.length > 0) {
          const cut = turn.end.finish === 'length' ? ' (it was cut at the token limit)' : '';
          const message = `The answer does not match the output schema${cut}: ${textOfIssues(issues)}`;
          return failed('output_invalid', message);
        }
        correction = correctionMessages(answer, issues);
        continue;
      }
      const error = turn.hasCalls ? undefined : await checkOutput(run, agent, activity, answer);
      if (activity.stopped) return stopped(run, agent, turn);
      if (error !== undefined) {
        turn.discard('guardrail', error.code);
        return { kind: 'failed', error };
      }
      turn.complete();
      return { kind: 'completed' };
    } catch (cause) {
      // Not a failure of the model: the credential or the transcript could not be read.
      if (run.journal.broken || isStoreFault(cause)) throw cause;
      if (activity.stopped) return stopped(run, agent, turn);
      if (cause instanceof RelayError) return failed(cause.code, cause.message);
      const failure = asProviderFailure(cause);
      if (failure.contextExceeded) {
        turn.discardIfStarted('retry', failure.toRunError().code);
        const isShorter =
          !wasTooLong && (await compactAfterRefusal({ run, agent, activity, model }));
        wasTooLong = true;
        if (isShorter) continue;
        if (activity.stopped) return stopped(run, agent);
        return { kind: 'failed', error: failure.toRunError() };
      }
      const { providerAttempts, providerWaitMs } = engine.settings;
      const leftMs = providerWaitMs - waitedMs;
      // A provider that asks for a longer wait than is left has failed.
      const tooLate = leftMs <= 0 || (failure.retryAfterMs ?? 0) > leftMs;
      const waitMs = Math.min(leftMs, backoffMs(attempt, failure.retryAfterMs));
      const isOver =
        tooLate || attempt >= providerAttempts || isReportedNow(run, agent, failure, waitMs);
      if (!failure.retryable || isOver) {
        return { kind: 'failed', error: failure.toRunError() };
      }
      const delayMs = Math.round(waitMs);
      turn.discard('retry', failure.toRunError().code, { attempt, delayMs });
      waitedMs += waitMs;
      await engine.clock.sleep(waitMs, activity.signal);
      if (activity.stopped) return stopped(run, agent);
    } finally {
      admitted?.release();
    }
  }
}

/** The messages that the agent works on. A fork also has those that its source had not answered. */
function inputOf({ spec }: LiveRun, { messages, runStart }: Transcript): readonly Message[] {
  if (spec.forkedFrom === undefined) return messages.slice(runStart);
  const answered = messages.findLastIndex(({ role }) => role === 'assistant') + 1;
  return messages.slice(Math.min(runStart, answered));
}

/** The messages that were added since the model's last answer and its results. */
function addedTo({ messages }: Transcript): readonly Message[] {
  return messages.slice(
    messages.findLastIndex(({ role }) => role === 'assistant' || role === 'tool') + 1,
  );
}

/**
 * The turn was stopped. One that a message interrupted is discarded, and begins again. In the final
 * turn, partial text counts as the answer, unless a guardrail would have to check it or it does not
 * match the output schema.
 */
function stopped(run: LiveRun, agent: AgentState, turn?: TurnInProgress): TurnOutcome {
  const isOver = run.state.agents[agent.id]?.ended !== null;
  const isContinued = !isOver && run.stop === undefined && !run.journal.broken;
  if (isContinued && run.isInterrupted(agent.id)) turn?.discardIfStarted('message');
  if (agent.limit === null || !isContinued) return { kind: 'stopped' };
  const { outputSchema } = profileOf(run, agent);
  const counts =
    turn !== undefined &&
    !hasOutputGuardrails(run, agent) &&
    outputIssues(outputSchema, turn.text).length === 0;
  if (!counts) turn?.discardIfStarted('limit');
  (counts ? turn : new TurnInProgress(run, agent)).complete();
  return { kind: 'completed' };
}

/** Adds the model's output to the turn; false if it was stopped before the model finished. */
async function consumeStream(
  run: LiveRun,
  activity: Activity,
  model: Model,
  request: ModelRequest,
  turn: TurnInProgress,
): Promise<boolean> {
  if (activity.stopped) return false;
  const batches = model.stream(request, activity.signal)[Symbol.asyncIterator]();
  let isOver = false;
  let settledChars = 0;
  try {
    while (!isOver) {
      const next = await activity.unlessStopped(batches.next());
      if (next === undefined || activity.stopped || run.journal.broken) return false;
      if (next.done === true) {
        isOver = true;
      } else {
        const share = eventLoop.take(charsOfBatch(next.value));
        if (share !== undefined) await activity.unlessStopped(share);
        if (activity.stopped || run.journal.broken) return false;
        turn.add(next.value);
      }
      if (run.journal.backlog > maxBacklog || turn.chars - settledChars > maxBacklogChars) {
        await run.journal.settled();
        settledChars = turn.chars;
      }
      if (!run.memory.mayGrow) await activity.unlessStopped(run.memory.wait());
    }
  } finally {
    // Aborts the request.
    if (!isOver) void batches.return?.().catch(() => undefined);
  }
  if (turn.finished) return true;
  throw new ProviderFailure('The model’s response was cut off', { retryable: true });
}

/**
 * Why a finished turn is no answer: the model refused, the provider's filter blocked it, or the window
 * was full. A refusal in words is an answer, unless it had to match a schema.
 */
function errorOfEnd(
  turn: TurnInProgress,
  { answer, isShown, isInvalid }: { answer: string; isShown: boolean; isInvalid: boolean },
): RunError | undefined {
  const { finish, detail } = turn.end;
  const word = detail === undefined || detail === finish ? '' : ` (${detail})`;
  switch (finish) {
    case 'refusal':
    case 'content_filter': {
      const words = answer.trim();
      if (words !== '' && !isInvalid) return undefined;
      const said = isShown && words !== '' ? `: ${words.slice(0, 500).toWellFormed()}` : '';
      return finish === 'refusal'
        ? runError('model_refused', `The model refused to answer${word}${said}`)
        : runError(
            'content_filtered',
            `The provider’s content filter blocked the answer${word}${said}`,
          );
    }
    case 'context_exceeded':
      return runError(
        'context_exceeded',
        'The model’s context window was full before its answer was finished, and the conversation ' +
          'could not be shortened',
      );
    case 'other':
      if (turn.hasCalls || answer !== '') return undefined;
      throw new ProviderFailure(`The provider ended its answer without any output${word}`, {
        retryable: true,
      });
    default:
      return undefined;
  }
}

function outputIssues(schema: JsonSchema | undefined, answer: string): readonly FieldIssue[] {
  return schema === undefined ? [] : issuesOfAnswer(schema, answer);
}

/** The rejected answer and the request to correct it. */
function correctionMessages(answer: string, issues: readonly FieldIssue[]): readonly Message[] {
  const request: Message = {
    role: 'user',
    content:
      `Your answer does not match the required JSON Schema: ${textOfIssues(issues)}. ` +
      'Reply with only the JSON value, without other text or a code fence.',
  };
  return answer === '' ? [request] : [{ role: 'assistant', content: answer }, request];
}

async function requestFor(
  run: LiveRun,
  agent: AgentState,
  correction: readonly Message[] = [],
): Promise<ModelRequest> {
  const transcript = transcriptOf(await run.transcripts(), agent);
  const profile = profileOf(run, agent);
  const { system } = profile;
  const { model, limit } = agent;
  const messages: readonly Message[] = [
    ...(system === undefined ? [] : [{ role: 'system', content: system } as const]),
    ...(transcript.recalled === null ? [] : [transcript.recalled]),
    ...transcript.messages,
    ...(limit === null ? [] : [finalTurnInstruction(limit)]),
    ...correction,
  ];
  const offered = limit === null ? offeredTools(run, agent) : [];
  const tools = offered.map(({ name, description, inputSchema }) => ({
    name,
    description,
    inputSchema,
  }));
  const { maxAnswerChars } = run.engine.settings;
  return { model, messages, tools, maxAnswerChars, ...answerFields(profile) };
}

function failed(code: string, message: string): TurnOutcome {
  return { kind: 'failed', error: runError(code, message) };
}

function runError(code: string, message: string): RunError {
  return { code, message, retryable: false };
}

function asProviderFailure(cause: unknown): ProviderFailure {
  if (cause instanceof ProviderFailure) return cause;
  return new ProviderFailure(`The model failed: ${errorText(cause)}`, { retryable: false });
}

/**
 * How long `POST /v1/runs` waits for the first output before it begins its response. A provider that
 * fails until then is reported with a 502.
 */
export const firstOutputTimeoutMs = 5_000;
/** Until the failure is stored. */
const reportingMs = 500;

/**
 * The caller still waits for the response, and would no longer do so at the next attempt: a failure is
 * reported now, as a status that the caller can act on. A provider that asks for a wait is waited for.
 */
function isReportedNow(
  { engine, identity }: LiveRun,
  agent: AgentState,
  { retryAfterMs }: ProviderFailure,
  waitMs: number,
): boolean {
  const isFirst = agent.parentId === null && agent.iterations === 0;
  if (identity.surface !== 'runs' || !isFirst || retryAfterMs !== undefined) return false;
  const leftMs = identity.createdAt + firstOutputTimeoutMs - reportingMs - engine.clock.now();
  return leftMs > 0 && waitMs > leftMs;
}

const backoffMaxMs = 30_000;

/** Exponential with jitter, and never sooner than the provider asked for. */
export function backoffMs(attempt: number, retryAfterMs = 0): number {
  return Math.max(retryAfterMs, exponentialBackoff(attempt, backoffMaxMs));
}
