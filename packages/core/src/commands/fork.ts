/**
 * Where a run can be forked: at a boundary between two turns of its first agent. A fork points at that
 * place and copies nothing; what lies before it in the source's journal can never change.
 */
import { type EventOf, RelayError } from '@relay/protocol';
import type { Engine } from '../engine.ts';
import type { RunHead, TenantStore } from '../ports/index.ts';
import { openCalls, type Profile } from '../run/state/agent.ts';
import { pagesOf } from '../run/context/pages.ts';
import { evolve, initialState, type Placed, rootAgent, type RunState } from '../run/state/state.ts';

/** What a fork goes on from, and as what. */
export interface ForkPoint {
  readonly seq: number;
  readonly spec: EventOf<'run.created'>;
  /** The first agent as it was there: a handoff may have made it another. */
  readonly agent: string;
  readonly model: string;
  readonly profile: Profile;
  /** The last word is the agent's: without a new one there is nothing to do. */
  readonly needsInput: boolean;
}

/** `seq` left out: the last boundary, from which a run that was cut short can go on. */
export async function forkPoint(
  engine: Engine,
  store: TenantStore,
  { source, seq }: { source: RunHead; seq?: number },
): Promise<ForkPoint> {
  if (seq !== undefined && seq > source.lastSeq) {
    throw noBoundary(`The journal of this run ends at ${source.lastSeq}, before ${seq}`);
  }
  const search = await lookFor(store, source, seq);
  if (seq !== undefined && search.last?.seq !== seq) {
    const hint =
      search.last === undefined ? '' : `; the last boundary before it is ${search.last.seq}`;
    throw noBoundary(`Seq ${seq} lies inside a turn${hint}`);
  }
  const { spec, last } = search;
  if (spec === undefined || last === undefined) {
    throw new RelayError('journal_corrupt', `The journal of run ${source.id} has no beginning`);
  }
  const { first } = await engine.transcripts.ofRun(store, { id: source.id, spec }, last.seq);
  if (first.open !== null) throw noBoundary(`Seq ${last.seq} lies inside a turn`);
  const said = first.messages.at(-1);
  const root = rootAgent(last.state);
  return {
    seq: last.seq,
    spec,
    agent: root?.name ?? spec.agent,
    model: root?.model ?? spec.model,
    profile: root?.profile ?? spec,
    needsInput: said?.role === 'assistant',
  };
}

function noBoundary(message: string): RelayError {
  return new RelayError('not_a_boundary', message);
}

interface Search {
  spec?: EventOf<'run.created'>;
  last?: { readonly seq: number; readonly state: RunState };
}

/** The last boundary up to `seq`; without one, up to where the run was cut short or has come. */
async function lookFor(
  store: TenantStore,
  { id, lastSeq }: RunHead,
  seq: number | undefined,
): Promise<Search> {
  const search: Search = {};
  let state = initialState;
  let cutShort = false;
  for await (const page of pagesOf(store, id, { after: 0, to: seq ?? lastSeq })) {
    for (const event of page) {
      if (event.type === 'run.created') search.spec = event;
      const next = evolve(state, event);
      cutShort ||= seq === undefined && cutsShort(state, event);
      state = next;
      if (!cutShort && isBoundary(state)) search.last = { seq: event.seq, state };
    }
  }
  return search;
}

/** An answer that was going on when the run ended: what comes after it is no good place to go on from. */
function cutsShort(before: RunState, event: Placed): boolean {
  const turn = rootAgent(before)?.turn ?? null;
  const isOfRoot = 'agentId' in event && event.agentId === before.rootId;
  return event.type === 'agent.ended' && isOfRoot && turn !== null && turn.finish === null;
}

function isBoundary(state: RunState): boolean {
  const root = rootAgent(state);
  if (root === undefined || root.turn === null) return true;
  return root.turn.finish !== null && openCalls(root).length === 0;
}
