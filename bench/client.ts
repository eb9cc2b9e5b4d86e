/** The client of the benchmarks: bare `node:http` with connections that are kept. */
import { Agent, type ClientRequest, request } from 'node:http';
import { inTime } from './processes/in-time.ts';

export const agent = new Agent({ keepAlive: true });

export interface Address {
  readonly port: number;
  readonly apiKey: string;
}

export interface Exchange {
  /** Resolves when the response has begun. */
  readonly opened: Promise<void>;
  /** Resolves at the end of the response; rejects if it is an error. */
  readonly ended: Promise<void>;
  readonly close: () => void;
}

/** A POST request with `body`, or a GET request without. */
export function exchange(
  { port, apiKey }: Address,
  path: string,
  body?: object,
  read: (chunk: string) => void = () => undefined,
): Exchange {
  const json = body === undefined ? {} : { 'content-type': 'application/json' };
  const sent: ClientRequest = request({
    host: '127.0.0.1',
    port,
    path,
    method: body === undefined ? 'GET' : 'POST',
    agent,
    headers: { authorization: `Bearer ${apiKey}`, ...json },
  });
  const opened = Promise.withResolvers<void>();
  const ended = new Promise<void>((resolve, reject) => {
    sent.once('error', reject);
    sent.once('response', (response) => {
      opened.resolve();
      const { statusCode = 0 } = response;
      const fail = (chunk: string) => reject(new Error(`${path}: ${statusCode} ${chunk}`));
      response.setEncoding('latin1');
      response.on('data', statusCode < 300 ? read : fail);
      response.once('error', () => undefined);
      response.once('close', resolve);
    });
  });
  sent.end(body && JSON.stringify(body));
  return { opened: opened.promise, ended, close: () => void sent.destroy() };
}

/** The response of a request, as JSON. */
export async function ask(server: Address, path: string, body?: object): Promise<unknown> {
  let text = '';
  await exchange(server, path, body, (chunk) => {
    text += chunk;
  }).ended;
  return JSON.parse(text);
}

export interface ParkedRun extends Exchange {
  readonly runId: string;
  readonly approvalId: string;
}

/** Starts a run whose tool waits for an approval; its stream stays open. */
export async function park(server: Address): Promise<ParkedRun> {
  let text = '';
  const { promise, resolve, reject } = Promise.withResolvers<ParkedRun>();
  const body = { model: 'short', input: 'Go on', tools: [{ name: 'guarded', kind: 'builtin' }] };
  const opened = exchange(server, '/v1/runs', body, (chunk) => {
    text += chunk;
    const [, approvalId] = /"type":"approval_requested","id":"([^"]+)"/.exec(text) ?? [];
    const [, runId] = /"type":"run","id":"([^"]+)"/.exec(text) ?? [];
    if (approvalId !== undefined && runId !== undefined) {
      resolve({ ...opened, runId, approvalId });
    }
  });
  void opened.ended.then(() => reject(new Error(`The run did not wait: ${text}`)), reject);
  return inTime('A run that waits for an approval', promise);
}

/** `count` times `work`, with up to `atOnce` at the same time. */
export async function repeat<Result>(
  count: number,
  atOnce: number,
  work: () => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  let left = count;
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      while (left-- > 0) results.push(await work());
    }),
  );
  return results;
}
