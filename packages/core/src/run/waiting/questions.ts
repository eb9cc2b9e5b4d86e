/**
 * Questions that a tool asks a person while it runs (`ctx.ask`).
 *
 * - A question is an approval of its own, of kind `question`; meanwhile its call stays `started`. A call
 *   may ask several; each is known by its place among them.
 * - A tool that is `idempotent` is let go while it waits: nothing stays in memory, and the run can be
 *   parked (E5). When all that it has asked is answered it runs again, and gets the answers by place.
 * - Any other tool waits in memory. If its process dies, its outcome is unknown like that of any call
 *   that was interrupted, and what it had asked is closed.
 * - A call is settled only when nothing that it asked is open any more (E6).
 */
import { catalogue, type EventOf, RelayError } from '@relay/protocol';
import { noApprover } from '../../permission/decide.ts';
import { checkSchema, digestOfQuestion } from './question-schema.ts';
import type { Question, Tool } from '../../ports/index.ts';
import type { Activity } from '../activity.ts';
import { agentFields, type AgentState } from '../state/agent.ts';
import type { CallState, QuestionState } from '../state/call.ts';
import { isHeadless } from './headless.ts';
import type { LiveRun } from '../live-run.ts';
import { openIn } from './open-questions.ts';
import { pathOf } from '../agents/profile.ts';
import { warningTime } from './expiry.ts';

export interface Asking {
  readonly intent: EventOf<'tool.started'>;
  readonly tool: Tool;
  readonly activity: Activity;
  readonly question: Question;
  /** Its place among the questions of this call. */
  readonly nth: number;
}

/** For a tool: asks its n-th question, or finds the answer where an earlier attempt had asked it. */
export async function askFor(run: LiveRun, asking: Asking): Promise<unknown> {
  const { intent, tool, activity, nth } = asking;
  const { toolCallId } = intent;
  if (isHeadless(run)) throw new RelayError('question_declined', noApprover);
  raiseOnce(run, asking);
  // Whoever answers must have been shown it.
  await run.journal.settled();
  if (questionIn(run, intent, nth).state === 'open') {
    if (tool.idempotent) {
      run.abandonTool(toolCallId);
      run.lookAgain();
      return new Promise<never>(() => undefined);
    }
    await run.answers.wait(questionIn(run, intent, nth).id, activity.signal);
    if (activity.stopped) throw stopError(run);
    await run.journal.settled();
  }
  const { state, answer, reason, approved } = questionIn(run, intent, nth);
  if (state === 'answered') return answer;
  // Whether somebody said no, or nobody said anything.
  const cause = approved === false ? 'declined' : 'unanswered';
  throw new RelayError('question_declined', reason ?? 'Nobody answers this question', { cause });
}

/** Nobody waits for what the tool would do with an answer. */
function stopError({ stop }: LiveRun): RelayError {
  if (stop !== undefined) return new RelayError('run_canceled', stop.reason);
  return new RelayError('limit_reached', 'The call was stopped: nobody is asked any more');
}

function raiseOnce(run: LiveRun, { intent, activity, question, nth }: Asking): void {
  const { toolCallId, agentId } = intent;
  const agent = run.state.agents[agentId];
  const call = agent === undefined ? undefined : callIn(agent, toolCallId);
  const isOver = !run.isRunning(toolCallId) || run.journal.closed;
  if (agent === undefined || call === undefined || isOver) {
    throw new RelayError('tool_failed', 'The call is over: it can ask nobody');
  }
  if (activity.stopped) throw stopError(run);
  const { prompt, schema } = checked(question);
  const digest = digestOfQuestion(run.engine, { prompt, schema });
  const known = call.questions?.[nth - 1];
  if (known?.digest === digest) return;
  if (known !== undefined) {
    throw new RelayError('tool_failed', 'The tool had asked something else in this place before');
  }
  const { clock, ids, settings } = run.engine;
  const now = clock.now();
  run.journal.append([
    {
      type: 'approval.requested',
      ...agentFields(agent),
      approvalId: ids.next(),
      toolCallId,
      kind: 'question',
      tool: call.name,
      params: call.input as EventOf<'approval.requested'>['params'],
      digest,
      question: { nth, prompt, schema },
      agentPath: pathOf(run.state, agent),
      expiresAt: new Date(now + settings.approvalTtlMs).toISOString(),
      warnsAt: new Date(warningTime(now, settings.approvalTtlMs)).toISOString(),
    },
  ]);
}

type Asked = NonNullable<EventOf<'approval.requested'>['question']>;

/** It comes from a tool's own code, and whatever enters the journal stays there. */
function checked(question: Question): Pick<Asked, 'prompt' | 'schema'> {
  const { question: declared } = catalogue['approval.requested'].schema.shape;
  const parsed = declared.safeParse({ nth: 1, ...question });
  if (!parsed.success || parsed.data === undefined) {
    throw new RelayError('invalid_request', 'The question is malformed');
  }
  const { prompt, schema } = parsed.data;
  checkSchema(schema);
  return { prompt, schema };
}

function questionIn(run: LiveRun, intent: EventOf<'tool.started'>, nth: number): QuestionState {
  const agent = run.state.agents[intent.agentId];
  const call = agent === undefined ? undefined : callIn(agent, intent.toolCallId);
  const found = call?.questions?.[nth - 1];
  if (found === undefined) throw new RelayError('tool_failed', 'The call is over');
  return found;
}

function callIn(agent: AgentState, toolCallId: string): CallState | undefined {
  return agent.turn?.calls.find((call) => call.toolCallId === toolCallId);
}

/** A tool that was let go while it asked, and that has all its answers. */
export function isReadyAgain(run: LiveRun, call: CallState): boolean {
  const { phase, via, questions = [], toolCallId } = call;
  if (phase !== 'started' || via !== undefined || questions.length === 0) return false;
  return openIn(call).length === 0 && !run.isRunning(toolCallId) && !run.hasResultOf(toolCallId);
}
