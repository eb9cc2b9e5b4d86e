/** What is done on the server's own machine, without a key, leaves its entry too. */
import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { embed, type InProcessRelay } from '../../src/embed.ts';
import { makeBackup, restoreBackup } from '../../src/operator/backup.ts';
import { rotateMasterKey } from '../../src/operator/rotate.ts';
import { makeTenantKey } from '../../src/operator/tenant-key.ts';

let base = '';
let opened: InProcessRelay[] = [];

beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), 'relay-operator-')));
});
afterEach(async () => {
  for (const each of opened.splice(0)) await each.stop();
  rmSync(base, { recursive: true, force: true });
});

const placeOf = (folder = 'data') => ({
  env: { RELAY_DATA_DIR: join(base, folder), RELAY_LOG_LEVEL: 'off' },
  cwd: base,
});

async function open(folder = 'data'): Promise<InProcessRelay> {
  const relay = await embed(placeOf(folder));
  opened.push(relay);
  return relay;
}

async function stop(): Promise<void> {
  await opened.pop()?.stop();
}

interface Trail {
  readonly entries: readonly {
    readonly action: string;
    readonly who: { readonly type: string; readonly name: string };
    readonly what: Readonly<Record<string, unknown>>;
  }[];
}

async function ask<Answer>(
  relay: InProcessRelay,
  path: string,
  apiKey = relay.apiKey,
): Promise<Answer> {
  const headers = { authorization: `Bearer ${apiKey}` };
  const response = await relay.fetch(`${relay.baseUrl}${path}`, { headers });
  expect(response.status).toBe(200);
  return (await response.json()) as Answer;
}

/** Oldest first, as “who: what”, of a trail that is whole. */
async function trailOf(relay: InProcessRelay, apiKey = relay.apiKey): Promise<string[]> {
  expect(await ask(relay, '/v1/audit/verify', apiKey)).toMatchObject({ ok: true });
  const { entries } = await ask<Trail>(relay, '/v1/audit', apiKey);
  return entries.map(({ who, action }) => `${who.type} ${who.name}: ${action}`).toReversed();
}

describe('the audit trail records', () => {
  it('the first key, and the keys of in-process servers', async () => {
    const first = await open();
    const created = ['system first start: key.created', 'system embed: key.created'];
    expect(await trailOf(first)).toEqual(created);
    await stop();
    expect(await trailOf(await open())).toEqual([
      ...created,
      'system embed: key.revoked',
      'system embed: key.created',
    ]);
  });

  it('keys and workspaces that bootstrap creates, in the trail of their tenant', async () => {
    mkdirSync(join(base, 'ws'));
    const early = await makeTenantKey(placeOf(), 'acme');
    const relay = await open();
    const late = await makeTenantKey(placeOf(), 'acme', { workspace: join(base, 'ws') });
    expect(await trailOf(relay, late.apiKey)).toEqual([
      'system bootstrap: key.created',
      'system bootstrap: tenant.workspace-changed',
      'system bootstrap: key.created',
    ]);
    const { entries } = await ask<Trail>(relay, '/v1/audit', early.apiKey);
    expect(entries.map(({ what }) => what['keyId'])).toEqual([late.keyId, undefined, early.keyId]);
    expect(JSON.stringify(entries)).not.toContain(late.apiKey.slice(11, 40));
  });

  it('a rotation by a command or at a start, and stays verifiable', async () => {
    await open();
    await stop();
    await rotateMasterKey(placeOf());
    const { env, cwd } = placeOf();
    const again = {
      ...env,
      RELAY_MASTER_KEY: 'ab'.repeat(32),
      RELAY_MASTER_KEY_PREVIOUS: 'master-key',
    };
    opened.push(await embed({ env: again, cwd }));
    const rotations = (await trailOf(opened[0]!)).filter((action) => action.includes('rotated'));
    expect(rotations).toEqual(Array(2).fill('system operator: store.key-rotated'));
  });

  it('a restore, once, at the first start after it', async () => {
    await open();
    makeBackup(placeOf(), { target: join(base, 'copy'), withMasterKey: true });
    restoreBackup(placeOf('other'), { backup: join(base, 'copy') });
    for (const _ of [1, 2]) {
      const relay = await open('other');
      const restores = (await trailOf(relay)).filter((action) => action.includes('restored'));
      expect(restores).toEqual(['system operator: store.restored']);
      const { entries } = await ask<Trail>(relay, '/v1/audit?action=store.restored');
      expect(entries[0]?.what).toMatchObject({ backupAt: expect.stringContaining('T') });
      await stop();
    }
    expect(existsSync(join(base, 'other', 'restored.json'))).toBe(false);
  });
});

it('one master key for processes that start at once on a new folder', async () => {
  const module = new URL('../../src/secrets/master-key.ts', import.meta.url).href;
  const code = `const { parentPort, workerData } = require('node:worker_threads');
    import(${JSON.stringify(module)}).then(({ ownMasterKey }) => {
      const gate = new Int32Array(workerData.gate);
      Atomics.add(gate, 0, 1);
      Atomics.notify(gate, 0);
      for (let here; (here = Atomics.load(gate, 0)) < workerData.all;) Atomics.wait(gate, 0, here);
      const ids = workerData.folders.map((folder) => ownMasterKey(folder).id);
      parentPort.postMessage(ids);
    });`;
  const folders = Array.from({ length: 40 }, (_, n) => join(base, `race-${n}`));
  const workerData = { gate: new SharedArrayBuffer(4), all: 3, folders };
  const answers = await Promise.all(
    [1, 2, 3].map(
      () =>
        new Promise<string[]>((resolve, reject) => {
          const worker = new Worker(code, { eval: true, workerData });
          worker.once('message', resolve);
          worker.once('error', reject);
        }),
    ),
  );
  expect(answers[1]).toEqual(answers[0]);
  expect(answers[2]).toEqual(answers[0]);
});
