import { describe, expect, it } from 'vitest';
import { DeadPeers, type Peer } from '../../src/streaming/dead-peers.ts';
import type { Unanswered } from '../../src/streaming/tcp-table.ts';

class TestPeer implements Peer {
  cuts = 0;
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

  cut(): void {
    this.cuts += 1;
  }
}

type Table = ReadonlyMap<string, Unanswered> | undefined;

async function watch(peers: readonly Peer[], looks: readonly [ms: number, table: Table][]) {
  let table: Table;
  const dead = new DeadPeers(() => Promise.resolve(table));
  for (const [ms, next] of looks) {
    table = next;
    await dead.look(new Set(peers), ms);
  }
}

const silence = (peer: TestPeer, tries: number, queued = 20): Table =>
  new Map([[peer.key, { queued, tries }]]);

describe('a peer that does not answer', () => {
  it('is cut when ten seconds have changed nothing', async () => {
    const peer = new TestPeer(1);
    const looks: [number, Table][] = [
      [3_000, silence(peer, 3)],
      [12_400, silence(peer, 5)],
    ];
    await watch([peer], looks);
    expect(peer.cuts).toBe(0);
    await watch([peer], [...looks, [13_000, silence(peer, 5)]]);
    expect(peer.cuts).toBe(1);
  });

  it('is the only one that is cut', async () => {
    const peers = [new TestPeer(1), new TestPeer(2), new TestPeer(3)] as const;
    const table = silence(peers[1], 4);
    await watch(peers, [
      [0, table],
      [10_000, table],
    ]);
    expect(peers.map(({ cuts }) => cuts)).toEqual([0, 1, 0]);
  });
});

describe('a peer is left alone', () => {
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
    expect(peer.cuts).toBe(0);
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
    expect(peer.cuts).toBe(0);
  });

  it('if more was sent and as much acknowledged', async () => {
    const peer = new TestPeer(1);
    const dead = new DeadPeers(() => Promise.resolve(silence(peer, 3, 20)));
    await dead.look(new Set([peer]), 0);
    peer.bytesWritten += 100;
    await dead.look(new Set([peer]), 10_000);
    expect(peer.cuts).toBe(0);
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
    expect(peer.cuts).toBe(0);
  });

  it('if there is no such table here, or it cannot be read', async () => {
    const peer = new TestPeer(1);
    await watch(
      [peer],
      [
        [0, undefined],
        [20_000, undefined],
      ],
    );
    const failing = new DeadPeers(() => Promise.reject(new Error('EMFILE')));
    await failing.look(new Set([peer]), 0);
    await failing.look(new Set([peer]), 20_000);
    expect(peer.cuts).toBe(0);
  });

  it('if its socket is gone already', async () => {
    const gone: Peer = { socket: null, cut: expect.unreachable };
    await watch(
      [gone],
      [
        [0, new Map([['undefined undefined undefined', { queued: 1, tries: 9 }]])],
        [20_000, new Map([['undefined undefined undefined', { queued: 1, tries: 9 }]])],
      ],
    );
  });
});

it('looks once at a time, and not at all without peers', async () => {
  let reads = 0;
  const held = Promise.withResolvers<Table>();
  const dead = new DeadPeers(() => {
    reads += 1;
    return held.promise;
  });
  await dead.look(new Set(), 0);
  expect(reads).toBe(0);
  const first = dead.look(new Set([new TestPeer(1)]), 0);
  await dead.look(new Set([new TestPeer(1)]), 1);
  expect(reads).toBe(1);
  held.resolve(new Map());
  await first;
});
