/**
 * What has changed on the server, as it happens.
 *
 * Browsers open at most six connections to a server over HTTP/1.1, so all tabs share one feed: the tab
 * that holds the lock reads it and tells the others. When that tab closes, another one takes over. Where
 * there are no locks (plain HTTP on another machine), each tab reads its own.
 */
import type { FeedEvent } from '@relay/sdk';
import { useSyncExternalStore } from 'react';
import { client } from './client.ts';
import { queries } from './queries.ts';

/** `since`: when the connection was lost, in milliseconds. */
export type Connection =
  | { readonly status: 'connecting' | 'live' }
  | { readonly status: 'reconnecting' | 'offline'; readonly since: number };

type Told =
  | { readonly type: 'event'; readonly event: FeedEvent }
  | { readonly type: 'connection'; readonly connection: Connection }
  /** A new tab asks for the state of the connection. */
  | { readonly type: 'hello' };

const lockName = 'relay-console-feed';
const listeners = new Set<(event: FeedEvent) => void>();
const watchers = new Set<() => void>();
let connection: Connection = { status: 'connecting' };
let lastOutage: Outage | undefined;
let isReader = false;

/** Calls the listener for each event; returns what ends that. */
export function onFeedEvent(listener: (event: FeedEvent) => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** The last time without a connection, since the page was opened. */
export interface Outage {
  readonly from: number;
  readonly to: number;
}

function watch(watcher: () => void): () => void {
  watchers.add(watcher);
  return () => void watchers.delete(watcher);
}

export function useConnection(): Connection {
  return useSyncExternalStore(watch, () => connection);
}

export function useLastOutage(): Outage | undefined {
  return useSyncExternalStore(watch, () => lastOutage);
}

/** Whether this tab reads the feed for all tabs: what must happen once is done here. */
export function isFeedReader(): boolean {
  return isReader;
}

/** Reads the feed until the signal is aborted. */
export function startFeed(signal: AbortSignal): void {
  const channel = new BroadcastChannel(lockName);
  channel.addEventListener('message', ({ data }: MessageEvent<Told>) => {
    if (data.type === 'event') deliver(data.event);
    else if (data.type === 'connection') setConnection(data.connection);
    else if (isReader) channel.postMessage({ type: 'connection', connection } satisfies Told);
  });
  signal.addEventListener('abort', () => channel.close());
  const tell = (told: Told) => {
    if (!signal.aborted) channel.postMessage(told);
  };
  const read = async () => {
    isReader = true;
    await readFeed(signal, tell);
    isReader = false;
  };
  tell({ type: 'hello' });
  if (!('locks' in navigator)) void read();
  // Rejects when the signal is aborted, which ends it.
  else navigator.locks.request(lockName, { signal }, read).catch(() => undefined);
}

async function readFeed(signal: AbortSignal, tell: (told: Told) => void): Promise<void> {
  const connect = (next: Connection) => {
    setConnection(next);
    tell({ type: 'connection', connection: next });
  };
  const lost = () => {
    const since = 'since' in connection ? connection.since : Date.now();
    connect({ status: navigator.onLine ? 'reconnecting' : 'offline', since });
  };
  while (!signal.aborted) {
    try {
      for await (const event of client.feed({ signal, onDisconnect: lost })) {
        if (event.kind === 'connected') connect({ status: 'live' });
        deliver(event);
        tell({ type: 'event', event });
      }
    } catch {
      // A request finds out what is wrong: a sign-in that has ended shows the page for it.
      lost();
      await queries.invalidateQueries({ queryKey: ['account'] });
      await new Promise((resolve) => setTimeout(resolve, 2_000));
    }
  }
}

function setConnection(next: Connection): void {
  if (next.status === 'live' && 'since' in connection) {
    lastOutage = { from: connection.since, to: Date.now() };
  }
  connection = next;
  for (const watcher of watchers) watcher();
}

/** What to read again after an event of a kind: the first parts of query keys. */
const concerns: Readonly<Record<string, readonly string[]>> = {
  run: ['runs', 'run', 'conversations', 'stats', 'audit-latest', 'tenant'],
  approval: ['approvals', 'approval', 'grants', 'stats', 'audit-latest'],
  // `sessions.ts` reads the one that has changed.
  session: ['sessions'],
  message: ['messages', 'message', 'channels', 'session-messages'],
  delivery: ['deliveries', 'session-messages'],
};

const dueKinds = new Set<string>();
/** The hashes of those to read again as soon as their present read has ended. */
const lateQueries = new Set<string>();
let isWaiting = false;
/** The first event of a burst is handled at once, the rest of it together. */
const burstMs = 250;

function deliver(event: FeedEvent): void {
  for (const listener of listeners) listener(event);
  dueKinds.add(event.kind);
  if (!isWaiting) refresh();
}

function refresh(): void {
  if (dueKinds.size === 0 && lateQueries.size === 0) return void (isWaiting = false);
  isWaiting = true;
  const kinds = new Set(dueKinds);
  dueKinds.clear();
  const isAll = [...kinds].some((kind) => concerns[kind] === undefined);
  const names = new Set([...kinds].flatMap((kind) => concerns[kind] ?? []));
  const due = queries.getQueryCache().findAll({
    predicate: ({ queryHash, queryKey: [name] }) =>
      lateQueries.has(queryHash) || (name !== 'stats' && (isAll || names.has(String(name)))),
  });
  lateQueries.clear();
  for (const { queryKey, queryHash, state } of due) {
    // It may have read the state before the event, and is read once more after that. Cancelling it
    // instead would never let a slow one arrive while events go on.
    if (state.fetchStatus === 'fetching') lateQueries.add(queryHash);
    else void queries.invalidateQueries({ queryKey, exact: true });
  }
  if (isAll || names.has('stats')) refreshStats();
  setTimeout(refresh, burstMs);
}

/** Statistics take seconds to compute from a large store. */
const statsEveryMs = 30_000;
let statsTimer: ReturnType<typeof setTimeout> | undefined;
let areStatsDue = false;

function refreshStats(): void {
  areStatsDue = true;
  if (statsTimer !== undefined) return;
  areStatsDue = false;
  // One that is under way is not started again, else a slow one would never arrive.
  void queries.invalidateQueries({ queryKey: ['stats'] }, { cancelRefetch: false });
  statsTimer = setTimeout(() => {
    statsTimer = undefined;
    if (areStatsDue) refreshStats();
  }, statsEveryMs);
}
