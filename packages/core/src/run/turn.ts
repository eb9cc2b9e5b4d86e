/**
 * One turn: ask the model, and put what it says into the journal as it comes.
 *
 * A turn enters the journal with its first words. Text is shown piece by piece; the tool calls enter
 * together with `turn.completed`, in one commit, so that a turn which a crash cuts short leaves no
 * call behind that nobody would settle (E6).
 *
 * Turns of several agents go on side by side. Nothing here waits for another agent.
 */
import { type Message, RelayError, type RunError } from '@relay/protocol';
import { type Model, type ModelRequest, ProviderFailure } from '../ports/index.ts';
import type { Activity } from './activity.ts';
import type { AgentState } from './state/agent.ts';
import { backoffMs, maxRetryAfterMs } from './backoff.ts';
import { compactAfterRefusal, compactInTime } from './context/compaction.ts';
import { textOfError } from './error-text.ts';
import { checkInput, checkOutput, guardsOutput } from './agents/guardrails.ts';
import { correctionOf, corrected, shapeError, shapeIssues } from './agents/answer-shape.ts';
import { closingInstruction } from './agents/limits.ts';
import type { LiveRun } from './live-run.ts';
import { recall } from './context/memory.ts';
import { answerFields, offeredTools, profileOf } from './agents/profile.ts';
import type { Transcript } from './context/transcript.ts';
import { transcriptOf } from './context/transcripts.ts';
import { TurnInProgress } from './turn-in-progress.ts';

export type TurnOutcome =
  | { readonly kind: 'completed' }
  | { readonly kind: 'stopped' }
  | { readonly kind: 'failed'; readonly error: RunError }
  /** The journal broke, or we have a fault: the run is given up here. */
  | { readonly kind: 'broken'; readonly error: unknown };

/** A model that streams faster than the store commits is held back here. */
const maxBacklog = 4096;

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
  if (agent.iterations === 0) {
    const said = newIn(run, transcriptOf(await run.transcripts(), agent));
    const error = await checkInput({ run, agent, activity }, said);
    if (activity.stopped) return stopped(run, agent);
    if (error !== undefined) return { kind: 'failed', error };
    await recall({ run, agent, activity });
    if (activity.stopped) return stopped(run, agent);
  }
  await compactInTime({ run, agent, activity, model }, await requestFor(run, agent));
  let refused = false;
  /** What is said to the model about an answer of the wrong shape. */
  let correction: readonly Message[] = [];
  for (let attempt = 1; ; attempt += 1) {
    const turn = new TurnInProgress(run, agent);
    try {
      const request = corrected(await requestFor(run, agent), correction);
      if (!(await listen({ run, activity, model }, request, turn)))
        return stopped(run, agent, turn);
      const issues = turn.hasCalls ? [] : shapeIssues(request, turn.text);
      if (issues.length > 0) {
        turn.discard('schema');
        if (correction.length > 0) return failed('output_invalid', shapeError(issues));
        correction = correctionOf(turn.text, issues);
        continue;
      }
      const error = turn.hasCalls
        ? undefined
        : await checkOutput({ run, agent, activity }, turn.text);
      if (activity.stopped) return stopped(run, agent, turn);
      if (error !== undefined) {
        turn.discard('guardrail');
        return { kind: 'failed', error };
      }
      turn.complete();
      return { kind: 'completed' };
    } catch (cause) {
      if (run.journal.broken) throw cause;
      if (activity.stopped) return stopped(run, agent, turn);
      if (cause instanceof RelayError) return failed(cause.code, cause.message);
      const failure = asProviderFailure(cause);
      if (failure.contextExceeded) {
        turn.discardIfBegun('retry');
        const less = !refused && (await compactAfterRefusal({ run, agent, activity, model }));
        refused = true;
        if (less) continue;
        if (activity.stopped) return stopped(run, agent);
        return { kind: 'failed', error: failure.toRunError() };
      }
      const tooLate = (failure.retryAfterMs ?? 0) > maxRetryAfterMs;
      if (!failure.retryable || tooLate || attempt >= engine.settings.providerAttempts) {
        return { kind: 'failed', error: failure.toRunError() };
      }
      turn.discard('retry');
      await engine.clock.sleep(backoffMs(attempt, failure.retryAfterMs), activity.signal);
      if (activity.stopped) return stopped(run, agent);
    }
  }
}

/** What the agent is to work on. A fork also has what nobody had answered where it was forked. */
function newIn({ spec }: LiveRun, { messages, runStart }: Transcript): readonly Message[] {
  if (spec.forkedFrom === undefined) return messages.slice(runStart);
  const answered = messages.findLastIndex(({ role }) => role === 'assistant') + 1;
  return messages.slice(Math.min(runStart, answered));
}

/**
 * Somebody stopped it. A last answer counts as far as it came, because no other is waited for; not
 * so what a guardrail has not looked at, or what has not got the shape that is asked for.
 */
function stopped(run: LiveRun, agent: AgentState, turn?: TurnInProgress): TurnOutcome {
  const isOver = run.state.agents[agent.id]?.ended !== null;
  if (agent.limit === null || isOver || run.stop !== undefined || run.journal.broken) {
    return { kind: 'stopped' };
  }
  const wanted = answerFields(profileOf(run, agent));
  const counts =
    turn !== undefined && !guardsOutput(run, agent) && shapeIssues(wanted, turn.text).length === 0;
  if (!counts) turn?.discardIfBegun('limit');
  (counts ? turn : new TurnInProgress(run, agent)).complete();
  return { kind: 'completed' };
}

interface Listening {
  readonly run: LiveRun;
  readonly activity: Activity;
  readonly model: Model;
}

/** Takes in all that the model says; false if nobody wants to hear it any more. */
async function listen(
  { run, activity, model }: Listening,
  request: ModelRequest,
  turn: TurnInProgress,
): Promise<boolean> {
  if (activity.stopped) return false;
  const batches = model.stream(request, activity.signal)[Symbol.asyncIterator]();
  for (;;) {
    const next = await activity.unlessStopped(batches.next());
    if (next === undefined || activity.stopped || run.journal.broken) {
      void batches.return?.().catch(() => undefined);
      return false;
    }
    if (next.done === true) break;
    turn.take(next.value);
    if (run.journal.backlog > maxBacklog) await run.journal.settled();
  }
  if (!turn.finished) throw endedTooSoon();
  return true;
}

async function requestFor(run: LiveRun, agent: AgentState): Promise<ModelRequest> {
  const transcript = transcriptOf(await run.transcripts(), agent);
  const { system } = profileOf(run, agent);
  const messages: readonly Message[] = [
    ...(system === undefined ? [] : [{ role: 'system', content: system } as const]),
    ...(transcript.recalled === null ? [] : [transcript.recalled]),
    ...transcript.messages,
  ];
  const { model, limit } = agent;
  const wanted = answerFields(profileOf(run, agent));
  if (limit !== null) {
    return { model, messages: [...messages, closingInstruction(limit)], tools: [], ...wanted };
  }
  const tools = offeredTools(run, agent).map(({ name, description, inputSchema }) => ({
    name,
    description,
    inputSchema,
  }));
  return { model, messages, tools, ...wanted };
}

function failed(code: string, message: string): TurnOutcome {
  return { kind: 'failed', error: { code, message, retryable: false } };
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
