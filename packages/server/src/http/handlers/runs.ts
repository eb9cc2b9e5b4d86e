/** `/v1/runs`: start, look at, follow and cancel runs. */
import * as core from '@relay/core';
import type { RunFilter, RunRecord } from '@relay/core';
import {
  dialects,
  type eventsQuerySchema,
  isEnded,
  RelayError,
  type runBodySchema,
  type runsQuerySchema,
  type StoredEvent,
  type streamQuerySchema,
} from '@relay/protocol';
import type { z } from 'zod';
import { closedSignal } from '../../streaming/event-stream.ts';
import { followRun } from '../../streaming/subscribe.ts';
import { findRun, storeOf } from './find.ts';
import { firstEvent } from '../../streaming/first-event.ts';
import { chooseAll } from './functions.ts';
import type { Call, Handler } from './handler.ts';
import { cutPage, pageOf } from '../views/pages.ts';
import { presentListed, presentRun } from '../views/run.ts';
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

export const startRun: Handler = async (call) => {
  const replay = await findReplay(call);
  if (replay !== undefined) return answerWith(call, replay);
  const body = call.body as z.infer<typeof runBodySchema>;
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
    ...(conversationId === undefined ? {} : { conversationId }),
    ...(parentRunId === undefined ? {} : { parentRunId }),
    ...(workflowId === undefined ? {} : { workflowId }),
    ...(labels === undefined ? {} : { labels }),
  });
  return answerWith(call, started);
};

/** Another tenant's run is no parent either, and looks like none. */
async function refuseUnknownParent(call: Call, parentRunId: string): Promise<void> {
  if ((await storeOf(call).readRun(parentRunId)) !== undefined) return;
  throw new RelayError('invalid_request', 'parentRunId: There is no such run', {
    details: [{ path: 'parentRunId', message: 'There is no such run' }],
  });
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

export const listRuns: Handler = async (call) => {
  const query = call.query as z.infer<typeof runsQuerySchema>;
  const found = await storeOf(call).listRuns(filterOf(query), pageOf(query));
  const { items, nextCursor } = cutPage(found, query.limit, ({ createdAt: at, id }) => ({
    at,
    id,
  }));
  return { runs: items.map(presentListed), nextCursor };
};

function filterOf(query: z.infer<typeof runsQuerySchema>): RunFilter {
  const { status, agent, conversationId, workflowId, label, since, until } = query;
  const colon = label?.indexOf(':') ?? -1;
  return {
    ...(status === undefined ? {} : { status }),
    ...(agent === undefined ? {} : { agent }),
    ...(conversationId === undefined ? {} : { conversationId }),
    ...(workflowId === undefined ? {} : { workflowId }),
    ...(label === undefined
      ? {}
      : { label: { name: label.slice(0, colon), value: label.slice(colon + 1) } }),
    ...(since === undefined ? {} : { since: Date.parse(since) }),
    ...(until === undefined ? {} : { until: Date.parse(until) }),
  };
}

export const getRun: Handler = async (call) => {
  const run = await namedRun(call);
  return presentRun(run, await specOf(call, run));
};

export const listRunEvents: Handler = async (call) => {
  const { after, limit } = call.query as z.infer<typeof eventsQuerySchema>;
  const run = await namedRun(call);
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

export const followStream: Handler = async (call) => {
  const query = call.query as z.infer<typeof streamQuerySchema>;
  const { run, after } = await placeToFollow(call, query.after);
  const followed = { store: storeOf(call), hub: call.context.hub, runId: run.id };
  const batches = followRun(followed, {
    after,
    follow: query.follow === 'true',
    signal: closedSignal(call.reply.raw),
  });
  call.reply.header('x-run-id', run.id);
  await streamOut(call, { dialect: dialects[query.dialect], run, batches });
};

/** Which run, and from where. The record itself is not kept: it may hold a long answer. */
async function placeToFollow(
  call: Call,
  asked: number | undefined,
): Promise<{ run: StreamedRun; after: number }> {
  const record = await namedRun(call);
  // A reconnecting reader keeps its URL and adds how far it came.
  const after = lastEventId(call) ?? asked ?? 0;
  refusePastEnd(after, record);
  if (isEnded(record.status)) await refusePruned(call, record);
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

export const cancelRun: Handler = async (call) => {
  const run = await namedRun(call);
  const ref = { tenantId: run.tenantId, runId: run.id };
  const why = { reason: `Canceled by ${call.caller.as.name}`, by: call.caller.as };
  await core.cancelRun(call.context.control, ref, why);
  call.reply.code(202);
  return getRun(call);
};

const unreadable = new Set(['journal_corrupt', 'journal_pruned']);

/** What the run was asked; unknown if those very bytes are damaged or no longer kept. */
export async function specOf(call: Call, run: RunRecord): Promise<StoredEvent | undefined> {
  try {
    const [spec] = await storeOf(call).readEvents(run.id, { after: 0, limit: 1 });
    return spec;
  } catch (error) {
    if (error instanceof RelayError && unreadable.has(error.code)) return undefined;
    throw error;
  }
}

export function namedRun(call: Call): Promise<RunRecord> {
  return findRun(call, (call.params as { id: string }).id);
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
