import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RelayError, type StoredEvent } from '@relay/protocol';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { sweepOutputs } from '../../src/workspaces/sweep-outputs.ts';
import { bootServer, type TestServer, until } from '../support/server.ts';

const now = Date.parse('2026-06-15T12:00:00Z');
let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'relay-outputs-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function keep(runId: string, { bytes, ageMs }: { bytes: number; ageMs: number }): void {
  mkdirSync(join(folder, 't', runId), { recursive: true });
  const file = join(folder, 't', runId, 'call_1.stdout');
  writeFileSync(file, 'x'.repeat(bytes));
  utimesSync(file, new Date(now - ageMs), new Date(now - ageMs));
}

const left = (): string[] => (existsSync(join(folder, 't')) ? readdirSync(join(folder, 't')) : []);

/** By run id: `pruned…` has a pruned journal, `unknown…` does not exist, `broken…` cannot be read. */
function sweeper(options: { retentionMs?: number; maxBytes?: number }) {
  const asked: string[] = [];
  const readEvents = async (runId: string): Promise<StoredEvent[]> => {
    asked.push(runId);
    if (runId.startsWith('pruned')) throw new RelayError('journal_pruned', 'No');
    if (runId.startsWith('broken')) throw new RelayError('storage_failed', 'No');
    return runId.startsWith('unknown') ? [] : [{ seq: 1 } as StoredEvent];
  };
  const store = { tenant: () => ({ readEvents }) } as never;
  const clock = { now: () => now };
  return { sweep: () => sweepOutputs({ folder, store, clock, maxBytes: 1e9, ...options }), asked };
}

describe('sweepOutputs', () => {
  it('deletes outputs with the journal of their run, not earlier', async () => {
    for (const name of ['pruned', 'kept', 'unknown', 'broken'])
      keep(name, { bytes: 1, ageMs: 6_000 });
    keep('pruned-lately', { bytes: 1, ageMs: 4_000 });
    const { sweep, asked } = sweeper({ retentionMs: 5_000 });
    await sweep();
    expect(left()).toEqual(['broken', 'kept', 'pruned-lately']);
    expect(asked).not.toContain('pruned-lately');
  });

  it('keeps all outputs without a retention', async () => {
    keep('pruned', { bytes: 1, ageMs: 1e9 });
    const { sweep, asked } = sweeper({});
    await sweep();
    expect({ left: left(), asked }).toEqual({ left: ['pruned'], asked: [] });
  });

  it('deletes the oldest outputs beyond the size limit', async () => {
    keep('b', { bytes: 400, ageMs: 2_000 });
    keep('a', { bytes: 400, ageMs: 3_000 });
    keep('c', { bytes: 400, ageMs: 1_000 });
    await sweeper({ maxBytes: 1_200 }).sweep();
    expect(left()).toEqual(['a', 'b', 'c']);
    await sweeper({ maxBytes: 1_199 }).sweep();
    expect(left()).toEqual(['b', 'c']);
    await sweeper({ maxBytes: 399 }).sweep();
    expect(left()).toEqual([]);
  });

  it('accepts a missing folder', async () => {
    rmSync(folder, { recursive: true });
    await expect(sweeper({}).sweep()).resolves.toBeUndefined();
  });
});

describe('a server', () => {
  let server: TestServer | undefined;
  afterEach(() => server?.stop());

  it('deletes expired outputs', async () => {
    const data = join(folder, 'data');
    for (const [run, bytes] of [
      ['old', 2_000_000],
      ['new', 10],
    ] as const) {
      mkdirSync(join(data, 'outputs/t', run), { recursive: true });
      writeFileSync(join(data, 'outputs/t', run, 'call_1.stdout'), 'x'.repeat(bytes));
    }
    utimesSync(join(data, 'outputs/t/old/call_1.stdout'), 1, 1);
    server = await bootServer({ env: { RELAY_DATA_DIR: data, RELAY_OUTPUT_MB: '1' } });
    await until(() => !existsSync(join(data, 'outputs/t/old')), 'the sweep');
    expect(existsSync(join(data, 'outputs/t/new/call_1.stdout'))).toBe(true);
  });
});
