/**
 * Protects against server-side request forgery.
 *
 * A caller who may set a URL could otherwise reach this server, its private network or the cloud's
 * metadata service. So an address must be public, or in a network that the operator has allowed. The
 * check applies to the address that is connected to, which defeats DNS rebinding. Relay's clients do
 * not follow redirects.
 */
import { lookup, type LookupAddress } from 'node:dns';
import type { Agent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import { ProviderFailure } from '@relay/core';
import { Agent as HttpAgent } from './node-http.ts';

const notPublic: readonly (readonly [network: string, bits: number])[] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
  ['::', 96],
  ['::ffff:0:0:0', 96],
  ['64:ff9b:1::', 48],
  ['100::', 64],
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
  ['5f00::', 16],
  ['fc00::', 7],
  ['fe80::', 10],
  ['fec0::', 10],
  ['ff00::', 8],
];

let blocked: BlockList | undefined;

function isPublic(address: string): boolean {
  blocked ??= listOf(notPublic);
  return !contains(blocked, address);
}

export class UrlRefused extends ProviderFailure {
  readonly reason: string;

  constructor(reason: string) {
    super(`The URL is not allowed: ${reason}`, { retryable: false });
    this.reason = reason;
  }
}

export interface OutboundGuard {
  /** Throws `UrlRefused` if the URL itself shows that it is not allowed. */
  checkUrl(url: URL): void;
  agentFor(url: URL): Agent;
  close(): void;
}

/** `privateNetworks` are allowed, also without TLS. Each is a CIDR, with a port if only that is open. */
export function createOutboundGuard(privateNetworks: readonly string[] = []): OutboundGuard {
  const opened = privateNetworks.map(parsePrivateNetwork);
  const rulesByPort = new Map<number | undefined, PortRules>();
  /** All ports that no network names have the same rules. */
  const rulesFor = (url: URL): PortRules => {
    const used = Number(url.port === '' ? defaultPorts[url.protocol] : url.port);
    const port = opened.some((each) => each.port === used) ? used : undefined;
    const known = rulesByPort.get(port);
    const rules =
      known ??
      createPortRules(opened.filter((each) => each.port === undefined || each.port === port));
    rulesByPort.set(port, rules);
    return rules;
  };
  return {
    checkUrl(url) {
      if (url.protocol !== 'https:' && url.protocol !== 'http:')
        throw new UrlRefused('The URL must use https');
      if (url.username !== '' || url.password !== '')
        throw new UrlRefused('The URL must not contain credentials');
      const host = hostOf(url);
      const secure = url.protocol === 'https:';
      const { isAllowed, isOpened, opensAny } = rulesFor(url);
      // The addresses of a name are checked when it is resolved, unless no address could be allowed.
      if (isIP(host) === 0 && (secure || opensAny)) return;
      if (isIP(host) === 0 || !(secure ? isAllowed(host) : isOpened(host))) {
        throw new UrlRefused(
          secure
            ? 'The address is not public; to allow it, the operator adds its network to RELAY_PRIVATE_NETWORKS'
            : 'Without TLS the address must be in RELAY_PRIVATE_NETWORKS',
        );
      }
    },
    agentFor: (url) => rulesFor(url)[url.protocol === 'https:' ? 'https' : 'http'],
    close() {
      for (const { http, https } of rulesByPort.values()) {
        http.destroy();
        https.destroy();
      }
    },
  };
}

const defaultPorts: Readonly<Record<string, number>> = { 'http:': 80, 'https:': 443 };

/** Which addresses are allowed at a port, and the agents that connect only to those. */
interface PortRules {
  /** Whether any address is allowed without TLS. */
  readonly opensAny: boolean;
  readonly isOpened: (address: string) => boolean;
  readonly isAllowed: (address: string) => boolean;
  readonly http: Agent;
  readonly https: Agent;
}

function createPortRules(networks: readonly PrivateNetwork[]): PortRules {
  const opened = listOf(networks.map(({ network }) => network));
  const isOpened = (address: string) => contains(opened, address);
  const isAllowed = (address: string) => isOpened(address) || isPublic(address);
  const http = guarded(HttpAgent, isOpened);
  const https = guarded(HttpsAgent, isAllowed);
  return { opensAny: networks.length > 0, isOpened, isAllowed, http, https };
}

interface PrivateNetwork {
  readonly network: readonly [network: string, bits: number];
  readonly port?: number;
}

/** A network, or one port of it: `10.0.0.0/8:11434`, `[::1]:11434`. */
export function parsePrivateNetwork(text: string): PrivateNetwork {
  const [, bracketed, plain, digits] =
    /^(?:\[([^\]]+)\]|([\d.]+(?:\/\d+)?|[^[\]]+\/\d+)):(\d{1,5})$/.exec(text) ?? [];
  const named = bracketed ?? plain;
  if (named === undefined) return { network: parseNetwork(text) };
  const port = Number(digits);
  if (port >= 1 && port <= 65_535) return { network: parseNetwork(named), port };
  throw new TypeError(`${JSON.stringify(text)} has no port between 1 and 65535`);
}

/** Parses a CIDR such as `10.0.0.0/8`; a bare address is a network of one. */
export function parseNetwork(text: string): readonly [network: string, bits: number] {
  const [network = '', prefix, ...rest] = text.split('/');
  const family = isIP(network);
  const maxBits = family === 4 ? 32 : 128;
  const bits = prefix === undefined ? maxBits : Number(prefix);
  const fits = /^\d{1,3}$/.test(prefix ?? '0') && bits <= maxBits;
  if (family === 0 || rest.length > 0 || !fits) {
    throw new TypeError(`${JSON.stringify(text)} is not a network such as 10.0.0.0/8`);
  }
  return [network, bits];
}

function listOf(networks: readonly (readonly [network: string, bits: number])[]): BlockList {
  const list = new BlockList();
  for (const [network, bits] of networks) {
    list.addSubnet(network, bits, isIP(network) === 4 ? 'ipv4' : 'ipv6');
  }
  return list;
}

/** An IPv4 address that is embedded in an IPv6 address counts as IPv4. */
function contains(list: BlockList, address: string): boolean {
  const inner = embeddedIPv4(address);
  if (inner !== undefined) return list.check(inner, 'ipv4');
  return list.check(address, isIP(address) === 4 ? 'ipv4' : 'ipv6');
}

/** IPv4-mapped (`::ffff:a.b.c.d`) and NAT64 (`64:ff9b::a.b.c.d`), in any notation. */
function embeddedIPv4(address: string): string | undefined {
  if (isIP(address) !== 6) return undefined;
  const words = wordsOf(address);
  const mapped = words.slice(0, 5).every((word) => word === 0) && words[5] === 0xff_ff;
  const translated =
    words[0] === 0x64 && words[1] === 0xff_9b && words.slice(2, 6).every((word) => word === 0);
  if (!mapped && !translated) return undefined;
  const [high = 0, low = 0] = words.slice(6);
  return [high >> 8, high & 0xff, low >> 8, low & 0xff].join('.');
}

function wordsOf(address: string): number[] {
  // The URL parser normalizes IPv6 addresses, without dots.
  const [plain = ''] = address.split('%');
  const normalized = new URL(`http://[${plain}]/`).hostname.slice(1, -1);
  const [head = '', tail] = normalized.split('::');
  const front = head === '' ? [] : head.split(':');
  const back = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = Array<string>(8 - front.length - back.length).fill('0');
  return [...front, ...zeros, ...back].map((word) => Number.parseInt(word, 16));
}

function hostOf(url: URL): string {
  return url.hostname.replace(/^\[(.*)\]$/, '$1');
}

/** An agent that resolves names itself and connects only to allowed addresses. */
function guarded<Guarded extends Agent>(
  Kind: new (options: { keepAlive: boolean; lookup: LookupFunction }) => Guarded,
  isAllowed: (address: string) => boolean,
): Guarded {
  const guardedLookup: LookupFunction = (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, addresses) => {
      const done = callback as (error: Error | null, found?: unknown, family?: number) => void;
      if (error !== null) return done(error);
      const allowed = addresses.filter(({ address }) => isAllowed(address));
      // One address that is not allowed is enough to refuse the name.
      if (allowed.length === 0 || allowed.length < addresses.length) {
        return done(new UrlRefused(`${hostname} resolves to an address that is not allowed`));
      }
      if ((options as { all?: boolean }).all === true) return done(null, allowed);
      const [first] = allowed as [LookupAddress];
      return done(null, first.address, first.family);
    });
  };
  return new Kind({ keepAlive: true, lookup: guardedLookup });
}
