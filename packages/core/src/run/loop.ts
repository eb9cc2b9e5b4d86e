/**
 * The one loop. It asks the model, lets its calls through the gate, waits for what they bring, and
 * asks again, until the run is settled, has to wait for a person, or this node must let go of it.
 *
 *   settled    the run is over: one terminal event is stored (E6)
 *   suspended  nothing can go on without a person; the lease is given back, nothing stays in memory (E5)
 *   yielded    this node lets go; the journal holds all another one needs
 */
import type { RunError } from '@relay/protocol';
import { gate } from './gate.ts';
import { endReason } from './limits.ts';
import type { LiveRun } from './live-run.ts';
import { type Command, decide } from './machine.ts';
import { answerMail, expireRelays, startApproved } from './mail.ts';
import { recover } from './recover.ts';
import { type AgentState, openCalls, rootAgent, type RunState } from './state.ts';
import { trustOf } from './trust.ts';
import { takeTurn } from './turn.ts';

/** Timers count in 31 bits; a longer wait is simply looked at again. */
const maxSleepMs = 2 ** 31 - 1;

export type Outcome = 'settled' | 'suspended' | 'yielded';

export async function drive(run: LiveRun): Promise<Outcome> {
  await run.noticeCancel();
  await recover(run);
  for (;;) {
    run.journal.stage(run.takeHappened());
    await answerMail(run);
    expireRelays(run);
    if (run.stop?.kind === 'cancel') return cancel(run, run.stop.reason);
    if (run.stop?.kind === 'yield') return letGo(run);
    const agent = startedRoot(run.state);
    switch (nextStep(agent)) {
      case 'ask-model': {
        const outcome = await takeTurn(run, agent);
        if (outcome.kind === 'failed') return fail(run, outcome.error);
        break;
      }
      case 'start-approved':
        await startApproved(run, agent);
        break;
      case 'gate':
        await gate(run, agent);
        break;
      case 'await-tools':
        // Results and progress so far are shown while the others are still at work.
        await run.journal.settled();
        await somethingHappens(run, agent);
        break;
      case 'await-people':
        return suspend(run);
      case 'complete':
        return complete(run, agent);
    }
    if (run.journal.broken) await run.journal.settled();
  }
}

type Step = 'ask-model' | 'start-approved' | 'gate' | 'await-tools' | 'await-people' | 'complete';

/** What has to happen now, from the state alone. */
function nextStep(agent: AgentState): Step {
  const { turn } = agent;
  if (turn === null || turn.finish === null) return 'ask-model';
  if (turn.calls.length === 0) return 'complete';
  const phases = new Set(turn.calls.map((call) => call.phase));
  if (phases.has('answered')) return 'start-approved';
  if (phases.has('called')) return 'gate';
  if (phases.has('started')) return 'await-tools';
  if (phases.has('asking')) return 'await-people';
  return 'ask-model';
}

/** A result, mail, a stop, or the moment at which one of the agent's relays expires. */
async function somethingHappens(run: LiveRun, agent: AgentState): Promise<void> {
  const expiries = openCalls(agent).flatMap((call) =>
    call.phase === 'asking' && call.relay !== undefined
      ? [Date.parse(call.relay.expiresAt) + run.engine.settings.lateAnswerMs]
      : [],
  );
  if (expiries.length === 0) return run.somethingHappens();
  const over = new AbortController();
  const untilExpiry = Math.max(0, Math.min(...expiries) - run.engine.clock.now());
  await Promise.race([
    run.somethingHappens(),
    run.engine.clock.sleep(Math.min(untilExpiry, maxSleepMs), over.signal),
  ]);
  over.abort('over');
}

function startedRoot(state: RunState): AgentState {
  const agent = rootAgent(state);
  if (agent === undefined) throw new TypeError('The loop runs only after the run has started');
  return agent;
}

async function suspend(run: LiveRun): Promise<Outcome> {
  const decision = decide(run.state, { type: 'suspend' });
  await run.journal.write(decision.ok ? decision.events : [], { release: true });
  run.leaveTranscript();
  return 'suspended';
}

async function letGo(run: LiveRun): Promise<Outcome> {
  await finishTools(run);
  await run.journal.write([], { release: true });
  run.leaveTranscript();
  return 'yielded';
}

async function complete(run: LiveRun, agent: AgentState): Promise<Outcome> {
  const reason = endReason(agent, run.spec);
  return settle(run, { type: 'complete', reason, trust: await trustOf(run) });
}

/** Ends a run properly, with every call settled, as long as its journal can be written. */
export async function fail(run: LiveRun, error: RunError): Promise<Outcome> {
  return settle(run, { type: 'fail', error, trust: await trustOf(run) });
}

async function cancel(run: LiveRun, reason: string): Promise<Outcome> {
  await finishTools(run);
  return settle(run, { type: 'cancel', reason, trust: await trustOf(run) });
}

async function settle(run: LiveRun, command: Command): Promise<Outcome> {
  const decision = decide(run.state, command);
  if (!decision.ok) throw new TypeError(decision.reason);
  await run.journal.write(decision.events);
  run.leaveTranscript();
  return 'settled';
}

/** Gives tools that run their chance to end properly; what they bring is kept. */
async function finishTools(run: LiveRun): Promise<void> {
  const patience = new AbortController();
  const over = run.engine.clock.sleep(run.engine.settings.graceMs, patience.signal);
  while (run.running.size > 0) {
    const gaveUp = await Promise.race([over.then(() => true), run.toolEnds().then(() => false)]);
    if (gaveUp) break;
  }
  patience.abort('over');
  run.abandonTools();
  run.journal.stage(run.takeHappened());
}
