/** Whether the server is there, is Relay, is of this version, takes runs, and has the right time. */
import { connect } from 'node:net';
import { isLocal } from '../connection.ts';
import { type Finding, ok, warning, wrong } from './finding.ts';

const deliveryTimeoutMs = 5_000;
/** Keys and grants expire by the clock, and a minute is what people do not notice. */
const tolerableSkewMs = 60_000;

export async function* examineServer(url: string, version: string): AsyncGenerator<Finding> {
  const asked = Date.now();
  let response: Response;
  try {
    response = await fetch(`${url}/health`, { signal: AbortSignal.timeout(deliveryTimeoutMs) });
  } catch (error) {
    yield await unreachable(url, error);
    return;
  }
  const health = await healthOf(response);
  if (health === undefined) {
    yield wrong(
      'server',
      `Something answers at ${url}, but it is not Relay (status ${response.status})`,
      'another program may have the port: stop it, or choose another with RELAY_PORT and --url',
    );
    return;
  }
  yield ok('server', `Relay answers at ${url}`);
  yield sameVersion(health, version);
  yield await ready(url);
  const skew = skewOf(response.headers.get('date'), asked, Date.now());
  if (skew !== undefined) yield clock(skew);
}

async function healthOf(response: Response): Promise<string | undefined> {
  try {
    const body = (await response.json()) as { status?: unknown; version?: unknown } | null;
    return body?.status === 'ok' && typeof body.version === 'string' ? body.version : undefined;
  } catch {
    return undefined;
  }
}

async function unreachable(url: string, error: unknown): Promise<Finding> {
  const { hostname, port, protocol } = new URL(url);
  const isOpen = await answers(
    hostname,
    Number(port === '' ? (protocol === 'https:' ? 443 : 80) : port),
  );
  if (isOpen) {
    return wrong(
      'server',
      `Something listens at ${url}, but does not speak HTTP as Relay does: ${causeOf(error)}`,
      'see what has the port, and whether it is http or https',
    );
  }
  const mend = isLocal(url)
    ? 'start it with "relay serve", or set RELAY_URL to where it runs'
    : 'check RELAY_URL, the network and the firewall';
  return wrong('server', `Nobody answers at ${url}: ${causeOf(error)}`, mend);
}

function answers(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: host.replace(/^\[(.*)\]$/, '$1'), port, timeout: 2_000 });
    const end = (isOpen: boolean) => {
      socket.destroy();
      resolve(isOpen);
    };
    socket.once('connect', () => end(true));
    socket.once('error', () => end(false));
    socket.once('timeout', () => end(false));
  });
}

/** What fetch hides behind "fetch failed". */
function causeOf(error: unknown): string {
  const { cause } = (error ?? {}) as { cause?: { code?: string; message?: string } };
  const message = error instanceof Error ? error.message : String(error);
  return cause?.code ?? cause?.message ?? message;
}

function sameVersion(server: string, here: string): Finding {
  if (server === here) return ok('version', `Both are ${here}`);
  const mend = 'bring both to the same version; commands may miss what the other one knows';
  return warning('version', `The server is ${server}, this command ${here}`, mend);
}

async function ready(url: string): Promise<Finding> {
  try {
    const response = await fetch(`${url}/ready`, {
      signal: AbortSignal.timeout(deliveryTimeoutMs),
    });
    if (response.ok) return ok('ready', 'Its store answers and it takes runs');
    const body = (await response.json().catch(() => ({}))) as { error?: string };
    const why = body.error ?? `status ${response.status}`;
    return wrong('ready', `It takes no runs: ${why}`, 'see its log; check disk and database');
  } catch (error) {
    return wrong(
      'ready',
      `It does not say whether it takes runs: ${causeOf(error)}`,
      'see its log',
    );
  }
}

/** How far its clock is ahead; undefined if that cannot be said. Dates have whole seconds. */
export function skewOf(date: string | null, asked: number, answered: number): number | undefined {
  const there = Date.parse(date ?? '');
  if (Number.isNaN(there)) return undefined;
  if (there < asked - 1_000) return there - asked;
  return there > answered ? there - answered : 0;
}

export function clock(skewMs: number): Finding {
  const seconds = Math.round(Math.abs(skewMs) / 1_000);
  if (Math.abs(skewMs) <= tolerableSkewMs) return ok('clock', 'The clocks agree');
  const side = skewMs > 0 ? 'ahead of' : 'behind';
  return warning(
    'clock',
    `The server's clock is ${seconds} s ${side} this one`,
    'set both by NTP: keys, grants and requests expire by the clock',
  );
}
