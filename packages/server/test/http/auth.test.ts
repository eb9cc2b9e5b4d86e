import type { KeyRecord } from '@relay/core';
import { RelayError, type Route, routes } from '@relay/protocol';
import { createMemoryStore } from '@relay/store';
import type { FastifyRequest } from 'fastify';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { authenticate, type AuthContext, isLocalCaller } from '../../src/http/auth.ts';
import { readConfig } from '../../src/config/config.ts';
import { hashApiKey, makeApiKey } from '../../src/secrets/keys.ts';

const local = { host: '127.0.0.1:4000' };
let store = createMemoryStore();

beforeEach(() => {
  store = createMemoryStore();
});

function requestOf(
  headers: Record<string, string>,
  ip = '127.0.0.1',
  httpVersion = '1.1',
): FastifyRequest {
  return { headers, ip, raw: { httpVersion } } as unknown as FastifyRequest;
}

function contextOf(env: Record<string, string> = {}): AuthContext {
  return { store, config: readConfig(env, '/'), defaultTenantId: 'tenant-default' };
}

async function keyWith(over: Partial<KeyRecord> = {}): Promise<string> {
  const apiKey = makeApiKey();
  const key: KeyRecord = {
    id: 'key-1',
    tenantId: 'tenant-1',
    name: 'ada',
    owner: null,
    role: null,
    scopes: ['runs', 'approve'],
    groups: [],
    createdAt: 0,
    expiresAt: null,
    revokedAt: null,
    lastUsedAt: null,
    replaces: [],
    replacedBy: null,
    kind: 'api',
    parent: null,
    ...over,
  };
  await store.addKey(key, hashApiKey(apiKey));
  return apiKey;
}

async function refusal(headers: Record<string, string>, route: Route = routes.getRun) {
  const answer = authenticate(requestOf({ ...local, ...headers }), route, contextOf());
  const error: unknown = await answer.then(
    () => new Error('It was let in'),
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(RelayError);
  return error as RelayError;
}

function codeFor(headers: Record<string, string>): string {
  if (headers['host'] !== undefined) return 'host_not_allowed';
  return headers['origin'] === undefined ? 'unauthorized' : 'origin_not_allowed';
}

describe('the Host header', () => {
  const call = async (host: string, env: Record<string, string>) => {
    const authorization = `Bearer ${await keyWith({ id: `key-${Math.random()}` })}`;
    return authenticate(requestOf({ authorization, host }), routes.getRun, contextOf(env)).then(
      () => 'let in',
      (error: RelayError) => error.code,
    );
  };

  it('must be a loopback name if the server listens on loopback', async () => {
    for (const host of ['localhost:4000', '127.0.0.1', '[::1]:4000']) {
      expect(await call(host, {})).toBe('let in');
    }
    for (const host of ['evil.example', '127.0.0.1.evil.example', 'a@localhost', '']) {
      expect(await call(host, {})).toBe('host_not_allowed');
    }
  });

  it('must be one of the configured hosts', async () => {
    const env = { RELAY_HOST: '0.0.0.0', RELAY_ALLOWED_HOSTS: 'relay.example, fd00::1' };
    for (const host of ['relay.example', 'RELAY.example:443', 'localhost', '[fd00::1]:4000']) {
      expect(await call(host, env)).toBe('let in');
    }
    for (const host of ['other.example', 'x.relay.example', '10.0.0.1']) {
      expect(await call(host, env)).toBe('host_not_allowed');
    }
  });

  it('may be any if the server listens on the network and no hosts are configured', async () => {
    expect(await call('any.example', { RELAY_HOST: '0.0.0.0' })).toBe('let in');
  });
});

describe('a page of an allowed origin', () => {
  it('may call, and no other', async () => {
    const authorization = `Bearer ${await keyWith()}`;
    const context = contextOf({ RELAY_ALLOWED_ORIGINS: 'https://console.example' });
    const from = (origin: string) =>
      authenticate(requestOf({ ...local, authorization, origin }), routes.getRun, context);
    expect(await from('https://console.example')).toMatchObject({ tenantId: 'tenant-1' });
    await expect(from('https://console.example.evil')).rejects.toMatchObject({
      code: 'origin_not_allowed',
    });
  });
});

describe('a key', () => {
  it('identifies the tenant, the scopes and the decider', async () => {
    const authorization = `Bearer ${await keyWith()}`;
    const caller = await authenticate(requestOf({ authorization }), routes.getRun, contextOf());
    expect(caller).toEqual({
      tenantId: 'tenant-1',
      scopes: new Set(['runs', 'approve', 'read']),
      groups: [],
      actor: { type: 'key', id: 'key-1', name: 'ada', role: 'approver' },
    });
  });

  it('is accepted with any case of the scheme', async () => {
    const apiKey = await keyWith();
    for (const scheme of ['Bearer', 'bearer', 'BEARER']) {
      const request = requestOf({ authorization: `${scheme} ${apiKey}` });
      expect((await authenticate(request, routes.getRun, contextOf())).tenantId).toBe('tenant-1');
    }
  });

  it('is valid until it expires', async () => {
    const at = Date.UTC(2026, 0, 1);
    const authorization = `Bearer ${await keyWith({ expiresAt: at })}`;
    vi.useFakeTimers({ now: at - 1, toFake: ['Date'] });
    try {
      const request = requestOf({ authorization });
      expect((await authenticate(request, routes.getRun, contextOf())).tenantId).toBe('tenant-1');
      vi.setSystemTime(at);
      expect((await refusal({ authorization })).code).toBe('unauthorized');
    } finally {
      vi.useRealTimers();
    }
  });

  it('is refused with the same answer, whatever is wrong with it', async () => {
    const good = await keyWith();
    const wrong: Record<string, string>[] = [
      {},
      { authorization: '' },
      { authorization: 'Bearer' },
      { authorization: 'Bearer ' },
      { authorization: good },
      { authorization: `Basic ${Buffer.from(`x:${good}`).toString('base64')}` },
      { authorization: `Bearer ${good} ` },
      { authorization: `Bearer  ${good}` },
      { authorization: `Bearer ${good}, Bearer ${good}` },
      { authorization: `Internal ${good}` },
      { authorization: 'Bearer relay_live_0' },
      { authorization: `Bearer ${makeApiKey()}` },
      { authorization: `Bearer ${await keyWith({ id: 'key-2', revokedAt: 1 })}` },
      { authorization: `Bearer ${await keyWith({ id: 'key-3', expiresAt: 1 })}` },
      { 'x-api-key': good },
      { cookie: `key=${good}` },
    ];
    for (const headers of wrong) {
      const error = await refusal(headers);
      expect(error.status, JSON.stringify(headers)).toBe(401);
      expect(error.toBody()).toEqual({
        error: 'A valid API key is required',
        code: 'unauthorized',
      });
    }
  });

  it('does not touch the store if its checksum is wrong', async () => {
    const good = await keyWith();
    const find = vi.spyOn(store, 'findKey');
    for (let place = 0; place < good.length; place += 1) {
      const changed = `${good.slice(0, place)}x${good.slice(place + 1)}`;
      await refusal({ authorization: `Bearer ${changed}` });
    }
    expect(find).not.toHaveBeenCalled();
    await refusal({ authorization: `Bearer ${makeApiKey()}` });
    expect(find).toHaveBeenCalledTimes(1);
  });

  it('is looked up by its hash, and never handed to the store itself', async () => {
    const apiKey = await keyWith();
    const find = vi.spyOn(store, 'findKey');
    const request = requestOf({ authorization: `Bearer ${apiKey}` });
    await authenticate(request, routes.getRun, contextOf());
    expect(find.mock.calls.map(([hash]) => hash)).toEqual([hashApiKey(apiKey)]);
  });
});

describe('a page of another origin', () => {
  it.each(['https://evil.example', 'null', '', 'http://127.0.0.1:3000', 'file://'])(
    'may not call from %j, and its key is not looked up',
    async (origin) => {
      const authorization = `Bearer ${await keyWith()}`;
      const find = vi.spyOn(store, 'findKey');
      const error = await refusal({ authorization, origin });
      expect(error.code).toBe('origin_not_allowed');
      expect(error.status).toBe(403);
      expect(find).not.toHaveBeenCalled();
    },
  );

  it('may call if it is the server’s own origin', async () => {
    const authorization = `Bearer ${await keyWith()}`;
    const request = requestOf({ ...local, authorization, origin: 'http://127.0.0.1:4000' });
    expect((await authenticate(request, routes.getRun, contextOf())).tenantId).toBe('tenant-1');
  });
});

describe('scopes', () => {
  it('are all required, and the missing one is named', async () => {
    const authorization = `Bearer ${await keyWith({ scopes: ['approve'] })}`;
    const error = await refusal({ authorization }, routes.startRun);
    expect(error.status).toBe(403);
    expect(error.code).toBe('scope_required');
    expect(error.message).toContain('runs');
  });

  it('include reading and nothing else: admin alone may neither run nor approve', async () => {
    const authorization = `Bearer ${await keyWith({ scopes: ['admin'] })}`;
    const reading = requestOf({ ...local, authorization });
    expect((await authenticate(reading, routes.getRun, contextOf())).tenantId).toBe('tenant-1');
    expect((await refusal({ authorization }, routes.startRun)).code).toBe('scope_required');
    expect((await refusal({ authorization }, routes.answerChatRelay)).code).toBe('scope_required');
  });

  it('are named in the refusal if one is missing', async () => {
    const authorization = `Bearer ${await keyWith({ scopes: ['runs'] })}`;
    const { message } = await refusal({ authorization }, routes.answerChatRelay);
    expect(message).toBe('This key lacks the scope approve');
  });
});

describe('a caller without a key', () => {
  it('is the tenant default on this machine, and may run and approve, not administer', async () => {
    const caller = await authenticate(requestOf(local), routes.startChat, contextOf());
    expect(caller.tenantId).toBe('tenant-default');
    expect(caller.scopes).toEqual(new Set(['read', 'runs', 'approve']));
    expect(caller.actor.type).toBe('system');
  });

  it.each([
    'localhost',
    'localhost:4000',
    '127.0.0.1',
    '127.8.8.8:4000',
    '[::1]:4000',
    'LOCALHOST',
  ])('may call the machine %s', (host) => {
    expect(isLocalCaller(requestOf({ host }))).toBe(true);
  });

  it.each(['::1', '::ffff:127.0.0.1', '127.0.0.5'])('may come from %s', (ip) => {
    expect(isLocalCaller(requestOf(local, ip))).toBe(true);
  });

  it('may be a page that this server itself serves', () => {
    const headers = { ...local, origin: 'http://127.0.0.1:4000' };
    expect(isLocalCaller(requestOf(headers))).toBe(true);
  });

  it.each<[string, Record<string, string>]>([
    ['a foreign Host', { host: 'relay.example' }],
    ['a Host with a user before it', { host: 'relay.example@127.0.0.1' }],
    ['a Host that begins like ours', { host: '127.0.0.1.evil.example' }],
    ['a Host that ends like ours', { host: 'evil.example.localhost.evil' }],
    ['an address of the network as Host', { host: '192.168.1.5:4000' }],
    ['an empty Host', { host: '' }],
    ['a Host that is no host', { host: 'a b' }],
    ['a foreign Origin', { origin: 'https://evil.example' }],
    ['an Origin on another port', { origin: 'http://127.0.0.1:3000' }],
    ['an Origin by another name', { origin: 'http://localhost:4000' }],
    ['the Origin null', { origin: 'null' }],
    ['an empty Origin', { origin: '' }],
    ['an Origin that is a file', { origin: 'file://' }],
    ['Forwarded', { forwarded: 'for=10.0.0.1' }],
    ['an empty Forwarded', { forwarded: '' }],
    ['X-Forwarded-For', { 'x-forwarded-for': '127.0.0.1' }],
    ['X-Forwarded-Host', { 'x-forwarded-host': 'localhost' }],
    ['X-Forwarded-Proto', { 'x-forwarded-proto': 'http' }],
    ['X-Forwarded-Anything', { 'x-forwarded-anything': '' }],
    ['Via', { via: '1.1 proxy' }],
    ...(
      'x-real-ip cf-connecting-ip cf-ray true-client-ip x-client-ip fly-client-ip fly-region ' +
      'fastly-client-ip x-cluster-client-ip x-original-forwarded-for x-envoy-external-address ' +
      'x-forwarded forwarded-for x-originating-ip cloudfront-viewer-country tailscale-user-login ' +
      'wl-proxy-client-ip remote-addr x-edge-ip x-ssl-client-verify ' +
      'x-azure-clientip x-amzn-trace-id x-amz-cf-id x-vercel-ip-country x-remote-addr cdn-loop ' +
      'proxy-connection'
    )
      .split(' ')
      .map((name): [string, Record<string, string>] => [name, { [name]: '127.0.0.1' }]),
  ])('is refused because of %s', async (_what, headers) => {
    const request = requestOf({ ...local, ...headers });
    expect(isLocalCaller(request)).toBe(false);
    await expect(authenticate(request, routes.startChat, contextOf())).rejects.toMatchObject({
      code: codeFor(headers),
    });
  });

  it('is refused without a Host', () => {
    expect(isLocalCaller(requestOf({}))).toBe(false);
  });

  it.each(['10.0.0.7', '::2', '::ffff:10.0.0.7', ''])('is refused from %j', (ip) => {
    expect(isLocalCaller(requestOf(local, ip))).toBe(false);
  });

  it('is refused with HTTP/1.0, which proxies without forwarding headers use', () => {
    expect(isLocalCaller(requestOf(local, '127.0.0.1', '1.0'))).toBe(false);
  });

  it('may send the headers of ordinary clients', () => {
    const headers = { ...local, 'x-request-id': 'a', 'x-client-version': '1', traceparent: 'x' };
    expect(isLocalCaller(requestOf(headers))).toBe(true);
  });

  it.each<[Record<string, string>, string]>([
    [{}, 'demo'],
    [{ RELAY_LOCAL_CHAT: 'on' }, 'all'],
    [{ RELAY_PUBLIC_URL: 'http://localhost:4000' }, 'demo'],
    [{ RELAY_ALLOWED_HOSTS: 'localhost,127.0.0.1' }, 'demo'],
  ])('is accepted with the settings %j, for %s', async (env, keyless) => {
    const caller = await authenticate(requestOf(local), routes.startChat, contextOf(env));
    expect(caller.keyless).toBe(keyless);
  });

  const refusing: Record<string, string>[] = [
    { RELAY_LOCAL_CHAT: 'off' },
    { RELAY_PUBLIC_URL: 'https://relay.example' },
    { RELAY_ALLOWED_HOSTS: 'localhost,relay.example' },
    ...['0.0.0.0', '::', '192.168.1.5', 'relay.example'].map((host) => ({ RELAY_HOST: host })),
  ];
  it.each([...refusing, ...refusing.map((env) => ({ RELAY_LOCAL_CHAT: 'on', ...env }))])(
    'is refused with the settings %j',
    async (env) => {
      const answer = authenticate(requestOf(local), routes.startChat, contextOf(env));
      await expect(answer).rejects.toMatchObject({ code: 'unauthorized' });
    },
  );

  it('is not accepted with an invalid key', async () => {
    for (const authorization of ['', 'Bearer x', `Bearer ${makeApiKey()}`, 'Basic eDp5']) {
      expect((await refusal({ authorization }, routes.startChat)).status).toBe(401);
    }
  });

  it('gets the tenant of its key, not default, if it has one', async () => {
    const request = requestOf({ ...local, authorization: `Bearer ${await keyWith()}` });
    const caller = await authenticate(request, routes.startChat, contextOf());
    expect(caller.tenantId).toBe('tenant-1');
  });

  it('may call no other route', async () => {
    for (const route of Object.values(routes)) {
      if ('auth' in route) continue;
      expect((await refusal({}, route)).status, route.path).toBe(401);
    }
  });
});
