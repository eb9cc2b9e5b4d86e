/** The code in the guide is what people copy: it must hold. */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { auditActions } from '@relay/protocol';
import { bootServer, type TestServer } from './support/server.ts';
import { startRun } from './support/requests.ts';
import { WebhookSigner } from '../src/secrets/webhook-signer.ts';

const guide = new URL('../../../docs/guides/governance.md', import.meta.url);
const guideText = readFileSync(guide, 'utf8');
const snippets = [...guideText.matchAll(/```js\n(.*?)```/gs)].map(([, code]) => code);

async function exported<Function>(name: string): Promise<Function> {
  const code = snippets.find((each) => each?.includes(`export function ${name}(`)) ?? '';
  const module = (await import(
    /* @vite-ignore */ `data:text/javascript,${encodeURIComponent(code)}`
  )) as Record<string, Function>;
  return module[name]!;
}

it('the guide says when each action of the audit trail is recorded', () => {
  expect(auditActions.filter((action) => !guideText.includes(`\`${action}\``))).toEqual([]);
});

describe('the signature check in the guide', async () => {
  type Check = (secret: string, signature: string, body: string, tolerance?: number) => boolean;
  const isFromRelay = await exported<Check>('isFromRelay');
  const signer = new WebhookSigner(randomBytes(32));
  const webhook = {
    id: 'w',
    tenantId: 't',
    url: 'https://x',
    events: [],
    createdAt: 0,
    createdBy: { type: 'key', id: 'k', name: 'Ada' },
    mayDecide: false,
  } as const;
  const secret = signer.secretOf(webhook);
  const body = '{"id":"approval.requested:1","text":"ä\\u0000"}';
  const now = signer.sign(webhook, body, Date.now());

  it('accepts only what Relay has just signed', () => {
    expect(isFromRelay(secret, now, body)).toBe(true);
    expect(isFromRelay(secret, now, `${body} `)).toBe(false);
    expect(isFromRelay(signer.secretOf({ tenantId: 't', id: 'x' }), now, body)).toBe(false);
    const [t, v1] = now.split(',') as [string, string];
    for (const forged of ['', 'x', t, v1, `t=,${v1}`, `t=NaN,${v1}`, `${t},v1=`, `${t},v1=00`]) {
      expect(isFromRelay(secret, forged, body)).toBe(false);
    }
  });

  it('refuses old signatures and those from the future', () => {
    for (const minutes of [-6, 6]) {
      const other = signer.sign(webhook, body, Date.now() + minutes * 60_000);
      expect(isFromRelay(secret, other, body)).toBe(false);
      expect(isFromRelay(secret, other, body, 3_600)).toBe(true);
    }
  });
});

describe('the head of a trail', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await bootServer();
  });
  afterAll(() => server.stop());

  it('is computed from its entries alone', async () => {
    const run = await startRun(server, { input: 'notify x' });
    const relay = await run.reader.until('approval_requested');
    const body = { approved: true, always: true, scope: 'tenant', reason: 'ä\u2028"\\' };
    await server.json(`/v1/approvals/${String(relay.data['id'])}`, { body });
    await run.reader.rest();
    await server.json('/v1/keys', { body: { name: '7', scopes: ['runs', 'admin'] } });
    type Head = (tenantId: string, entries: readonly unknown[]) => string;
    const headOf = await exported<Head>('headOf');
    const { entries } = (await server.json('/v1/audit?limit=200')) as {
      entries: { seq: number }[];
    };
    expect(entries.length).toBeGreaterThan(3);
    const { hash } = await server.json('/v1/audit/head');
    const inOrder = entries.toSorted((a, b) => a.seq - b.seq);
    expect(headOf(server.tenantId, inOrder)).toBe(hash);
    expect(headOf(server.tenantId, inOrder.slice(1))).not.toBe(hash);
  });
});
