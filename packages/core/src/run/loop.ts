/**
 * The one loop. Of each agent it asks the model, lets its calls through the gate, waits for what they
 * bring, and asks again, until the run is settled, has to wait for a person, or this node must let go
 * of it. Model calls and tools go on beside it; whatever they bring wakes it, and only it decides.
 *
 *   settled    the run is over: one terminal event is stored (E6)
 *   suspended  nothing can go on without a person or a client; the lease is given back, nothing stays in memory (E5)
 *   yielded    this node lets go; the journal holds all another one needs
 */
import type { RunError } from '@relay/protocol';
import { agentFields, type AgentState } from './state/agent.ts';
import { expireClientCalls, resultTimes } from './waiting/client-calls.ts';
import { gate } from './gate.ts';
import { handOver } from './agents/handoff.ts';
import { limitBeforeTurn } from './agents/limits.ts';
import type { LiveRun } from './live-run.ts';
import { type Command, decide } from './state/machine.ts';
import { applyCommands, expireApprovals, isAnswerDue, startApproved } from './waiting/inbox.ts';
import { type LeftBehind, leftBehind } from './context/memory.ts';
import { isReadyAgain } from './waiting/questions.ts';
import { recover, takeUpCalls } from './recover.ts';
import { endSubAgent, reachedLimit, takeResults } from './agents/spawn.ts';
import { liveAgents, pendingApprovals, rootAgent } from './state/state.ts';
import { endingTimes, endTime } from './waiting/time.ts';
import { trustOf } from './state/trust.ts';
import { takeTurn } from './turn.ts';
import { nextLook, warnOfExpiry } from './waiting/expiry.ts';

export type Outcome = 'settled' | 'suspended' | 'yielded';

export async function drive(run: LiveRun): Promise<Outcome> {
  await run.noticeCancel();
  await recover(run);
  for (;;) {
    if (run.stop === undefined) takeResults(run);
    const error = takeTurnEnds(run);
    // One moment for a whole round: a time that passes while something is stored is not skipped.
    const now = run.engine.clock.now();
    if (isAnswerDue(run, now)) await run.checkInbox();
    await applyCommands(run);
    expireApprovals(run, now);
    expireClientCalls(run, now);
    warnOfExpiry(run, now);
    endTime(run, now);
    if (run.stop?.kind === 'cancel') return cancel(run, run.stop.reason);
    if (run.stop?.kind === 'yield') return letGo(run);
    if (error !== undefined) return fail(run, error);
    if (await moveAgents(run)) continue;
    const first = rootAgent(run.state);
    if (first !== undefined && nextStep(run, first) === 'finish') return complete(run, first);
    if (!run.isAtWork) return suspend(run);
    // What there is so far is shown while the rest is still at work.
    if (run.journal.backlog > 0 || run.journal.broken) await run.journal.settled();
    await somethingHappens(run, now);
  }
}

/** Lets every agent do what it can do now; false if all of them wait for something. */
async function moveAgents(run: LiveRun): Promise<boolean> {
  let moved = false;
  for (const { id } of liveAgents(run.state)) {
    const agent = run.state.agents[id];
    if (agent === undefined || agent.ended !== null || run.stop !== undefined) continue;
    moved = (await move(run, agent)) || moved;
  }
  return moved;
}

async function move(run: LiveRun, agent: AgentState): Promise<boolean> {
  switch (nextStep(run, agent)) {
    case 'ask-model':
      askModel(run, agent);
      return false;
    case 'start-approved':
      await startApproved(run, agent);
      return true;
    case 'start-again':
      await takeUpCalls(run, agent, (call) => isReadyAgain(run, call));
      return true;
    case 'gate':
      await gate(run, agent);
      return true;
    case 'hand-over':
      handOver(run, agent);
      return true;
    case 'finish': {
      // The first agent ends with its run.
      if (agent.parentId === null) return false;
      const reason = agent.limit === null ? 'completed' : 'limit';
      endSubAgent(run, agent, { reason, output: agent.turn?.text ?? '' });
      return true;
    }
    case 'wait':
      return false;
  }
}

type Step =
  | 'ask-model'
  | 'start-approved'
  | 'start-again'
  | 'gate'
  | 'hand-over'
  | 'finish'
  | 'wait';

/** What has to happen now with an agent, from the state alone and from whether it is being asked. */
function nextStep(run: LiveRun, agent: AgentState): Step {
  const { turn } = agent;
  if (run.isAsking(agent.id)) return 'wait';
  if (turn === null || turn.finish === null) return 'ask-model';
  if (turn.calls.length === 0) return 'finish';
  const open = turn.calls.filter(({ phase }) => phase !== 'settled');
  if (open.length === 0) return 'ask-model';
  if (open.some(({ phase }) => phase === 'answered')) return 'start-approved';
  if (open.some(({ phase }) => phase === 'called')) return 'gate';
  if (open.some((call) => isReadyAgain(run, call))) return 'start-again';
  const handingOver = open.every(({ phase, via }) => phase === 'started' && via === 'handoff');
  return handingOver ? 'hand-over' : 'wait';
}

function askModel(run: LiveRun, agent: AgentState): void {
  const limit = agent.limit ?? limitBeforeTurn(run.state, agent, run.spec.maxIterations);
  if (limit !== undefined) run.journal.stage(reachedLimit(run, agent, limit));
  const asked = run.state.agents[agent.id] ?? agent;
  run.beginTurn(agent.id, (activity) => takeTurn(run, asked, activity));
}

/** What became of model calls since the last look. The first agent's failure is the run's. */
function takeTurnEnds(run: LiveRun): RunError | undefined {
  let error: RunError | undefined;
  for (const { agentId, outcome } of run.takeEndedTurns()) {
    if (outcome.kind === 'broken') throw outcome.error;
    const agent = run.state.agents[agentId];
    if (agent === undefined || agent.ended !== null || run.stop !== undefined) continue;
    if (outcome.kind === 'stopped') discardTurn(run, agent);
    if (outcome.kind !== 'failed') continue;
    if (agent.parentId === null) error = outcome.error;
    else endSubAgent(run, agent, { reason: 'failed', output: '', error: outcome.error });
  }
  return error;
}

/** A turn that was stopped while the run goes on: its time was over. */
function discardTurn(run: LiveRun, agent: AgentState): void {
  const { turn } = agent;
  if (turn === null || turn.finish !== null) return;
  run.journal.stage([
    {
      type: 'turn.discarded',
      ...agentFields(agent),
      turn: turn.turn,
      textId: turn.textId,
      after: turn.startedSeq,
      reason: 'limit',
    },
  ]);
}

/** A result, a turn, commands, a stop, or a moment at which an approval is due or time is over. */
async function somethingHappens(run: LiveRun, now: number): Promise<void> {
  const { clock, settings } = run.engine;
  const times = pendingApprovals(run.state).flatMap((approval) => [
    nextLook(approval),
    Date.parse(approval.expiresAt) + settings.lateAnswerMs,
  ]);
  times.push(...resultTimes(run), ...endingTimes(run));
  if (times.length === 0) return run.somethingHappens();
  const over = new AbortController();
  const ms = Math.max(0, Math.min(...times.filter((time) => time > now)) - clock.now());
  await Promise.race([run.somethingHappens(), clock.sleep(ms, over.signal)]);
  over.abort('over');
}

async function suspend(run: LiveRun): Promise<Outcome> {
  const decision = decide(run.state, { type: 'suspend' });
  await run.journal.write(decision.ok ? decision.events : [], { release: true });
  run.leaveTranscripts();
  return 'suspended';
}

async function letGo(run: LiveRun): Promise<Outcome> {
  await finishTools(run);
  await run.journal.write([], { release: true });
  run.leaveTranscripts();
  return 'yielded';
}

async function complete(run: LiveRun, agent: AgentState): Promise<Outcome> {
  const reason = agent.limit === null ? 'completed' : 'limit';
  const command = { type: 'complete', reason, trust: await trustOf(run) } as const;
  return settle(run, command, await leftBehind(run, agent));
}

/** Ends a run properly, with every call settled, as long as its journal can be written. */
export async function fail(run: LiveRun, error: RunError): Promise<Outcome> {
  run.stopWith({ kind: 'yield', reason: error.message });
  run.abandonTools();
  return settle(run, { type: 'fail', error, trust: await trustOf(run) });
}

async function cancel(run: LiveRun, reason: string): Promise<Outcome> {
  await finishTools(run);
  return settle(run, { type: 'cancel', reason, trust: await trustOf(run) });
}

async function settle(
  run: LiveRun,
  command: Command,
  { events, remember }: LeftBehind = { events: [], remember: [] },
): Promise<Outcome> {
  const decision = decide(run.state, command);
  if (!decision.ok) throw new TypeError(decision.reason);
  await run.journal.write([...events, ...decision.events], { remember });
  run.leaveTranscripts();
  return 'settled';
}

/** Gives tools that run their chance to end properly; what they bring is kept. */
async function finishTools(run: LiveRun): Promise<void> {
  const patience = new AbortController();
  const over = run.engine.clock.sleep(run.engine.settings.graceMs, patience.signal);
  while (run.hasTools) {
    const gaveUp = await Promise.race([over.then(() => true), run.toolEnds().then(() => false)]);
    if (gaveUp) break;
  }
  patience.abort('over');
  run.abandonTools();
  takeResults(run);
}
