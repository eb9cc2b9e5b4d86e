/**
 * Questions that a tool asks a person while it runs (`ctx.ask`).
 *
 * - A question is an approval of kind `question`; its call stays `started`. A call may ask several
 *   questions, which are identified by their order.
 * - An `idempotent` tool is suspended while it waits: its attempt ends with `ToolSuspended`, nothing
 *   stays in memory, and the run can be suspended (E5). When all its questions are answered, it runs
 *   again and receives the answers in order.
 * - Any other tool waits in memory. If its process dies, its outcome is unknown like that of any
 *   interrupted call, and its open questions are closed. If a person lets it run again, it receives the
 *   answers that were given, and asks the closed questions again.
 * - A call is settled only when none of its questions is open (E6).
 */
import {
  canonicalJson,
  catalogue,
  type EventOf,
  issuesOfValue,
  problemWith,
  readAnswerSchema,
  RelayError,
  type ToolSchema,
  type Validation,
} from '@relay/protocol';
import { noApprover } from '../../permission/decide.ts';
import { type Question, type Tool, ToolSuspended } from '../../ports/index.ts';
import type { Activity } from '../activity.ts';
import type { LiveRun } from '../live-run.ts';
import { isObject } from '../arguments.ts';
import { type AgentState, openCalls } from '../state/agent.ts';
import { type CallState, openQuestionsOf, type QuestionState } from '../state/call.ts';
import { callOf, liveAgents, type RunState } from '../state/state.ts';
import { questionRequested } from './approvals.ts';

interface QuestionRequest {
  readonly intent: EventOf<'tool.started'>;
  readonly tool: Tool;
  readonly activity: Activity;
  readonly question: Question<ToolSchema>;
  /** The number of the question within its call, from 1. */
  readonly nth: number;
}

/** For a tool: asks its n-th question, or returns the answer to it from an earlier attempt. */
export async function askFor(run: LiveRun, request: QuestionRequest): Promise<unknown> {
  const { intent, tool, activity, nth } = request;
  if (run.isHeadless) throw new RelayError('question_declined', noApprover);
  const { parse, ...asked } = checkQuestion(request.question);
  requestOnce(run, request, asked);
  // The question is stored before anything depends on it (E1).
  await run.journal.settled();
  if (questionIn(run, intent, nth).state === 'open') {
    if (tool.idempotent) {
      run.abandonTool(intent.toolCallId);
      run.markChanged();
      throw new ToolSuspended();
    }
    await run.answerWaiters.wait(questionIn(run, intent, nth).id, activity.signal);
    if (activity.stopped) throw stopError(run);
    await run.journal.settled();
  }
  const { state, answer, reason, approved } = questionIn(run, intent, nth);
  if (state === 'answered') return parsed(parse(answer));
  const cause = approved === false ? 'declined' : 'unanswered';
  throw new RelayError('question_declined', reason ?? 'The question was not answered', { cause });
}

/** The form of the person who answered knows only the JSON Schema. */
function parsed(validation: Validation): unknown {
  if (validation.ok) return validation.value;
  const [first] = validation.issues;
  const where = first === undefined || first.path === '' ? '' : `${first.path}: `;
  throw new RelayError('invalid_request', `The answer is invalid: ${where}${first?.message}`);
}

function stopError({ stop }: LiveRun): RelayError {
  if (stop !== undefined) return new RelayError('run_canceled', stop.reason);
  return new RelayError('limit_reached', 'The tool call was stopped, so it cannot ask a question');
}

function requestOnce(
  run: LiveRun,
  { intent, activity, nth }: QuestionRequest,
  { prompt, schema }: Pick<AskedQuestion, 'prompt' | 'schema'>,
): void {
  const { toolCallId, agentId } = intent;
  const agent = run.state.agents[agentId];
  const call = callOf(run.state, intent);
  const isOver = !run.isCurrent(toolCallId, activity) || run.journal.closed;
  if (agent === undefined || call === undefined || isOver) {
    throw new RelayError('tool_failed', 'The tool call has ended, so it cannot ask a question');
  }
  if (activity.stopped) throw stopError(run);
  const digest = run.engine.digest(canonicalJson({ prompt, schema }));
  const known = call.questions?.[nth - 1];
  if (known?.digest === digest && known.state !== 'closed') return;
  if (known !== undefined && known.state !== 'closed') {
    const message = `Question ${nth} of the tool differs from that of its earlier attempt`;
    throw new RelayError('tool_failed', message);
  }
  run.journal.append([questionRequested(run, agent, call, { nth, prompt, schema }, digest)]);
}

type AskedQuestion = NonNullable<EventOf<'approval.requested'>['question']>;

interface CheckedQuestion extends Pick<AskedQuestion, 'prompt' | 'schema'> {
  readonly parse: (answer: unknown) => Validation;
}

/** Questions come from a tool's code, and what enters the journal must be valid. */
export function checkQuestion(question: Question<ToolSchema>): CheckedQuestion {
  const { question: declared } = catalogue['approval.requested'].schema.shape;
  const malformed = () => new RelayError('invalid_request', 'The question is malformed');
  if (!isObject(question.schema)) throw malformed();
  const { parse, schema: asked } = readAnswerSchema(question.schema);
  const checked = declared.safeParse({ nth: 1, prompt: question.prompt, schema: asked });
  if (!checked.success || checked.data === undefined) throw malformed();
  const { prompt, schema } = checked.data;
  const problem = problemWith(schema);
  if (problem === undefined) return { prompt, schema, parse };
  throw new RelayError('invalid_request', `The schema of the question is invalid: ${problem}`);
}

/** Throws `invalid_request` with the path of each field of the answer that does not fit the schema. */
export function checkAnswer(schema: Question['schema'], input: unknown): void {
  const details = issuesOfValue(schema, input).map(({ path, message }) => ({
    path: path === '' ? 'input' : `input${path.startsWith('[') ? '' : '.'}${path}`,
    message,
  }));
  const [first] = details;
  if (first === undefined) return;
  throw new RelayError('invalid_request', `${first.path}: ${first.message}`, { details });
}

function questionIn(run: LiveRun, intent: EventOf<'tool.started'>, nth: number): QuestionState {
  const found = callOf(run.state, intent)?.questions?.[nth - 1];
  if (found === undefined) throw new RelayError('tool_failed', 'The tool call has ended');
  return found;
}

/** Whether a suspended tool has all its answers. */
export function isReadyToResume(run: LiveRun, call: CallState): boolean {
  const { phase, via, questions = [], toolCallId } = call;
  if (phase !== 'started' || via !== undefined || questions.length === 0) return false;
  if (openQuestionsOf(call).length > 0) return false;
  return !run.isRunning(toolCallId) && !run.hasResultOf(toolCallId);
}

/**
 * Whether a run that is not suspended continues only with an answer: a tool that is not idempotent
 * waits for it in memory. No event says so. (An idempotent tool is suspended when it asks, and then
 * its run is.)
 */
export function isWaitingForAnswer(
  state: RunState,
  isIdempotent: (tool: string) => boolean,
): boolean {
  const agents = liveAgents(state);
  if (state.status !== 'running' || !agents.every(isAgentWaiting)) return false;
  return agents.some((agent) =>
    openCalls(agent).some((call) => hasOpenQuestion(call) && !isIdempotent(call.name)),
  );
}

/** Its model is not running, and each of its calls waits for a person, a client or other agents. */
function isAgentWaiting(agent: AgentState): boolean {
  const calls = openCalls(agent);
  return calls.length > 0 && agent.turn?.finish !== null && calls.every(isCallWaiting);
}

function isCallWaiting(call: CallState): boolean {
  const { phase, via } = call;
  return phase === 'asking' || via === 'client' || via === 'agent' || hasOpenQuestion(call);
}

function hasOpenQuestion(call: CallState): boolean {
  return call.phase === 'started' && openQuestionsOf(call).length > 0;
}

/** Tools that wait in memory for an answer, by approval. */
export class AnswerWaiters {
  readonly #waiters = new Map<string, PromiseWithResolvers<void>>();

  /** Resolves when the answer is in the journal, or the tool is stopped. */
  async wait(approvalId: string, signal: AbortSignal): Promise<void> {
    const waiter = this.#waiters.get(approvalId) ?? Promise.withResolvers<void>();
    this.#waiters.set(approvalId, waiter);
    const stop = () => this.notify(approvalId);
    signal.addEventListener('abort', stop);
    if (signal.aborted) stop();
    await waiter.promise;
    signal.removeEventListener('abort', stop);
  }

  notify(approvalId: string): void {
    this.#waiters.get(approvalId)?.resolve();
    this.#waiters.delete(approvalId);
  }
}
