/** Runs with a time limit, on a manual clock. */
import type { ModelRequest } from '@relay/core';
import { type ManualClock, text } from '@relay/core/testing';
import type { StoredEvent } from '@relay/protocol';
import { expect } from 'vitest';
import { type Kernel, until } from '../support/kernel.ts';
import { says } from './scripted-agents.ts';
import { aborted, createStreamingModel, endOf, ofType } from './fixture.ts';

export const limits = { timeMs: 10_000 };
export const finalAnswer = says('Too late.');
export const isFinalTurn = ({ tools }: ModelRequest) => tools.length === 0;

/** Streams endlessly, except in the final turn. */
export function createEndlessModel() {
  return createStreamingModel(async function* (request, signal) {
    if (isFinalTurn(request)) {
      yield finalAnswer;
      return;
    }
    yield [text('On and ')];
    await aborted(signal);
  });
}

export function expectTimeOver(events: readonly StoredEvent[], output = 'Too late.'): void {
  const [root] = ofType(events, 'agent.started');
  expect(ofType(events, 'limit.reached')).toContainEqual(
    expect.objectContaining({ agentId: root?.agentId, limit: 'time' }),
  );
  expect(ofType(events, 'agent.ended').at(-1)).toMatchObject({
    agentId: root?.agentId,
    reason: 'limit',
  });
  expect(endOf(events)).toMatchObject({ status: 'completed', output });
}

/** Waits until the loop sleeps: the supervisor has two timers of its own. */
export function untilAsleep(clock: ManualClock): Promise<boolean> {
  return until(async () => clock.sleepers >= 3, 'the loop to wait for its time');
}

export async function untilSuspended(kernel: Kernel): Promise<void> {
  await until(async () => kernel.control.supervisor.activeRuns === 0, 'the run to be suspended');
}
