/**
 * The probe of `attacks.ts`: asks `/health` every few milliseconds from a process of its own, so that the
 * load of the client does not count. A message starts it with a URL or, without one, ends it.
 */
import { Agent, get } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';

export interface Probe {
  readonly url?: string;
}

const agent = new Agent({ keepAlive: true });
let over = new AbortController();

/** How long the answer took, or Infinity if there was none. */
function ask(url: string): Promise<number> {
  const before = performance.now();
  return new Promise((resolve) => {
    const sent = get(`${url}/health`, { agent }, (response) => {
      response.resume().once('end', () => resolve(performance.now() - before));
    });
    sent.once('error', () => resolve(Infinity));
  });
}

async function run(url: string, signal: AbortSignal): Promise<void> {
  const times: number[] = [];
  while (!signal.aborted) {
    times.push(await ask(url));
    await pause(3);
  }
  process.send?.(times);
}

process.on('message', ({ url }: Probe) => {
  over.abort();
  over = new AbortController();
  if (url !== undefined) void run(url, over.signal);
});
