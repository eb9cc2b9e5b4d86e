/** Waits for what another request stores. */
import type { Engine } from '../engine.ts';
import type { Hint } from '../ports/index.ts';
import { Signal } from '../runtime/signal.ts';

/** Hints can be lost. */
const pollMs = 1_000;

export interface Awaited<Value> {
  /** Whether a hint may be about it. */
  readonly concerns: (hint: Hint) => boolean;
  /** Undefined: not yet. */
  readonly read: () => Promise<Value | undefined>;
  readonly signal?: AbortSignal;
  /** Default: for ever. */
  readonly until?: number;
}

/** Undefined if the signal is aborted or the time has come first. */
export async function waitUntil<Value>(
  { store, clock }: Pick<Engine, 'store' | 'clock'>,
  { concerns, read, signal, until = Infinity }: Awaited<Value>,
): Promise<Value | undefined> {
  const changed = new Signal();
  let isChanged = false;
  const stop = store.listen((hint) => {
    if (hint.kind !== 'all' && !concerns(hint)) return;
    isChanged = true;
    changed.notify();
  });
  try {
    for (;;) {
      isChanged = false;
      const found = await read();
      const left = until - clock.now();
      if (found !== undefined || left <= 0 || signal?.aborted === true) return found;
      if (!isChanged) await changed.waitFor({ clock, ms: Math.min(pollMs, left), signal });
    }
  } finally {
    stop();
  }
}
