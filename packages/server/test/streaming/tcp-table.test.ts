import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { endianness } from 'node:os';
import { describe, expect, it } from 'vitest';
import {
  connectionOf,
  readLines,
  readUnanswered,
  type Unanswered,
} from '../../src/streaming/tcp-table.ts';

const header =
  '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n';

function read(...lines: readonly string[]): Map<string, Unanswered> {
  const found = new Map<string, Unanswered>();
  readLines(`${header}${lines.join('\n')}\n`, found);
  return found;
}

const retransmitting =
  '   7: 0100007F:0FA0 0200000A:D431 01 0000001E:00000000 01:00000ABC 00000005     0        0 12345 4 0000000000000000 6400 0 0 1 7';
const probing =
  '   8: 0100007F:0FA0 0300000A:D432 01 00010000:00000000 04:00000ABC 00000000     0        6 12346 4 0000000000000000 22 0 0 1 7';

describe.skipIf(endianness() === 'BE')('a line of the kernel’s table', () => {
  it('tells what the peer does not acknowledge, and how often it was tried', () => {
    expect([...read(retransmitting, probing)]).toEqual([
      ['4000 10.0.0.2 54321', { queued: 30, tries: 5 }],
      ['4000 10.0.0.3 54322', { queued: 65_536, tries: 6 }],
    ]);
  });

  it.each([
    ['is idle', '00:00000000 00000000'],
    ['sends keep-alive probes', '02:00000ABC 00000000'],
    ['is closed', '03:00000ABC 00000000'],
  ])('is passed over if the connection %s', (_what, timer) => {
    expect(read(retransmitting.replace('01:00000ABC 00000005', timer)).size).toBe(0);
  });

  it.each([
    ['B80D0120000000000000000001000000', '2001:db8::1'],
    ['0000000000000000FFFF00000200000A', '::ffff:10.0.0.2'],
    ['00000000000000000000000001000000', '::1'],
  ])('tells the address %s as Node does: %s', (digits, remoteAddress) => {
    const [key] = [...read(retransmitting.replace('0200000A', digits)).keys()];
    expect(key).toBe(connectionOf({ localPort: 4000, remoteAddress, remotePort: 54_321 }));
  });
});

it('knows a connection by all that tells it apart', () => {
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

describe.skipIf(process.platform !== 'linux')('the table of this machine', () => {
  it('can be read, and holds a reader that has stopped reading, which answers', async () => {
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
      found = (await readUnanswered())?.get(key);
    }
    expect(found?.queued).toBeGreaterThan(0);
    expect(found?.tries).toBeLessThanOrEqual(1);
    socket.destroy();
    reader.destroy();
    server.close();
  });
});
