import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  createOutboundGuard,
  type OutboundGuard,
  parseNetwork,
  UrlRefused,
} from '../../src/http/guard.ts';

const guard = createOutboundGuard();

describe('a URL to a private address', () => {
  it.each([
    'https://127.0.0.1/',
    'https://127.1/',
    'https://2130706433/',
    'https://0x7f000001/',
    'https://0177.0.0.1/',
    'https://0.0.0.0/',
    'https://10.1.2.3/',
    'https://100.64.0.1/',
    'https://169.254.169.254/latest/meta-data',
    'https://172.16.0.1/',
    'https://172.31.255.255/',
    'https://192.168.1.1/',
    'https://198.18.0.1/',
    'https://224.0.0.1/',
    'https://255.255.255.255/',
    'https://[::1]/',
    'https://[::]/',
    'https://[::ffff:127.0.0.1]/',
    'https://[::ffff:7f00:1]/',
    'https://[::ffff:10.0.0.1]/',
    'https://[64:ff9b::127.0.0.1]/',
    'https://[64:ff9b::a00:1]/',
    'https://[::127.0.0.1]/',
    'https://[fe80::1]/',
    'https://[fc00::1]/',
    'https://[fd12:3456::1]/',
    'https://[ff02::1]/',
    'https://[2002:7f00:1::]/',
    'https://[2001:db8::1]/',
  ])('is refused: %s', (url) => {
    expect(() => guard.checkUrl(new URL(url))).toThrow(/The address is not public/);
  });

  it.each(['ftp://example.com/', 'file:///etc/passwd', 'https://user:pw@example.com/'])(
    'or that is none of ours is refused: %s',
    (url) => {
      expect(() => guard.checkUrl(new URL(url))).toThrow(UrlRefused);
    },
  );

  it('is refused without TLS, even to a public address', () => {
    expect(() => guard.checkUrl(new URL('http://93.184.215.14/'))).toThrow(/Without TLS/);
  });
});

describe('a URL to a public address', () => {
  it.each([
    'https://api.openai.com/v1',
    'https://93.184.215.14/',
    'https://172.32.0.1/',
    'https://172.15.255.255/',
    'https://[2606:4700:4700::1111]/',
    'https://[::ffff:8.8.8.8]/',
    'https://[64:ff9b::8.8.8.8]/',
  ])('passes: %s', (url) => {
    expect(() => guard.checkUrl(new URL(url))).not.toThrow();
  });
});

describe('a network in RELAY_PRIVATE_NETWORKS', () => {
  const opened = createOutboundGuard(['10.20.0.0/16', '::1/128']);

  it('is allowed with and without TLS, and nothing else is', () => {
    for (const url of ['http://10.20.3.4/', 'https://10.20.3.4/', 'http://[::1]:8080/']) {
      expect(() => opened.checkUrl(new URL(url))).not.toThrow();
    }
    for (const url of ['http://10.21.0.1/', 'https://10.19.255.255/', 'https://127.0.0.1/']) {
      expect(() => opened.checkUrl(new URL(url))).toThrow('not allowed');
    }
    expect(() => opened.checkUrl(new URL('http://[::ffff:10.20.0.1]/'))).not.toThrow();
  });

  it('is required for a name without TLS, whether the name resolves or not', () => {
    const named = new URL('http://example.com/v1');
    expect(() => guard.checkUrl(named)).toThrow(/Without TLS/);
    expect(() => opened.checkUrl(named)).not.toThrow();
  });

  it('can be limited to a port', () => {
    const limited = createOutboundGuard(['10.20.0.0/16:11434', '10.20.0.9', '[::1]:443']);
    for (const url of [
      'http://10.20.3.4:11434/',
      'https://10.20.3.4:11434/',
      'http://10.20.0.9:8080/',
      'http://10.20.0.9:11434/',
      'https://[::1]/',
    ]) {
      expect(() => limited.checkUrl(new URL(url)), url).not.toThrow();
    }
    for (const url of ['http://10.20.3.4/', 'https://10.20.3.4:8080/', 'http://[::1]/']) {
      expect(() => limited.checkUrl(new URL(url)), url).toThrow('not allowed');
    }
  });
});

describe('a connection', () => {
  let server: Server;
  let port: number;
  const opened: OutboundGuard[] = [];
  beforeEach(async () => {
    server = createServer((_, response) => response.end('inside'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    ({ port } = server.address() as AddressInfo);
  });
  afterEach(() => {
    for (const each of opened.splice(0)) each.close();
    server.close();
  });

  function get(through: OutboundGuard, host: string): Promise<number | undefined> {
    opened.push(through);
    const url = new URL(`http://${host}:${port}/`);
    return new Promise((resolve, reject) => {
      const outgoing = request(url, { agent: through.agentFor(url) }, (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      outgoing.on('error', reject);
      outgoing.end();
    });
  }

  it('is refused if the name resolves to a private address', async () => {
    await expect(get(createOutboundGuard(), 'localhost')).rejects.toThrow(
      'localhost resolves to an address that is not allowed',
    );
  });

  it('is refused at a port that is not open, whatever the name resolves to', async () => {
    const through = createOutboundGuard(['127.0.0.0/8:1', '[::1/128]:1']);
    await expect(get(through, 'localhost')).rejects.toThrow('an address that is not allowed');
    const open = createOutboundGuard([`127.0.0.0/8:${port}`, `[::1/128]:${port}`]);
    expect(await get(open, 'localhost')).toBe(200);
  });

  it('is allowed in a network of RELAY_PRIVATE_NETWORKS', async () => {
    const through = createOutboundGuard(['127.0.0.0/8', '::1/128']);
    expect(await get(through, 'localhost')).toBe(200);
  });
});

describe('a network', () => {
  it('is an address with a prefix length, or a bare address', () => {
    expect(parseNetwork('10.0.0.0/8')).toEqual(['10.0.0.0', 8]);
    expect(parseNetwork('10.1.2.3')).toEqual(['10.1.2.3', 32]);
    expect(parseNetwork('fd00::/8')).toEqual(['fd00::', 8]);
  });

  it.each([
    '',
    '10.0.0.0/33',
    '10.0.0/8',
    'localhost',
    '10.0.0.0/8/8',
    '10.0.0.0/-1',
    '::1/129',
    '10.0.0.0/',
  ])('is refused if it is none: %s', (text) => {
    expect(() => parseNetwork(text)).toThrow('is not a network');
  });
});
