import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { endianness } from 'node:os';
import { describe, expect, it } from 'vitest';
import { requires, requiresLinux } from '../../../../test/support/requires.ts';
import {
  connectionOf,
  DeadPeerDetector,
  parseTcpTable,
  type Peer,
  readTcpTable,
  type Unanswered,
} from '../../src/streaming/dead-peers.ts';

class TestPeer implements Peer {
  destroyed = 0;
  readonly socket: NonNullable<Peer['socket']>;
  bytesWritten = 1_000;

  constructor(port: number) {
    const written = () => this.bytesWritten;
    this.socket = {
      localPort: 4000,
      remoteAddress: '10.0.0.1',
      remotePort: port,
      get bytesWritten() {
        return written();
      },
      writableLength: 0,
    };
  }

  get key(): string {
    return `4000 10.0.0.1 ${this.socket.remotePort}`;
  }

  destroy(): void {
    this.destroyed += 1;
  }
}

type Table = ReadonlyMap<string, Unanswered> | undefined;

async function watch(peers: readonly Peer[], looks: readonly [ms: number, table: Table][]) {
  let table: Table;
  const dead = new DeadPeerDetector(() => Promise.resolve(table));
  for (const [ms, next] of looks) {
    table = next;
    await dead.check(new Set(peers), ms);
  }
}

const silence = (peer: TestPeer, tries: number, queued = 20): Table =>
  new Map([[peer.key, { queued, tries }]]);

describe('a peer that does not acknowledge', () => {
  it('is destroyed after ten seconds without progress', async () => {
    const peer = new TestPeer(1);
    const looks: [number, Table][] = [
      [3_000, silence(peer, 3)],
      [12_400, silence(peer, 5)],
    ];
    await watch([peer], looks);
    expect(peer.destroyed).toBe(0);
    await watch([peer], [...looks, [13_000, silence(peer, 5)]]);
    expect(peer.destroyed).toBe(1);
  });

  it('is known as silent from its first check until it answers', async () => {
    const peer = new TestPeer(1);
    let table = silence(peer, 1);
    const dead = new DeadPeerDetector(() => Promise.resolve(table));
    expect(dead.hasSilent).toBe(false);
    await dead.check(new Set([peer]), 0);
    expect(dead.hasSilent).toBe(true);
    table = new Map();
    await dead.check(new Set([peer]), 10_000);
    expect(dead.hasSilent).toBe(false);
  });

  it('is the only one that is destroyed', async () => {
    const peers = [new TestPeer(1), new TestPeer(2), new TestPeer(3)] as const;
    const table = silence(peers[1], 4);
    await watch(peers, [
      [0, table],
      [10_000, table],
    ]);
    expect(peers.map(({ destroyed }) => destroyed)).toEqual([0, 1, 0]);
  });
});

describe('a peer stays connected', () => {
  it('if it answers in between', async () => {
    const peer = new TestPeer(1);
    await watch(
      [peer],
      [
        [0, silence(peer, 3)],
        [5_000, new Map()],
        [10_000, silence(peer, 3)],
        [15_000, silence(peer, 4)],
      ],
    );
    expect(peer.destroyed).toBe(0);
  });

  it('if it has acknowledged something, however little', async () => {
    const peer = new TestPeer(1);
    await watch(
      [peer],
      [
        [0, silence(peer, 3, 20)],
        [10_000, silence(peer, 3, 19)],
      ],
    );
    expect(peer.destroyed).toBe(0);
  });

  it('if more was sent and as much acknowledged', async () => {
    const peer = new TestPeer(1);
    const dead = new DeadPeerDetector(() => Promise.resolve(silence(peer, 3, 20)));
    await dead.check(new Set([peer]), 0);
    peer.bytesWritten += 100;
    await dead.check(new Set([peer]), 10_000);
    expect(peer.destroyed).toBe(0);
  });

  it('if it only reads slowly: it answers the probes of its closed window', async () => {
    const peer = new TestPeer(1);
    const table = silence(peer, 0, 200_000);
    await watch(
      [peer],
      [
        [0, table],
        [10_000, table],
        [60_000, table],
      ],
    );
    expect(peer.destroyed).toBe(0);
  });

  it('if the table does not exist or cannot be read', async () => {
    const peer = new TestPeer(1);
    await watch(
      [peer],
      [
        [0, undefined],
        [20_000, undefined],
      ],
    );
    const failing = new DeadPeerDetector(() => Promise.reject(new Error('EMFILE')));
    await failing.check(new Set([peer]), 0);
    await failing.check(new Set([peer]), 20_000);
    expect(peer.destroyed).toBe(0);
  });

  it('if its socket is closed already', async () => {
    const closed: Peer = { socket: null, destroy: expect.unreachable };
    await watch(
      [closed],
      [
        [0, new Map([['undefined undefined undefined', { queued: 1, tries: 9 }]])],
        [20_000, new Map([['undefined undefined undefined', { queued: 1, tries: 9 }]])],
      ],
    );
  });
});

it('the detector runs one check at a time, and none without peers', async () => {
  let reads = 0;
  const held = Promise.withResolvers<Table>();
  const dead = new DeadPeerDetector(() => {
    reads += 1;
    return held.promise;
  });
  await dead.check(new Set(), 0);
  expect(reads).toBe(0);
  const first = dead.check(new Set([new TestPeer(1)]), 0);
  await dead.check(new Set([new TestPeer(1)]), 1);
  expect(reads).toBe(1);
  held.resolve(new Map());
  await first;
});

const header =
  '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n';

function read(...lines: readonly string[]): Map<string, Unanswered> {
  const found = new Map<string, Unanswered>();
  parseTcpTable(`${header}${lines.join('\n')}\n`, found);
  return found;
}

const retransmitting =
  '   7: 0100007F:0FA0 0200000A:D431 01 0000001E:00000000 01:00000ABC 00000005     0        0 12345 4 0000000000000000 6400 0 0 1 7';
const probing =
  '   8: 0100007F:0FA0 0300000A:D432 01 00010000:00000000 04:00000ABC 00000000     0        6 12346 4 0000000000000000 22 0 0 1 7';

const bigEndian = endianness() === 'BE' ? 'this machine is big-endian' : undefined;

describe('a line of the TCP table', requires('little-endian', bigEndian), () => {
  it('has the unacknowledged bytes and the number of tries', () => {
    expect([...read(retransmitting, probing)]).toEqual([
      ['4000 10.0.0.2 54321', { queued: 30, tries: 5 }],
      ['4000 10.0.0.3 54322', { queued: 65_536, tries: 6 }],
    ]);
  });

  it.each([
    ['is idle', '00:00000000 00000000'],
    ['sends keep-alive probes', '02:00000ABC 00000000'],
    ['is closed', '03:00000ABC 00000000'],
  ])('is skipped if the connection %s', (_what, timer) => {
    expect(read(retransmitting.replace('01:00000ABC 00000005', timer)).size).toBe(0);
  });

  it.each([
    ['B80D0120000000000000000001000000', '2001:db8::1'],
    ['0000000000000000FFFF00000200000A', '::ffff:10.0.0.2'],
    ['00000000000000000000000001000000', '::1'],
  ])('maps the address %s to Node’s spelling: %s', (digits, remoteAddress) => {
    const [key] = [...read(retransmitting.replace('0200000A', digits)).keys()];
    expect(key).toBe(connectionOf({ localPort: 4000, remoteAddress, remotePort: 54_321 }));
  });
});

it('a connection is identified by its ports and address', () => {
  const ends = { localPort: 1, remoteAddress: '10.0.0.1', remotePort: 2 };
  const others = [
    { ...ends, localPort: 3 },
    { ...ends, remotePort: 3 },
    { ...ends, remoteAddress: '10.0.0.2' },
    { ...ends, remoteAddress: '::ffff:10.0.0.1' },
  ];
  expect(new Set([ends, ...others].map(connectionOf)).size).toBe(5);
  expect(connectionOf({ ...ends, remoteAddress: 'fe80::1%eth0' })).toBe(
    connectionOf({ ...ends, remoteAddress: 'fe80::1' }),
  );
  expect(connectionOf({ remoteAddress: undefined })).toBeUndefined();
});

describe('the TCP table of this machine', requiresLinux(), () => {
  it('can be read, and contains a client that has stopped reading', async () => {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const reader = connect(port, '127.0.0.1').pause();
    const [socket] = (await once(server, 'connection')) as [Socket];
    socket.on('error', () => undefined);
    while (socket.write(Buffer.alloc(1024 * 1024)));
    const key = connectionOf(socket) ?? '';
    let found: Unanswered | undefined;
    for (let n = 0; n < 200 && found === undefined; n += 1) {
      found = (await readTcpTable())?.get(key);
    }
    expect(found?.queued).toBeGreaterThan(0);
    expect(found?.tries).toBeLessThanOrEqual(1);
    socket.destroy();
    reader.destroy();
    server.close();
  });
});
