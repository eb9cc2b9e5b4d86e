/**
 * What Linux knows about connections and Node does not tell: how many bytes the peer has not
 * acknowledged, and how often the kernel has tried in vain since it last heard from it.
 *
 * The table is read as it streams in, and only lines with a running retransmission or window probe
 * are looked at closely: with thousands of connections, these are few.
 */
import { createReadStream } from 'node:fs';
import { isIPv6 } from 'node:net';
import { endianness } from 'node:os';

export interface Unanswered {
  /** Bytes that are sent and not acknowledged, or not sent yet. */
  readonly queued: number;
  /** Retransmissions, or probes of a closed window, since the peer last answered. */
  readonly tries: number;
}

/** By connection; undefined where there is no such table, as outside Linux. */
export type ReadUnanswered = () => Promise<ReadonlyMap<string, Unanswered> | undefined>;

interface Ends {
  readonly localPort?: number | undefined;
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
}

/** The connection of a socket, in the words of the table. */
export function connectionOf({ localPort, remoteAddress, remotePort }: Ends): string | undefined {
  if (remoteAddress === undefined) return undefined;
  return `${localPort} ${plainAddress(remoteAddress)} ${remotePort}`;
}

const tables = ['/proc/net/tcp', '/proc/net/tcp6'] as const;

export const readUnanswered: ReadUnanswered = async () => {
  if (process.platform !== 'linux') return undefined;
  const found = new Map<string, Unanswered>();
  try {
    for (const table of tables) {
      let rest = '';
      for await (const chunk of createReadStream(table, { encoding: 'latin1' })) {
        const text = rest + String(chunk);
        const end = text.lastIndexOf('\n') + 1;
        readLines(text.slice(0, end), found);
        rest = text.slice(end);
      }
    }
  } catch {
    return undefined;
  }
  return found;
};

// sl, local, remote, state, tx:rx, timer:when, retransmits, uid, window probes
const silent =
  /^ *\d+: [0-9A-F]+:([0-9A-F]{4}) ([0-9A-F]+):([0-9A-F]{4}) [0-9A-F]{2} ([0-9A-F]{8}):[0-9A-F]{8} (01|04):[0-9A-F]+ ([0-9A-F]{8}) +\d+ +(\d+)/gm;
const retransmission = '01';

export function readLines(text: string, into: Map<string, Unanswered>): void {
  for (const [, local, address, remote, queue, timer, retransmits, probes] of text.matchAll(
    silent,
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

/** Words of four bytes, in the byte order of the machine. */
function addressOf(digits: string): string {
  const bytes = Buffer.from(digits, 'hex');
  if (endianness() === 'LE') bytes.swap32();
  if (bytes.length === 4) return bytes.join('.');
  const groups = Array.from({ length: 8 }, (_, n) => bytes.readUInt16BE(2 * n).toString(16));
  return groups.join(':');
}

/** One spelling for each address; an IPv4 address in IPv6's clothes stays in them. */
function plainAddress(address: string): string {
  const [bare = ''] = address.split('%');
  return isIPv6(bare) ? new URL(`http://[${bare}]`).hostname : bare;
}
