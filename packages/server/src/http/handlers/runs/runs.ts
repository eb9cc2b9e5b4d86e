/** `/v1/runs`: start, read, follow and cancel runs; `/v1/feed`: follow all changes. */
import * as core from '@relay/core';
import type { RunFilter, RunRecord, RunSpec } from '@relay/core';
import {
  defined,
  type Dialect,
  dialects,
  encodeFrame,
  isEnded,
  personOf,
  type BodyOf,
  type QueryOf,
  RelayError,
  type RunHeader,
  type StoredEvent,
} from '@relay/protocol';
import { closedSignal } from '../../../streaming/response-writer.ts';
import { SseStream } from '../../../streaming/sse-stream.ts';
import { streamJson } from '../../../streaming/stream-json.ts';
import { runHeader, streamRun, waitForFirstOutput } from '../../../streaming/stream-run.ts';
import * as subscribe from '../../../streaming/subscribe.ts';
import { invalidField } from '../../errors.ts';
import { readListed, parseTime } from '../../views/pagination.ts';
import { presentListed, presentRun } from '../../views/run.ts';
import { type ApiRequest, findRun, type Handler, type RouteRequest, storeOf } from '../handler.ts';
import { senderOf } from '../sessions/messages.ts';
import {
  buildSpec,
  chooseToolsAndFunctions,
  modelRequired,
  startAndFollow,
  toolsOfAgent,
} from './start.ts';

export const startRun: Handler<'startRun'> = async (call) => {
  const { run, batches } = await startAndFollow(call, () => specOf(call));
  // A provider that fails before its first output is a 502; from then on the response is a stream.
  const opening = await waitForFirstOutput(batches);
  if (opening.failure !== undefined) throw opening.failure;
  void streamRun(call, { dialect: dialects.runs, run, batches: opening.batches });
};

/** `defaultTools`: of a run that names none; undefined for all of the tenant. */
export function specOf(
  call: RouteRequest<'startRun'>,
  defaultTools = ({ tools = [] }: core.AgentDefinition): readonly string[] | undefined => tools,
): Promise<RunSpec> {
  const { input, tools, ...body } = call.body;
  return buildSpec(call, {
    ...body,
    surface: 'runs',
    messages: typeof input === 'string' ? [{ role: 'user', content: input }] : input,
    prompt: 'append',
    tools(agent) {
      if (tools === undefined) return { tools: toolsOfAgent(call, defaultTools(agent)) };
      rejectUnavailableTools(call, tools, (body.memory ?? agent.memory) !== undefined);
      return chooseToolsAndFunctions(call, tools);
    },
    modelRequired,
  });
}

/** A run without memory, and one that is no turn of a session, would silently omit such a tool. */
function rejectUnavailableTools(
  call: ApiRequest,
  tools: NonNullable<BodyOf<'startRun'>['tools']>,
  hasMemory: boolean,
): void {
  const registry = call.context.control.engine.tools(call.caller.tenantId);
  for (const [index, { kind, name }] of tools.entries()) {
    if (kind !== 'builtin') continue;
    const tool = registry.find(name);
    const lacksMemory = tool?.needsMemory === true && !hasMemory;
    if (!lacksMemory && tool?.needsSession !== true) continue;
    const required = lacksMemory ? 'memory' : 'a session';
    throw invalidField(`tools[${index}].name`, `The tool ${name} requires ${required}`);
  }
}

export const listRuns: Handler<'listRuns'> = async (call) => {
  const { items, ...rest } = await readListed(call.query, (page) =>
    storeOf(call).listRuns(filterOf(call.query), page),
  );
  return { runs: items.map(presentListed), ...rest };
};

function filterOf(query: QueryOf<'listRuns'>): RunFilter {
  const { status, agent, conversationId, parentRunId, workflowId, label, since, until } = query;
  return defined({
    status,
    agent,
    conversationId,
    parentRunId,
    workflowId,
    label: labelOf(label),
    since: parseTime(since),
    until: parseTime(until),
  });
}

/** A label in the form `name:value`. */
export function labelOf(
  label: string | undefined,
): { readonly name: string; readonly value: string } | undefined {
  const colon = label?.indexOf(':') ?? -1;
  return label === undefined
    ? undefined
    : { name: label.slice(0, colon), value: label.slice(colon + 1) };
}

export const getRun: Handler<'getRun'> = async (call) => presentNow(call, call.params.id);

export async function presentNow(call: ApiRequest, runId: string) {
  const run = await findRun(call, runId);
  return present(call, run);
}

/** The whole log, or a page of it, is written as it is read. */
export const listRunEvents: Handler<'listRunEvents'> = async (call) => {
  const { after, limit = Infinity } = call.query;
  const run = await findRun(call, call.params.id);
  rejectPastEnd(after, run);
  const to = Math.min(run.lastSeq, after + limit);
  if (after === to) await rejectPruned(call, run);
  const pages = core.readJournal(storeOf(call), run.id, { after, to });
  // Before the response starts: a damaged or pruned journal is an error response.
  const first = await pages.next();
  const presented = await present(call, run);
  const nextCursor = to < run.lastSeq ? String(to) : null;
  await streamJson(call, eventLog(presented, nextCursor, first, pages));
};

async function* eventLog(
  run: object,
  nextCursor: string | null,
  first: IteratorResult<StoredEvent[], void>,
  pages: AsyncGenerator<StoredEvent[], void>,
): AsyncGenerator<string, void> {
  yield `{"run":${JSON.stringify(run)},"events":[`;
  let separator = '';
  for (let page = first; page.done !== true; page = await pages.next()) {
    yield separator + page.value.map((event) => JSON.stringify(event)).join(',');
    separator = ',';
  }
  yield `],"nextCursor":${JSON.stringify(nextCursor)}}`;
}

export const followRun: Handler<'followRun'> = (call) =>
  follow(call, call.query, dialects[call.query.dialect]);

export const followRunEvents: Handler<'followRunEvents'> = (call) =>
  follow(call, call.query, undefined);

type StreamQuery = QueryOf<'followRunEvents'>;
type StreamCall = ApiRequest & { readonly params: { readonly id: string } };

async function follow(
  call: StreamCall,
  query: StreamQuery,
  dialect: Dialect | undefined,
): Promise<void> {
  const position = await positionToFollow(call, query);
  call.reply.raw.setHeader('x-run-id', call.params.id);
  // A 204 makes an SSE client stop reconnecting.
  if (position === undefined) return;
  const { run, after } = position;
  const source = { store: storeOf(call), hub: call.context.hub, runId: run.runId };
  const batches = subscribe.followRun(source, {
    after,
    follow: query.follow === 'true',
    signal: closedSignal(call.reply.raw),
  });
  void streamRun(call, { dialect, run, batches });
}

/** Undefined if the run has ended and no event follows. Drops the record, whose output may be long. */
async function positionToFollow(
  call: StreamCall,
  query: StreamQuery,
): Promise<{ run: RunHeader; after: number } | undefined> {
  const record = await findRun(call, call.params.id);
  // A client that reconnects repeats its URL and adds the id of its last frame.
  const after = lastEventId(call) ?? query.after ?? 0;
  rejectPastEnd(after, record);
  if (isEnded(record.status)) {
    await rejectPruned(call, record);
    if (after === record.lastSeq) return undefined;
  }
  return { run: runHeader(record), after };
}

/** Before the stream starts: a pruned journal is an error, not an empty stream. */
async function rejectPruned(call: ApiRequest, { id, lastSeq }: RunRecord): Promise<void> {
  try {
    await storeOf(call).readEvents(id, { after: lastSeq, limit: 1 });
  } catch (error) {
    if (error instanceof RelayError && error.code === 'journal_pruned') throw error;
  }
}

/** Sends hints about changes until the client disconnects. */
export const followFeed: Handler<'followFeed'> = async ({ reply, context, caller }) => {
  reply.hijack();
  const stream = new SseStream(reply.raw);
  const remove = context.streams.add(caller, () => void stream.end());
  try {
    const hints = context.feed.read(caller.tenantId, stream.closed);
    await stream.send(encodeFrame({ data: JSON.stringify({ kind: 'connected' }) }));
    for await (const batch of hints) {
      const frames = batch.map((hint) => encodeFrame({ data: JSON.stringify(hint) }));
      await stream.send(frames.join(''));
    }
  } finally {
    remove();
    await stream.end();
  }
};

export const cancelRun: Handler<'cancelRun'> = async (call) => {
  const run = await findRun(call, call.params.id);
  const ref = { tenantId: run.tenantId, runId: run.id };
  const why = { reason: `Canceled by ${call.caller.actor.name}`, by: call.caller.actor };
  await core.cancelRun(call.context.control, ref, why);
  return presentNow(call, run.id);
};

/** The grants of its owner hold in a run, so no other caller says what it does. */
export const messageRun: Handler<'messageRun'> = async (call) => {
  const { caller, body, context } = call;
  const run = await findRun(call, call.params.id);
  if (run.owner !== personOf(caller.actor)) {
    throw new RelayError(
      'not_run_owner',
      'This run belongs to another owner: use a key of that owner',
    );
  }
  const from = senderOf(caller);
  const ref = { tenantId: run.tenantId, runId: run.id };
  const id = await core.messageRun(context.control, ref, { ...body, from });
  return { id, runId: run.id, from, ...body };
};

const missingEventCodes = new Set(['journal_corrupt', 'journal_pruned']);

async function present(call: ApiRequest, run: RunRecord) {
  const { answerSeq, lastSeq } = run;
  const end = answerSeq === null ? undefined : await eventAt(call, run, lastSeq);
  return presentRun(run, await eventAt(call, run, 1), end);
}

/** Undefined if it is damaged or pruned. */
async function eventAt(
  call: ApiRequest,
  run: RunRecord,
  seq: number,
): Promise<StoredEvent | undefined> {
  try {
    const [event] = await storeOf(call).readEvents(run.id, { after: seq - 1, limit: 1 });
    return event;
  } catch (error) {
    if (error instanceof RelayError && missingEventCodes.has(error.code)) return undefined;
    throw error;
  }
}

export function lastEventId(call: ApiRequest): number | undefined {
  const header = call.request.headers['last-event-id'];
  if (header === undefined || header === '') return undefined;
  if (typeof header === 'string' && /^\d{1,15}$/.test(header)) return Number(header);
  throw invalidField('Last-Event-ID', 'Must be the id of a frame');
}

export function rejectPastEnd(after: number, journal: { readonly lastSeq: number }): void {
  if (after <= journal.lastSeq) return;
  throw new RelayError(
    'cursor_past_end',
    `after=${after} is past the end of the journal (${journal.lastSeq})`,
  );
}
