/**
 * The people and programs on the other side. Each run that they start is followed to its end, through
 * any number of broken connections; every frame and every 2xx goes into a file of its own before
 * anything follows from it. Commands come as lines on standard input.
 */
import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { readSse } from '@relay/protocol';
import type { Scenario } from '../chaos/record.ts';
import { pause } from './serving.ts';

type Command =
  | { readonly do: 'servers'; readonly urls: readonly string[]; readonly key: string }
  | { readonly do: 'go'; readonly atOnce: number; readonly scenarios: readonly Scenario[] }
  | { readonly do: 'credential'; readonly provider: string; readonly body: object }
  | { readonly do: 'drain' };

const file = process.env['CLIENT_FILE'] ?? '';
const round = process.env['ROUND'] ?? '';
const model = process.env['MODEL'] ?? '';
const toolServer = process.env['TEST_TOOL_SERVER'] ?? '';
let urls: readonly string[] = [];
let key = '';
const draining = new AbortController();
let started = 0;
let place = 0;
const lanes: Promise<void>[] = [];

function record(entry: object): void {
  appendFileSync(file, `${JSON.stringify({ at: Date.now(), ...entry })}\n`);
}

const hour = 3_600_000;
const builtin = (name: string) => ({ name, kind: 'builtin' });
const bodies: Readonly<Record<Scenario, object>> = {
  plain: {},
  cancel: {},
  charge: { tools: [builtin('charge')] },
  look: { tools: [builtin('look')] },
  pay: { tools: [builtin('pay')] },
  two: { tools: [builtin('pay')] },
  once: { tools: [builtin('pay')], permissions: { allowOnce: [{ tool: 'pay' }] } },
  client: {
    tools: [{ name: 'lookup', kind: 'function', inputSchema: { type: 'object' }, timeoutMs: hour }],
  },
  handoff: { agent: 'desk' },
};

interface Run {
  readonly tag: string;
  readonly scenario: Scenario;
  runId: string;
  last: number;
  over: boolean;
  readonly done: Set<string>;
}

/** Repeats a request until a server responds to it. */
async function insist(path: string, init: RequestInit = {}): Promise<Response> {
  for (;;) {
    const url = urls[(place += 1) % urls.length] ?? '';
    try {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
      const response = await fetch(`${url}${path}`, {
        ...init,
        headers: { ...headers, ...(init.headers as Record<string, string>) },
      });
      if (response.status < 500) return response;
      record({ kind: 'refused', path, status: response.status, body: await response.text() });
    } catch {
      // The server is down.
    }
    await pause(50 + Math.random() * 100);
  }
}

const post = (path: string, body?: object) =>
  insist(path, { method: 'POST', body: JSON.stringify(body ?? {}) });

async function begin(run: Run): Promise<Response> {
  const body = { model, input: `${run.scenario} ${run.tag}`, ...bodies[run.scenario] };
  const response = await insist('/v1/runs', {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'idempotency-key': run.tag },
  });
  run.runId = response.headers.get('x-run-id') ?? '';
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  record({ kind: 'ack', of: 'run', runId: run.runId, tag: run.tag, scenario: run.scenario });
  return response;
}

async function play(run: Run): Promise<void> {
  let response = await begin(run);
  for (;;) {
    if (response.ok) await follow(run, response).catch(() => undefined);
    else {
      const { status } = response;
      record({ kind: 'trouble', runId: run.runId, status, text: await response.text() });
      return;
    }
    if (run.over) return;
    await pause(50);
    const headers = { 'last-event-id': String(run.last) };
    response = await insist(`/v1/runs/${run.runId}/stream`, { headers });
  }
}

async function follow(run: Run, response: Response): Promise<void> {
  if (response.body === null) return;
  for await (const { id, data: text } of readSse(response.body)) {
    const data = JSON.parse(text) as Readonly<Record<string, unknown>>;
    const seq = Number(id);
    record({ kind: 'frame', runId: run.runId, seq, data });
    run.last = Math.max(run.last, seq);
    if (data['type'] === 'done') run.over = true;
    // Decisions do not block reading.
    void react(run, data).catch((error: unknown) =>
      record({ kind: 'trouble', runId: run.runId, text: String(error) }),
    );
  }
}

async function react(run: Run, data: Readonly<Record<string, unknown>>): Promise<void> {
  const { runId, scenario } = run;
  const id = String(data['id']);
  if (data['type'] === 'token' && scenario === 'cancel' && !run.done.has('cancel')) {
    run.done.add('cancel');
    const { ok, status } = await post(`/v1/runs/${runId}/cancel`);
    record({ kind: ok ? 'ack' : 'trouble', of: 'cancel', runId, status });
  }
  if (data['type'] === 'approval_requested' && !run.done.has(id)) {
    run.done.add(id);
    await decide(run, { approvalId: id, kind: data['kind'], call: String(data['toolCallId']) });
  }
  if (data['type'] === 'tool_call' && data['name'] === 'lookup' && !run.done.has(id)) {
    run.done.add(id);
    const output = { found: id };
    const { ok, status } = await post(`/v1/runs/${runId}/tool-results/${id}`, { output });
    record({ kind: ok ? 'ack' : 'trouble', of: 'result', runId, call: id, output, status });
  }
}

interface Asked {
  readonly approvalId: string;
  readonly kind: unknown;
  readonly call: string;
}

/** A person who knows what happened, lets first calls through, and denies what comes second. */
async function decide(run: Run, { approvalId, kind, call }: Asked): Promise<void> {
  let approved = run.scenario !== 'once' && !call.endsWith('_2');
  let answer: object = { approved };
  if (kind === 'outcome') {
    // What was on its way when its sender died arrives, or never does.
    await pause(200);
    const asked = await fetch(`${toolServer}/ran/${encodeURIComponent(call)}`);
    approved = ((await asked.json()) as { ran: boolean }).ran;
    answer = approved ? { outcome: 'completed', output: { done: call } } : { outcome: 'failed' };
  }
  const response = await post(`/v1/approvals/${approvalId}`, answer);
  const { ok, status } = response;
  const text = ok ? undefined : await response.text();
  record({
    kind: ok ? 'ack' : 'trouble',
    of: 'decision',
    runId: run.runId,
    approvalId,
    approved,
    status,
    text,
  });
}

async function lane(scenarios: readonly Scenario[]): Promise<void> {
  while (!draining.signal.aborted) {
    const scenario = scenarios[started % scenarios.length] ?? 'plain';
    const tag = `${round}-${(started += 1)}`;
    const run: Run = { tag, scenario, runId: '', last: 0, over: false, done: new Set() };
    await play(run).catch((error: unknown) =>
      record({ kind: 'trouble', tag, text: String(error) }),
    );
  }
}

async function obey(command: Command): Promise<void> {
  switch (command.do) {
    case 'servers':
      ({ urls, key } = command);
      break;
    case 'go':
      for (let n = 0; n < command.atOnce; n += 1) lanes.push(lane(command.scenarios));
      break;
    case 'credential': {
      const { provider, body } = command;
      const response = await insist(`/v1/credentials/${provider}`, {
        method: 'PUT',
        body: JSON.stringify(body),
      });
      const answer = (await response.json()) as object;
      record({ kind: response.ok ? 'ack' : 'trouble', of: 'credential', provider, answer });
      console.log(JSON.stringify({ said: 'credential' }));
      break;
    }
    case 'drain':
      draining.abort();
      await Promise.all(lanes);
      console.log(JSON.stringify({ said: 'drained', started }));
      process.exit(0);
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  void obey(JSON.parse(line) as Command);
}
process.exit(0);
