/** A program that talks to /api/chat as the document has it. */
import { type Frame, FrameReader } from '../support/frames.ts';
import type { ServerFixture } from '../support/server.ts';
import type { StoreServer } from './store-server.ts';

export type Data = Frame['data'];

export interface Said {
  readonly runId: string;
  readonly response: Response;
  readonly reader: FrameReader;
}

/** `apiKey`: default: that of the first tenant. */
interface As {
  readonly apiKey?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export async function say(
  server: ServerFixture,
  message: string,
  { body, ...as }: As & { readonly body?: object } = {},
): Promise<Said> {
  const response = await post(server, '/api/chat', {
    body: { model: 'demo', message, ...body },
    ...as,
  });
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  const runId = response.headers.get('x-run-id') ?? '';
  return { runId, response, reader: new FrameReader(response) };
}

/** What tool-approval and resume answer, whether they worked or not. */
export interface EventBuffer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
  readonly events: readonly Data[];
}

export function decide(server: ServerFixture, body: unknown, as: As = {}): Promise<EventBuffer> {
  return tell(server, '/api/chat/tool-approval', { body, ...as });
}

export function resume(server: ServerFixture, runId: unknown, as: As = {}): Promise<EventBuffer> {
  return tell(server, '/api/chat/resume', { body: { runId }, ...as });
}

async function tell(
  server: ServerFixture,
  path: string,
  of: As & { body: unknown },
): Promise<EventBuffer> {
  const response = await post(server, path, of);
  const body = (await response.json()) as Record<string, unknown>;
  return { status: response.status, body, events: (body['events'] ?? []) as Data[] };
}

export function post(
  server: ServerFixture,
  path: string,
  { apiKey, headers, body }: As & { body: unknown },
): Promise<Response> {
  if (apiKey === undefined) return server.request(path, { body, ...(headers && { headers }) });
  const own = { ...headers, authorization: `Bearer ${apiKey}` };
  return server.request(path, { keyless: true, body, headers: own });
}

/** A chat that has asked for approval, and waits. */
export async function askFor(
  server: ServerFixture,
  message: string,
): Promise<Said & { asked: Data }> {
  const said = await say(server, message);
  const { data: asked } = await said.reader.until('tool_approval_requested');
  for (;;) {
    const { data } = await said.reader.until('agent_progress');
    if (data['status'] === 'waiting') return { ...said, asked };
  }
}

export function note(text: string): string {
  return `use send_note ${JSON.stringify({ to: 'ann', text })}`;
}

export function typesOf(events: readonly Data[]): string[] {
  return events.map(({ type }) => type);
}

export async function statusOf(server: ServerFixture, runId: string): Promise<unknown> {
  return ((await (await server.request(`/v1/runs/${runId}`)).json()) as { status: unknown }).status;
}

/** Another org on the same server, made while it runs. */
export function otherOrg(server: ServerFixture): Promise<string> {
  return server.bootstrap('another');
}

/** What the table runs holds of a run, read and changed past the server. */
export class RunRow {
  readonly #server: StoreServer;
  readonly #id: string;

  constructor(server: StoreServer, id: string) {
    this.#server = server;
    this.#id = id;
  }

  async read(): Promise<{ readonly state: string | null; readonly output: string | null }> {
    const sql = 'SELECT serialized_state AS state, output_json AS output FROM runs WHERE id = ?';
    const [row] = await this.#server.sql(sql, [this.#id]);
    return { state: textOf(row?.['state']), output: textOf(row?.['output']) };
  }

  /** Assignments of columns, such as `output_json = NULL`. */
  async change(assignments: string, ...values: readonly (string | number | null)[]): Promise<void> {
    const sql = `UPDATE runs SET ${assignments} WHERE id = ? RETURNING id`;
    const changed = await this.#server.sql(sql, [...values, this.#id]);
    if (changed.length !== 1) throw new Error('There is no such run');
  }
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}
