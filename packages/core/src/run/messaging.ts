/** What tools do in the name of the session whose turn the run is. */
import { type AgentStatus, agentStatuses, escapeMisleading } from '@relay/protocol';
import { invokeAction } from '../commands/sessions/invoke-action.ts';
import { sendMessage } from '../commands/sessions/send-message.ts';
import type { RunSession } from '../ports/index.ts';
import { hopsOfTurn } from '../sessions/hops.ts';
import { authorOf, readMessages } from '../sessions/replies.ts';
import type { Activity } from './activity.ts';
import type { LiveRun } from './live-run.ts';

const maxListed = 100;
const listed: readonly AgentStatus[] = agentStatuses.filter((status) => status !== 'released');

/** How long a tool waits for an invocation; one that is still running then is left to itself. */
const invocationMs = 10 * 60 * 1000;

/** Undefined for a run that is no turn. A message or an invocation is made once per call. */
export function sessionFor(
  run: LiveRun,
  idempotencyKey: string,
  { signal }: Activity,
): RunSession | undefined {
  const { engine, store } = run;
  const { tenantId } = run.identity;
  const { sessionId } = run.spec;
  if (sessionId === undefined) return undefined;
  const author = async () => {
    const session = await store.sessions.read(sessionId);
    if (session === undefined) throw new TypeError('The session was deleted');
    return authorOf(session);
  };
  return {
    async send(draft) {
      const read = await readMessages(store, run.state.read);
      const sender = { ...(await author()), hops: hopsOfTurn(read) };
      return sendMessage({ engine }, sender, { ...draft, idempotencyKey });
    },
    async list() {
      const { items, next } = await store.sessions.list({ status: listed }, { limit: maxListed });
      const sessions = items.map(({ id, handle, name, kind, status }) => ({
        handle,
        // Its owner has chosen it, and a model reads it.
        name: escapeMisleading(name),
        kind,
        status,
        ...(id === sessionId ? { isYou: true as const } : {}),
      }));
      return { sessions, isWhole: next === null };
    },
    async invoke(action, input) {
      const request = { action, input, idempotencyKey };
      const { invocation } = await invokeAction(engine, await author(), request);
      const { invocations } = engine;
      const wait = { ms: invocationMs, signal };
      if (invocations === undefined) return invocation;
      if (invocation.status === 'waiting') {
        const decided = () =>
          invocations.waitFor(tenantId, invocation.id, { ...wait, until: 'decided' });
        await run.turn?.whileApprovalIsOpen(run, invocation.id, decided);
      }
      return invocations.waitFor(tenantId, invocation.id, wait);
    },
  };
}
