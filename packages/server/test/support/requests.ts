/** Requests to a test server, by surface. */
import { expect } from 'vitest';
import { FrameReader, type SeenFrame } from './frames.ts';
import { type TestServer, until, type RequestOptions } from './server.ts';

export interface StartedRun {
  readonly runId: string;
  readonly reader: FrameReader;
}

export interface Chat extends StartedRun {
  readonly sessionId: string;
}

/** The body of an error; that of JSON-RPC in the same form. */
export async function errorOf(response: Response): Promise<Record<string, unknown>> {
  const body = (await response.json()) as Record<string, unknown>;
  if (body['jsonrpc'] === undefined) return body;
  const { message, data } = body['error'] as { message: string; data?: object };
  return { error: message, ...data };
}

const note = { name: 'send_note', kind: 'builtin' };
const builtins = [{ name: 'calculator', kind: 'builtin' }, note];

/** Starts a run by `POST /v1/runs`; by default with both built-in tools. */
export async function startRun(
  server: TestServer,
  body: Record<string, unknown>,
  options: RequestOptions = {},
): Promise<StartedRun> {
  const response = await server.request('/v1/runs', {
    ...options,
    body: { model: 'demo', tools: builtins, ...body },
  });
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  return { runId: runIdOf(response), reader: new FrameReader(response) };
}

/** Starts a run and reads its stream to the end. */
export async function finishedRun(
  server: TestServer,
  body: Record<string, unknown>,
): Promise<{ runId: string; frames: SeenFrame[] }> {
  const { runId, reader } = await startRun(server, body);
  return { runId, frames: await reader.rest() };
}

/** Starts a chat by `POST /chat` and reads `connected`. */
export async function startChat(
  server: TestServer,
  content: string,
  { body, ...options }: RequestOptions & { body?: Record<string, unknown> } = {},
): Promise<Chat> {
  const response = await server.request('/chat', {
    ...options,
    body: { model: 'demo', messages: [{ role: 'user', content }], ...body },
  });
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  const reader = new FrameReader(response);
  const { data } = await reader.until('connected');
  return { runId: runIdOf(response), sessionId: String(data['sessionId']), reader };
}

export function answerApproval(
  server: TestServer,
  chat: Pick<Chat, 'sessionId'>,
  answer: { approvalId: unknown; response: unknown },
  options: RequestOptions = {},
): Promise<Response> {
  return server.request(`/chat/relay/${String(answer.approvalId)}`, {
    ...options,
    body: { sessionId: chat.sessionId, response: answer.response },
  });
}

/** Sends a message by `POST /api/chat`; with the demo model unless the body names another. */
export async function startApiChat(
  server: TestServer,
  message: string,
  { body, ...options }: RequestOptions & { body?: Record<string, unknown> } = {},
): Promise<StartedRun> {
  const response = await server.request('/api/chat', {
    ...options,
    body: { model: 'demo', message, ...body },
  });
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  return { runId: runIdOf(response), reader: new FrameReader(response) };
}

/** The response of `tool-approval` and `resume`. */
export interface EventsResponse {
  readonly code: number;
  readonly body: Readonly<Record<string, unknown>>;
  readonly events: readonly SeenFrame['data'][];
}

export function decideCall(
  server: TestServer,
  body: unknown,
  options: RequestOptions = {},
): Promise<EventsResponse> {
  return post(server, '/api/chat/tool-approval', { ...options, body });
}

export function resumeRun(
  server: TestServer,
  runId: unknown,
  options: RequestOptions = {},
): Promise<EventsResponse> {
  return post(server, '/api/chat/resume', { ...options, body: { runId } });
}

async function post(
  server: TestServer,
  path: string,
  options: RequestOptions,
): Promise<EventsResponse> {
  const response = await server.request(path, options);
  const body = (await response.json()) as Record<string, unknown>;
  return {
    code: response.status,
    body,
    events: (body['events'] ?? []) as EventsResponse['events'],
  };
}

export async function statusOf(server: TestServer, runId: string): Promise<unknown> {
  return (await server.json(`/v1/runs/${runId}`))['status'];
}

export function untilStatus(server: TestServer, runId: string, status: string): Promise<unknown> {
  return until(
    async () => ((await statusOf(server, runId)) === status ? status : undefined),
    `run ${runId} to be ${status}`,
  );
}

export interface EventList {
  readonly run: Record<string, unknown>;
  readonly events: readonly ({ seq: number; type: string } & Record<string, unknown>)[];
  readonly nextCursor: string | null;
}

export async function eventsOf(server: TestServer, runId: string, query = ''): Promise<EventList> {
  const response = await server.request(`/v1/runs/${runId}/events${query}`);
  return (await response.json()) as EventList;
}

function runIdOf(response: Response): string {
  const runId = response.headers.get('x-run-id');
  if (runId === null) throw new Error('The response has no x-run-id');
  return runId;
}

/** `/health` answers within 100 ms. One slow response may be the machine's fault, five are not. */
export async function expectHealth(server: TestServer): Promise<void> {
  let fastest = Infinity;
  for (let attempt = 0; attempt < 5 && fastest > 100; attempt += 1) {
    const since = performance.now();
    expect((await server.request('/health', { key: null })).status).toBe(200);
    fastest = Math.min(fastest, performance.now() - since);
  }
  expect(fastest).toBeLessThanOrEqual(100);
}
