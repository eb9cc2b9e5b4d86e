/** `/v1/runs`: start, look at, follow and cancel runs. */
import * as core from '@relay/core';
import type { RunFilter, RunRecord } from '@relay/core';
import {
  defined,
  dialects,
  isEnded,
  type QueryOf,
  RelayError,
  type StoredEvent,
} from '@relay/protocol';
import { closedSignal } from '../../streaming/event-stream.ts';
import { followRun } from '../../streaming/subscribe.ts';
import { type Call, findRun, type Handler, type RouteCall, storeOf } from './handler.ts';
import { firstEvent } from '../../streaming/first-event.ts';
import { chooseAll } from './functions.ts';
import { cutPage, pageOf } from '../views/pagination.ts';
import { presentListed, presentRun } from '../views/run.ts';
import { timeOf } from '../views/time.ts';
import {
  chooseAgent,
  chooseModel,
  choosePermissions,
  chooseTools,
  findReplay,
  openingFor,
  startAndFollow,
} from './start.ts';
import { streamed, type StreamedRun, streamOut } from '../../streaming/stream-run.ts';
import { invalidField } from '../errors.ts';

export const startRun: Handler<'startRun'> = async (call) => {
  const replay = await findReplay(call);
  if (replay !== undefined) return answerWith(call, replay);
  const body = call.body;
  const { conversationId, parentRunId, workflowId, labels } = body;
  const agent = chooseAgent(call, body.agent);
  if (parentRunId !== undefined) await refuseUnknownParent(call, parentRunId);
  const model = await chooseModel(call, body.model ?? agent.model, 'model and input are required');
  const { input } = body;
  const opening = openingFor(call, agent, body);
  if (opening.memory === undefined) refuseToolsOfMemory(call, body.tools ?? []);
  const started = await startAndFollow(call, {
    surface: 'runs',
    ...opening,
    model,
    messages: typeof input === 'string' ? [{ role: 'user', content: input }] : input,
    prompt: 'continues',
    ...(body.tools === undefined
      ? { tools: chooseTools(call, agent.tools ?? []) }
      : chooseAll(call, body.tools)),
    permissions: choosePermissions(call, body.permissions),
    conversationId,
    parentRunId,
    workflowId,
    labels,
  });
  return answerWith(call, started);
};

/** Another tenant's run is no parent either, and looks like none. */
async function refuseUnknownParent(call: Call, parentRunId: string): Promise<void> {
  if ((await storeOf(call).readRun(parentRunId)) !== undefined) return;
  throw invalidField('parentRunId', 'There is no such run');
}

/** Such a tool would not be there, and whoever names it should hear why. */
function refuseToolsOfMemory(call: Call, tools: readonly { readonly name: string }[]): void {
  const registry = call.context.control.engine.tools(call.caller.tenantId);
  const index = tools.findIndex(({ name }) => registry.find(name)?.needsMemory === true);
  if (index === -1) return;
  const message = `The tool ${tools[index]?.name} is there only in runs with memory`;
  throw new RelayError('invalid_request', message, {
    details: [{ path: `tools[${index}].name`, message: 'Needs memory' }],
  });
}

/** A provider that fails before its first word is a 502; from then on the answer is a stream. */
async function answerWith(call: Call, { run, batches }: Following): Promise<void> {
  const opening = await firstEvent(batches);
  if (opening.failure !== undefined) throw opening.failure;
  await streamOut(call, { dialect: dialects.runs, run, batches: opening.batches });
}

type Following = Awaited<ReturnType<typeof startAndFollow>>;

export const listRuns: Handler<'listRuns'> = async (call) => {
  const query = call.query;
  const found = await storeOf(call).listRuns(filterOf(query), pageOf(query));
  const { items, nextCursor } = cutPage(found, query.limit, ({ createdAt: at, id }) => ({
    at,
    id,
  }));
  return { runs: items.map(presentListed), nextCursor };
};

function filterOf(query: QueryOf<'listRuns'>): RunFilter {
  const { status, agent, conversationId, workflowId, label, since, until } = query;
  const colon = label?.indexOf(':') ?? -1;
  return defined({
    status,
    agent,
    conversationId,
    workflowId,
    label:
      label === undefined
        ? undefined
        : { name: label.slice(0, colon), value: label.slice(colon + 1) },
    since: timeOf(since),
    until: timeOf(until),
  });
}

export const getRun: Handler<'getRun'> = async (call) => {
  return presentNow(call, call.params.id);
};

/** A run as it is now. */
export async function presentNow(call: Call, runId: string) {
  const run = await findRun(call, runId);
  return presentRun(run, await specOf(call, run));
}

export const listRunEvents: Handler<'listRunEvents'> = async (call) => {
  const { after, limit } = call.query;
  const run = await findRun(call, call.params.id);
  refusePastEnd(after, run);
  const store = storeOf(call);
  const events = await store.readEvents(run.id, { after, limit });
  const spec = await specOf(call, run);
  const last = events.at(-1)?.seq ?? after;
  return {
    run: presentRun(run, spec),
    events,
    nextCursor: last < run.lastSeq ? String(last) : null,
  };
};

export const followStream: Handler<'followRun'> = async (call) => {
  const { query } = call;
  const place = await placeToFollow(call);
  call.reply.header('x-run-id', call.params.id);
  // 204 tells an SSE client not to connect again.
  if (place === undefined) return;
  const { run, after } = place;
  const followed = { store: storeOf(call), hub: call.context.hub, runId: run.id };
  const batches = followRun(followed, {
    after,
    follow: query.follow === 'true',
    signal: closedSignal(call.reply.raw),
  });
  await streamOut(call, { dialect: dialects[query.dialect], run, batches });
};

/**
 * Which run, and from where; undefined if the run has ended and nothing follows. The record itself is
 * not kept: it may hold a long answer.
 */
async function placeToFollow(
  call: RouteCall<'followRun'>,
): Promise<{ run: StreamedRun; after: number } | undefined> {
  const record = await findRun(call, call.params.id);
  // A client that reconnects keeps its URL and adds the id of its last frame.
  const after = lastEventId(call) ?? call.query.after ?? 0;
  refusePastEnd(after, record);
  if (isEnded(record.status)) {
    await refusePruned(call, record);
    if (after === record.lastSeq) return undefined;
  }
  return { run: streamed(record), after };
}

/** Before the stream starts: what is no longer kept is not an empty journal. */
async function refusePruned(call: Call, { id, lastSeq }: RunRecord): Promise<void> {
  try {
    await storeOf(call).readEvents(id, { after: lastSeq, limit: 1 });
  } catch (error) {
    if (error instanceof RelayError && error.code === 'journal_pruned') throw error;
  }
}

export const cancelRun: Handler<'cancelRun'> = async (call) => {
  const run = await findRun(call, call.params.id);
  const ref = { tenantId: run.tenantId, runId: run.id };
  const why = { reason: `Canceled by ${call.caller.as.name}`, by: call.caller.as };
  await core.cancelRun(call.context.control, ref, why);
  return presentNow(call, run.id);
};

const unreadable = new Set(['journal_corrupt', 'journal_pruned']);

/** What the run was asked; unknown if those very bytes are damaged or no longer kept. */
async function specOf(call: Call, run: RunRecord): Promise<StoredEvent | undefined> {
  try {
    const [spec] = await storeOf(call).readEvents(run.id, { after: 0, limit: 1 });
    return spec;
  } catch (error) {
    if (error instanceof RelayError && unreadable.has(error.code)) return undefined;
    throw error;
  }
}

function lastEventId(call: Call): number | undefined {
  const header = call.request.headers['last-event-id'];
  if (header === undefined || header === '') return undefined;
  if (typeof header === 'string' && /^\d{1,15}$/.test(header)) return Number(header);
  throw new RelayError('invalid_request', 'Last-Event-ID: must be the id of a frame', {
    details: [{ path: 'Last-Event-ID', message: 'Must be the id of a frame' }],
  });
}

function refusePastEnd(after: number, run: RunRecord): void {
  if (after <= run.lastSeq) return;
  throw new RelayError('cursor_past_end', `The journal ends at ${run.lastSeq}, before ${after}`);
}
