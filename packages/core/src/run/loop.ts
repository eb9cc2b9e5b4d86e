/**
 * The main loop. For each agent it calls the model, passes the tool calls through the gate, waits for
 * their results, and calls the model again. Model calls and tools run beside it: their results wake
 * the loop, and only the loop decides.
 *
 *   settled    the run is over: one terminal event is stored (E6)
 *   suspended  only a person or a client can continue the run: the lease is released, and nothing
 *              stays in memory (E5)
 *   yielded    this node stops driving the run: the journal holds all that another node needs
 */
import type { RunError } from '@relay/protocol';
import { cancel, complete, fail, type Outcome, suspend, yieldRun } from './end.ts';
import { gate, startApproved } from './gate.ts';
import type { LiveRun } from './live-run.ts';
import { recover, resumeCalls } from './recover.ts';
import { takeTurn } from './turn.ts';
import { applyHandoff } from './agents/handoff.ts';
import { limitBeforeTurn } from './agents/limits.ts';
import { endSubAgent, reachedLimit, settleResults } from './agents/spawn.ts';
import { type AgentState, answerOf, turnDiscarded } from './state/agent.ts';
import { liveAgents, pendingApprovals, rootAgent } from './state/state.ts';
import {
  expireApprovals,
  expiryOf,
  isApprovalDue,
  nextCheckOf,
  warnOfExpiry,
} from './waiting/approvals.ts';
import { clientCallDeadlines, expireClientCalls } from './waiting/client-calls.ts';
import { applyCommands } from './waiting/inbox.ts';
import { takeMessages } from './waiting/messages.ts';
import { isReadyToResume } from './waiting/questions.ts';
import { enforceTimeLimit, timeLimitChecks } from './waiting/time-limit.ts';

export type { Outcome };

export async function drive(run: LiveRun): Promise<Outcome> {
  await run.checkForCancel();
  await recover(run);
  for (;;) {
    run.throwFault();
    if (run.stop === undefined) settleResults(run);
    const error = takeTurnErrors(run);
    // One time for the whole pass: a deadline that passes during a commit is not skipped.
    const now = run.engine.clock.now();
    // Before anything expires, answers are read that no notification announced.
    if (isAnythingDue(run, now)) await run.checkInbox();
    await applyCommands(run);
    expireApprovals(run, now);
    expireClientCalls(run, now);
    warnOfExpiry(run, now);
    enforceTimeLimit(run, now);
    if (run.stop?.kind === 'cancel') return cancel(run, run.stop.reason);
    if (run.stop?.kind === 'yield') return yieldRun(run);
    if (error !== undefined) return fail(run, error);
    if (await advanceAgents(run)) continue;
    const root = rootAgent(run.state);
    if (root !== undefined && nextStep(run, root) === 'finish') return complete(run, root);
    if (!run.isActive) return suspend(run);
    // Staged events are published while other agents are still active.
    if (run.journal.backlog > 0 || run.journal.broken) await run.journal.settled();
    await waitForChange(run, now);
  }
}

/** Lets every agent take its next step; false if all of them wait. */
async function advanceAgents(run: LiveRun): Promise<boolean> {
  let advanced = false;
  for (const { id } of liveAgents(run.state)) {
    const agent = run.state.agents[id];
    if (agent === undefined || agent.ended !== null || run.stop !== undefined) continue;
    advanced = (await advance(run, agent)) || advanced;
  }
  return advanced;
}

async function advance(run: LiveRun, agent: AgentState): Promise<boolean> {
  // A run that was paused is suspended until its next step.
  switch (nextStep(run, agent)) {
    case 'call-model':
      // A model is paid for: it is called under the lease only.
      if (!run.journal.isClaimed) await run.journal.settled();
      run.resume();
      await takeMessages(run, agent);
      callModel(run, agent);
      return false;
    case 'start-approved':
      run.resume();
      await startApproved(run, agent);
      return true;
    case 'resume-calls':
      run.resume();
      await resumeCalls(run, agent, (call) => isReadyToResume(run, call));
      return true;
    case 'gate':
      run.resume();
      await gate(run, agent);
      return true;
    case 'handoff':
      applyHandoff(run, agent);
      return true;
    case 'finish': {
      // The root agent ends with its run.
      if (agent.parentId === null) return false;
      const reason = agent.limit === null ? 'completed' : 'limit';
      endSubAgent(run, agent, { reason, output: answerOf(agent) });
      return true;
    }
    case 'pause':
    case 'wait':
      return false;
  }
}

type Step =
  | 'call-model'
  | 'start-approved'
  | 'resume-calls'
  | 'gate'
  | 'handoff'
  | 'finish'
  | 'pause'
  | 'wait';

/** The next step of an agent: it follows from the state and from what is running. */
function nextStep(run: LiveRun, agent: AgentState): Step {
  const { turn } = agent;
  if (run.isCallingModel(agent.id)) return 'wait';
  // A pause holds whatever begins something. The last answer at a limit is not held.
  const unlessPaused = (step: Step) => (run.isPaused && agent.limit === null ? 'pause' : step);
  if (turn === null || turn.finish === null) return unlessPaused('call-model');
  if (turn.calls.length === 0) return 'finish';
  const open = turn.calls.filter(({ phase }) => phase !== 'settled');
  if (open.length === 0) return unlessPaused('call-model');
  if (open.some(({ phase }) => phase === 'decided')) return unlessPaused('start-approved');
  if (open.some(({ phase }) => phase === 'called')) return unlessPaused('gate');
  if (open.some((call) => isReadyToResume(run, call))) return unlessPaused('resume-calls');
  const handsOff = open.every(({ phase, via }) => phase === 'started' && via === 'handoff');
  return handsOff ? 'handoff' : 'wait';
}

function callModel(run: LiveRun, agent: AgentState): void {
  const limit = agent.limit ?? limitBeforeTurn(run.state, agent, run.spec.maxIterations);
  if (limit !== undefined) run.journal.stage(reachedLimit(run, agent, limit));
  const current = run.state.agents[agent.id] ?? agent;
  run.beginTurn(agent.id, (activity) => takeTurn(run, current, activity));
}

/** Handles turns that have ended without completing. The root agent's error is the run's. */
function takeTurnErrors(run: LiveRun): RunError | undefined {
  let error: RunError | undefined;
  for (const { agentId, outcome } of run.takeEndedTurns()) {
    const agent = run.state.agents[agentId];
    if (agent === undefined || agent.ended !== null || run.stop !== undefined) continue;
    if (outcome.kind === 'stopped' && agent.turn?.finish === null) {
      // The run goes on: the turn was stopped by the time limit.
      run.journal.stage([turnDiscarded(agent, agent.turn, 'limit')]);
    }
    if (outcome.kind !== 'failed') continue;
    if (agent.parentId === null) error = outcome.error;
    else endSubAgent(run, agent, { reason: 'failed', output: '', error: outcome.error });
  }
  return error;
}

function isAnythingDue(run: LiveRun, now: number): boolean {
  if (clientCallDeadlines(run).some((deadline) => deadline <= now)) return true;
  return pendingApprovals(run.state).some((approval) => isApprovalDue(run, approval, now));
}

/** Waits for a result, a turn, a command, a stop, or the next deadline. */
async function waitForChange(run: LiveRun, now: number): Promise<void> {
  const times = [
    ...pendingApprovals(run.state).flatMap((approval) => [
      nextCheckOf(approval),
      expiryOf(run, approval),
    ]),
    ...clientCallDeadlines(run),
    ...timeLimitChecks(run),
  ];
  const next = Math.min(...times.filter((time) => time > now));
  await run.waitForChange(Math.max(0, next - run.engine.clock.now()));
}
