/** What tests say to a server, in its own words. */
import { FrameReader, type SeenFrame } from './frames.ts';
import { type TestRelay, until, type Wish } from './relay.ts';

export interface Talk {
  readonly runId: string;
  readonly reader: FrameReader;
}

export interface Chat extends Talk {
  readonly sessionId: string;
}

const note = { name: 'send_note', kind: 'builtin' };
const builtins = [{ name: 'calculator', kind: 'builtin' }, note];

/** Starts a run by `POST /v1/runs`; by default with both built-in tools. */
export async function startRun(
  server: TestRelay,
  body: Record<string, unknown>,
  wish: Wish = {},
): Promise<Talk> {
  const response = await server.request('/v1/runs', {
    ...wish,
    body: { model: 'demo', tools: builtins, ...body },
  });
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  return { runId: runIdOf(response), reader: new FrameReader(response) };
}

/** Runs to the end and says which run it was. */
export async function finishedRun(
  server: TestRelay,
  body: Record<string, unknown>,
): Promise<{ runId: string; frames: SeenFrame[] }> {
  const { runId, reader } = await startRun(server, body);
  return { runId, frames: await reader.rest() };
}

/** Says one thing by `POST /chat`, and has read the greeting. */
export async function startChat(
  server: TestRelay,
  content: string,
  options: { body?: Record<string, unknown>; wish?: Wish } = {},
): Promise<Chat> {
  const response = await server.request('/chat', {
    ...options.wish,
    body: { model: 'demo', messages: [{ role: 'user', content }], ...options.body },
  });
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  const reader = new FrameReader(response);
  const { data } = await reader.until('connected');
  return { runId: runIdOf(response), sessionId: String(data['sessionId']), reader };
}

export function answerApproval(
  server: TestRelay,
  chat: Pick<Chat, 'sessionId'>,
  answer: { approvalId: unknown; response: unknown; wish?: Wish },
): Promise<Response> {
  return server.request(`/chat/relay/${String(answer.approvalId)}`, {
    ...answer.wish,
    body: { sessionId: chat.sessionId, response: answer.response },
  });
}

/** Says one thing by `POST /api/chat`; with the demo model unless the body names another. */
export async function startApiChat(
  server: TestRelay,
  message: string,
  options: { body?: Record<string, unknown>; wish?: Wish } = {},
): Promise<Talk> {
  const response = await server.request('/api/chat', {
    ...options.wish,
    body: { model: 'demo', message, ...options.body },
  });
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  return { runId: runIdOf(response), reader: new FrameReader(response) };
}

/** What `tool-approval` and `resume` answer, whether they worked or not. */
export interface EventBuffer {
  readonly code: number;
  readonly body: Readonly<Record<string, unknown>>;
  readonly events: readonly SeenFrame['data'][];
}

export function decideCall(
  server: TestRelay,
  body: unknown,
  wish: Wish = {},
): Promise<EventBuffer> {
  return tell(server, '/api/chat/tool-approval', { ...wish, body });
}

export function resumeRun(
  server: TestRelay,
  runId: unknown,
  wish: Wish = {},
): Promise<EventBuffer> {
  return tell(server, '/api/chat/resume', { ...wish, body: { runId } });
}

async function tell(server: TestRelay, path: string, wish: Wish): Promise<EventBuffer> {
  const response = await server.request(path, wish);
  const body = (await response.json()) as Record<string, unknown>;
  return { code: response.status, body, events: (body['events'] ?? []) as EventBuffer['events'] };
}

export async function statusOf(server: TestRelay, runId: string): Promise<unknown> {
  return (await server.json(`/v1/runs/${runId}`))['status'];
}

export function untilStatus(server: TestRelay, runId: string, status: string): Promise<unknown> {
  return until(
    async () => ((await statusOf(server, runId)) === status ? status : undefined),
    `run ${runId} to be ${status}`,
  );
}

export interface Listed {
  readonly run: Record<string, unknown>;
  readonly events: readonly ({ seq: number; type: string } & Record<string, unknown>)[];
  readonly nextCursor: string | null;
}

export async function eventsOf(server: TestRelay, runId: string, query = ''): Promise<Listed> {
  const response = await server.request(`/v1/runs/${runId}/events${query}`);
  return (await response.json()) as Listed;
}

function runIdOf(response: Response): string {
  const runId = response.headers.get('x-run-id');
  if (runId === null) throw new Error('The response has no x-run-id');
  return runId;
}
