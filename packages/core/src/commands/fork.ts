/**
 * Fork points: a run can be forked between two turns of its root agent. A fork refers to a `seq` of
 * its source and copies nothing, because the journal before it never changes.
 */
import { type EventOf, RelayError, type StoredEvent } from '@relay/protocol';
import type { Engine } from '../engine.ts';
import { readJournal } from '../journal.ts';
import type { RunHead, TenantStore } from '../ports/index.ts';
import { openCalls, type Profile } from '../run/state/agent.ts';
import { evolve, initialState, rootAgent, type RunState } from '../run/state/state.ts';

/** Where a fork starts, and with which agent. */
export interface ForkPoint {
  readonly seq: number;
  readonly spec: EventOf<'run.created'>;
  /** The root agent at that point: a handoff may have changed it. */
  readonly agent: string;
  readonly model: string;
  readonly profile: Profile;
  /** The last message is the agent's: the fork needs a new one. */
  readonly needsInput: boolean;
}

/** Without `seq`: the last boundary, from which an interrupted run can continue. */
export async function forkPoint(
  engine: Engine,
  store: TenantStore,
  { source, seq }: { source: RunHead; seq?: number },
): Promise<ForkPoint> {
  if (seq !== undefined && seq > source.lastSeq) {
    throw noBoundary(`seq ${seq} does not exist: the journal ends at ${source.lastSeq}`);
  }
  const search = await findBoundary(store, source, seq);
  if (seq !== undefined && search.last?.seq !== seq) {
    const hint = search.last === undefined ? '' : `; fork at seq ${search.last.seq}`;
    throw noBoundary(`seq ${seq} is inside a turn${hint}`);
  }
  const { spec, last } = search;
  if (spec === undefined || last === undefined) {
    throw new RelayError(
      'journal_corrupt',
      `The journal of run ${source.id} does not start with run.created`,
    );
  }
  const { root: transcript } = await engine.transcripts.ofRun(
    store,
    { id: source.id, spec },
    last.seq,
  );
  if (transcript.open !== null) throw noBoundary(`seq ${last.seq} is inside a turn`);
  const root = rootAgent(last.state);
  return {
    seq: last.seq,
    spec,
    agent: root?.name ?? spec.agent,
    model: root?.model ?? spec.model,
    profile: root?.profile ?? spec,
    needsInput: transcript.messages.at(-1)?.role === 'assistant',
  };
}

function noBoundary(message: string): RelayError {
  return new RelayError('not_a_boundary', message);
}

interface Search {
  spec?: EventOf<'run.created'>;
  last?: { readonly seq: number; readonly state: RunState };
}

/** The last boundary up to `seq`; without `seq`, before an interrupted turn or at the end. */
async function findBoundary(
  store: TenantStore,
  { id, lastSeq }: RunHead,
  seq: number | undefined,
): Promise<Search> {
  const search: Search = {};
  let state = initialState;
  let isInterrupted = false;
  for await (const page of readJournal(store, id, { after: 0, to: seq ?? lastSeq })) {
    for (const event of page) {
      if (event.type === 'run.created') search.spec = event;
      const next = evolve(state, event);
      isInterrupted ||= seq === undefined && interruptsTurn(state, event);
      state = next;
      if (!isInterrupted && isBoundary(state)) search.last = { seq: event.seq, state };
    }
  }
  return search;
}

/** The root agent ends during a turn: what follows is no point to continue from. */
function interruptsTurn(before: RunState, event: StoredEvent): boolean {
  const turn = rootAgent(before)?.turn ?? null;
  const isOfRoot = 'agentId' in event && event.agentId === before.rootId;
  return event.type === 'agent.ended' && isOfRoot && turn !== null && turn.finish === null;
}

function isBoundary(state: RunState): boolean {
  const root = rootAgent(state);
  if (root === undefined || root.turn === null) return true;
  return root.turn.finish !== null && openCalls(root).length === 0;
}
