/** Detects SSE connections whose peer vanished without closing them. */
import { closeSync, openSync, readSync } from 'node:fs';
import { isIPv6, type Socket } from 'node:net';
import { endianness } from 'node:os';
import { setImmediate as nextTurn } from 'node:timers/promises';

export interface Peer {
  readonly socket: Pick<
    Socket,
    'localPort' | 'remoteAddress' | 'remotePort' | 'bytesWritten' | 'writableLength'
  > | null;
  /** Destroys the connection. */
  destroy(): void;
}

const deadAfterMs = 10_000;
/** Timers may fire a little early. */
const toleranceMs = 500;
const minTries = 2;

/**
 * Destroys connections whose peer vanished. Unacknowledged data would keep such a connection open for a
 * quarter of an hour, and Node offers no `TCP_USER_TIMEOUT`, so this reads the kernel's table of
 * connections.
 *
 * A peer is dead if the kernel keeps retrying and nothing was acknowledged between two checks that are
 * ten seconds apart. A slow reader answers the kernel's probes and stays connected.
 */
export class DeadPeerDetector {
  readonly #read: ReadTcpTable;
  /** Peers that were silent at the last check, since when, and how much they had acknowledged. */
  #silent = new Map<Peer, { since: number; acknowledged: number }>();
  #checking = false;

  constructor(read: ReadTcpTable = readTcpTable) {
    this.#read = read;
  }

  /** Whether any peer was silent at the last check. */
  get hasSilent(): boolean {
    return this.#silent.size > 0;
  }

  /** Never rejects; skipped while a check is running. */
  async check(peers: ReadonlySet<Peer>, now = performance.now()): Promise<void> {
    if (this.#checking || peers.size === 0) return;
    this.#checking = true;
    try {
      const unanswered = await this.#read();
      if (unanswered !== undefined) this.#destroyDead(peers, unanswered, now);
    } catch {
      // The next check retries.
    } finally {
      this.#checking = false;
    }
  }

  #destroyDead(
    peers: ReadonlySet<Peer>,
    unanswered: ReadonlyMap<string, Unanswered>,
    now: number,
  ): void {
    const before = this.#silent;
    this.#silent = new Map();
    if (unanswered.size === 0) return;
    for (const peer of peers) {
      const { socket } = peer;
      const key = socket === null ? undefined : connectionOf(socket);
      const found = key === undefined ? undefined : unanswered.get(key);
      if (socket === null || found === undefined || found.queued === 0 || found.tries === 0)
        continue;
      const acknowledged = acknowledgedBy(socket, found);
      const seen = before.get(peer);
      const since = seen?.acknowledged === acknowledged ? seen.since : now;
      if (now - since >= deadAfterMs - toleranceMs && found.tries >= minTries) peer.destroy();
      else this.#silent.set(peer, { since, acknowledged });
    }
  }
}

function acknowledgedBy(
  socket: NonNullable<Peer['socket']>,
  found: Unanswered | undefined,
): number {
  return socket.bytesWritten - socket.writableLength - (found?.queued ?? 0);
}

const tableMaxAgeMs = 1_000;
let table: { readonly at: number; readonly read: ReturnType<ReadTcpTable> } | undefined;

/**
 * How many bytes a slow client has received; undefined if that cannot be known. Node reports progress
 * only when the kernel accepts more, for which a slow client may need minutes.
 */
export async function acknowledgedBytes(peer: Peer): Promise<number | undefined> {
  const now = Date.now();
  // Many clients may be slow at the same time.
  if (table === undefined || Math.abs(now - table.at) > tableMaxAgeMs) {
    table = { at: now, read: readTcpTable() };
  }
  const unanswered = await table.read;
  const { socket } = peer;
  const key = socket === null ? undefined : connectionOf(socket);
  if (unanswered === undefined || socket === null || key === undefined) return undefined;
  return acknowledgedBy(socket, unanswered.get(key));
}

export interface Unanswered {
  /** Bytes that are not acknowledged, or not sent yet. */
  readonly queued: number;
  /** Retransmissions, or probes of a closed window, since the peer last answered. */
  readonly tries: number;
}

/** By connection; undefined where the table does not exist, as outside Linux. */
export type ReadTcpTable = () => Promise<ReadonlyMap<string, Unanswered> | undefined>;

interface Endpoints {
  readonly localPort?: number | undefined;
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
}

/** The key of a socket's connection in the table. */
export function connectionOf({
  localPort,
  remoteAddress,
  remotePort,
}: Endpoints): string | undefined {
  if (remoteAddress === undefined) return undefined;
  return `${localPort} ${normalizedAddress(remoteAddress)} ${remotePort}`;
}

// Linux knows what Node does not expose. The table is parsed as it is read, and only lines with a
// running retransmission or window probe match: with thousands of connections, these are few.
const tables = ['/proc/net/tcp', '/proc/net/tcp6'] as const;
/** The kernel returns at most this much per call, in some 30 µs. */
const pageBytes = 4_096;
const pagesPerTurn = 16;

export const readTcpTable: ReadTcpTable = async () => {
  if (process.platform !== 'linux') return undefined;
  const found = new Map<string, Unanswered>();
  try {
    for (const table of tables) await readTable(table, found);
  } catch {
    return undefined;
  }
  return found;
};

/**
 * Reads a table on this thread, some pages per turn of the event loop: no disk is waited for, and to ask
 * another thread for each page would cost several times as much.
 */
async function readTable(path: string, into: Map<string, Unanswered>): Promise<void> {
  const page = Buffer.allocUnsafe(pageBytes);
  const file = openSync(path, 'r');
  try {
    let text = '';
    for (let pages = 1; ; pages += 1) {
      const size = readSync(file, page);
      text += page.toString('latin1', 0, size);
      if (size > 0 && pages % pagesPerTurn > 0) continue;
      const end = text.lastIndexOf('\n') + 1;
      parseTcpTable(text.slice(0, end), into);
      if (size === 0) return;
      text = text.slice(end);
      await nextTurn();
    }
  } finally {
    closeSync(file);
  }
}

// sl, local, remote, state, tx:rx, timer:when, retransmits, uid, window probes
const unacknowledged =
  /^ *\d+: [0-9A-F]+:([0-9A-F]{4}) ([0-9A-F]+):([0-9A-F]{4}) [0-9A-F]{2} ([0-9A-F]{8}):[0-9A-F]{8} (01|04):[0-9A-F]+ ([0-9A-F]{8}) +\d+ +(\d+)/gm;
const retransmission = '01';

export function parseTcpTable(text: string, into: Map<string, Unanswered>): void {
  for (const [, local, address, remote, queue, timer, retransmits, probes] of text.matchAll(
    unacknowledged,
  )) {
    const key = connectionOf({
      localPort: hex(local),
      remoteAddress: addressOf(address ?? ''),
      remotePort: hex(remote),
    });
    const tries = timer === retransmission ? hex(retransmits) : Number(probes);
    if (key !== undefined) into.set(key, { queued: hex(queue), tries });
  }
}

function hex(digits: string | undefined): number {
  return Number.parseInt(digits ?? '0', 16);
}

/** The kernel prints words of four bytes in the byte order of the machine. */
function addressOf(digits: string): string {
  const bytes = Buffer.from(digits, 'hex');
  if (endianness() === 'LE') bytes.swap32();
  if (bytes.length === 4) return bytes.join('.');
  const groups = Array.from({ length: 8 }, (_, index) =>
    bytes.readUInt16BE(2 * index).toString(16),
  );
  return groups.join(':');
}

/** One spelling for each address. An IPv4-mapped IPv6 address stays one. */
function normalizedAddress(address: string): string {
  const [bare = ''] = address.split('%');
  return isIPv6(bare) ? new URL(`http://[${bare}]`).hostname : bare;
}
