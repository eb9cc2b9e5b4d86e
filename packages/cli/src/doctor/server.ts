/** Checks that the server is reachable, is Relay, is ready, and agrees on version and time. */
import { connect } from 'node:net';
import { isLocal } from '../local-server.ts';
import { fetchReason } from '../errors.ts';
import { type Finding, ok, warning, wrong } from './finding.ts';
import { relay } from '../environment.ts';

const requestTimeoutMs = 5_000;
/** Keys and grants expire by the server's clock. */
const maxSkewMs = 60_000;

export async function* checkServer(url: string, version: string): AsyncGenerator<Finding> {
  const sentAt = Date.now();
  let response: Response;
  try {
    response = await fetch(`${url}/health`, { signal: AbortSignal.timeout(requestTimeoutMs) });
  } catch (error) {
    yield await unreachable(url, error);
    return;
  }
  const health = await healthOf(response);
  if (health === undefined) {
    yield wrong(
      'server',
      `The server at ${url} is not Relay (status ${response.status})`,
      'another program may use the port: stop it, or choose another port with RELAY_PORT and --url',
    );
    return;
  }
  yield ok('server', `Relay responds at ${url}`);
  yield compareVersions(health, version);
  yield await checkReady(url);
  const skew = skewOf(response.headers.get('date'), sentAt, Date.now());
  if (skew !== undefined) yield clockFinding(skew);
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
  const isListening = await acceptsConnections(
    hostname,
    Number(port === '' ? (protocol === 'https:' ? 443 : 80) : port),
  );
  if (isListening) {
    return wrong(
      'server',
      `The server at ${url} does not respond as Relay does: ${reasonOf(error)}`,
      'check which program uses the port, and whether the URL needs http or https',
    );
  }
  const fix = isLocal(url)
    ? `start it with "${relay} serve", or set RELAY_URL to where it runs`
    : 'check RELAY_URL, the network and the firewall';
  return wrong('server', `No server responds at ${url}: ${reasonOf(error)}`, fix);
}

function acceptsConnections(host: string, port: number): Promise<boolean> {
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

function reasonOf(error: unknown): string {
  return fetchReason(error) ?? (error instanceof Error ? error.message : String(error));
}

function compareVersions(server: string, cli: string): Finding {
  if (server === cli) return ok('version', `Server and CLI are ${cli}`);
  const fix = 'install the same version of both; some commands may not work';
  return warning('version', `The server is ${server}, the CLI is ${cli}`, fix);
}

async function checkReady(url: string): Promise<Finding> {
  try {
    const response = await fetch(`${url}/ready`, {
      signal: AbortSignal.timeout(requestTimeoutMs),
    });
    if (response.ok) return ok('ready', 'The store is available, and the server is not stopping');
    const body = (await response.json().catch(() => ({}))) as { error?: string };
    const reason = body.error ?? `status ${response.status}`;
    return wrong(
      'ready',
      `The server accepts no runs: ${reason}`,
      'see the server log; check disk and database',
    );
  } catch (error) {
    return wrong('ready', `The readiness check failed: ${reasonOf(error)}`, 'see the server log');
  }
}

/** How far the server's clock is ahead; undefined without a date, which has whole seconds. */
export function skewOf(
  date: string | null,
  sentAt: number,
  receivedAt: number,
): number | undefined {
  const serverTime = Date.parse(date ?? '');
  if (Number.isNaN(serverTime)) return undefined;
  if (serverTime < sentAt - 1_000) return serverTime - sentAt;
  return serverTime > receivedAt ? serverTime - receivedAt : 0;
}

export function clockFinding(skewMs: number): Finding {
  const seconds = Math.round(Math.abs(skewMs) / 1_000);
  if (Math.abs(skewMs) <= maxSkewMs) return ok('clock', 'The clocks agree');
  const side = skewMs > 0 ? 'ahead of' : 'behind';
  return warning(
    'clock',
    `The server's clock is ${seconds} s ${side} this one`,
    'synchronise both with NTP: keys, grants and approvals expire by the clock',
  );
}
