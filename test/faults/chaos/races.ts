/** Fifty people who decide the same approval at once, through all nodes. One of them wins. */
import { setTimeout as pause } from 'node:timers/promises';
import { readLines, type ToolRan } from './record.ts';
import { startWaiting } from './flips.ts';
import type { Environment } from './environment.ts';

const people = 50;

export async function raceDecisions(
  environment: Environment,
  { times, name }: { times: number; name: string },
): Promise<{ violations: string[]; races: number }> {
  const put = { method: 'PUT', body: JSON.stringify(environment.credential) };
  await environment.request('/v1/credentials/oracle', put);
  const violations: string[] = [];
  for (let count = 0; count < times; count += 1) {
    const { runId, approvalId, tag } = await startWaiting(environment, `${name}-${count}`);
    const answers = await Promise.all(
      Array.from({ length: people }, async (_, node) => {
        const approved = node % 2 === count % 2;
        const body = JSON.stringify({ approved });
        const { status } = await environment.request(`/v1/approvals/${approvalId}`, {
          method: 'POST',
          body,
          node,
        });
        return { approved, status };
      }),
    );
    const winners = new Set(
      answers.flatMap(({ approved, status }) => (status === 200 ? [approved] : [])),
    );
    const losers = answers.filter(({ status }) => status === 409);
    if (winners.size !== 1 || losers.length !== people / 2) {
      violations.push(`one decision wins: ${approvalId} got ${JSON.stringify(answers)}`);
    }
    const decisions = await decisionsOf(environment, runId);
    if (decisions.length !== 1 || !winners.has(decisions[0] ?? false)) {
      violations.push(`what is acknowledged is what is stored: ${JSON.stringify(decisions)}`);
    }
    const calls = readLines<ToolRan>(environment.callsFile);
    const ran = calls.filter(({ toolCallId }) => toolCallId === `call_${tag}_2`).length;
    if (ran !== (winners.has(true) ? 1 : 0)) violations.push(`${tag} ran ${ran} times`);
  }
  return { violations, races: times };
}

/** Once the run is over. */
async function decisionsOf(environment: Environment, runId: string): Promise<boolean[]> {
  for (;;) {
    const response = await environment.request(`/v1/runs/${runId}/events?limit=5000`);
    const { events } = (await response.json()) as {
      events: { type: string; approved?: boolean }[];
    };
    if (events.at(-1)?.type === 'run.ended') {
      return events.flatMap(({ type, approved }) =>
        type === 'approval.decided' ? [approved === true] : [],
      );
    }
    await pause(20);
  }
}
