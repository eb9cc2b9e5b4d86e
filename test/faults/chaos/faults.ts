/** The faults, one function a row of the table. Each says how often it really happened. */
import { setTimeout as pause } from 'node:timers/promises';
import type { During } from './round.ts';
import { leaseTtlMs } from './environment.ts';

export type Chance = () => number;

/** The same numbers for the same seed. */
export function createChance(seed: number): Chance {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export interface Injection {
  readonly times: number;
  readonly chance: Chance;
  /** After each one, with how many there were. */
  readonly done?: (count: number) => void;
}

const deliveryTimeoutMs = 60_000;

/** A server may have exited without being killed. */
async function untilBusy(during: During): Promise<void> {
  const seen = during.noted().length;
  const deadline = Date.now() + deliveryTimeoutMs;
  while (during.noted().length < seen + 20) {
    if (Date.now() > deadline) throw new Error('Nothing goes on any more');
    await pause(25);
  }
}

/** `kill -9` at a random moment, and up again. */
export async function killNodes(during: During, { times, chance, done }: Injection): Promise<void> {
  const { environment } = during;
  for (let count = 1; count <= times; count += 1) {
    await untilBusy(during);
    await pause(chance() * 700);
    const node = environment.nodes[Math.floor(chance() * environment.nodes.length)];
    await node?.kill();
    during.moved();
    await pause(chance() * 200);
    await node?.start();
    during.moved();
    await during.recovered();
    done?.(count);
  }
}

const sleeps = [0.5, 1.2, 3].map((ttls) => ttls * leaseTtlMs);

/** A machine that is suspended and wakes up again, before or after its leases have run out. */
export async function stopNodes(during: During, { times, chance, done }: Injection): Promise<void> {
  const { environment } = during;
  for (let count = 1; count <= times; count += 1) {
    await untilBusy(during);
    await pause(chance() * 300);
    const node = environment.nodes[Math.floor(chance() * environment.nodes.length)];
    node?.sleep();
    await pause(sleeps[(count - 1) % sleeps.length]);
    node?.wake();
    await pause(300);
    await during.recovered();
    done?.(count);
  }
}

/** PostgreSQL dies without a word and replays its log; every other time connections are cut too. */
export async function restartPostgres(during: During, { times, chance, done }: Injection) {
  const { environment } = during;
  for (let count = 1; count <= times; count += 1) {
    await untilBusy(during);
    await pause(chance() * 500);
    await environment.postgres.restartImmediately();
    if (count % 2 === 0) {
      await untilBusy(during);
      for (const proxy of environment.proxies) proxy.cut();
    }
    await untilBusy(during);
    await during.recovered();
    done?.(count);
  }
}

/** An administrator, or a failover, ends all connections while runs are going. */
export async function endConnections(
  during: During,
  { times, chance, done }: Injection,
): Promise<void> {
  const { postgres } = during.environment;
  for (let count = 1; count <= times; count += 1) {
    await untilBusy(during);
    await pause(chance() * 500);
    await postgres.sql(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid()`);
    done?.(count);
  }
  await during.recovered();
}

/** A COMMIT arrives and takes effect, and its answer does not come back. */
export async function loseCommits(
  during: During,
  { times, chance, done }: Injection,
): Promise<void> {
  const { proxies } = during.environment;
  for (let count = 1; count <= times; count += 1) {
    await pause(chance() * 250);
    const { promise: lost, resolve } = Promise.withResolvers<void>();
    for (const proxy of proxies) {
      proxy.fate = (piece) => {
        if (!piece.includes('COMMIT')) return 'pass';
        for (const each of proxies) each.fate = () => 'pass';
        resolve();
        return 'deliver-then-drop';
      };
    }
    await lost;
    done?.(count);
  }
  await during.recovered();
}
