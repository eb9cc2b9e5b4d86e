/** A run that kills the real server each time it is resumed. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { until } from '../support/kernel.ts';
import { TestServer } from '../support/server.ts';

const config = 'test/support/configs/poisoned.config.ts';

let server: TestServer;
let restarts: number;
beforeEach(async () => {
  restarts = 0;
  server = await new TestServer({ RELAY_CONFIG: config }).start();
});
afterEach(() => server.dispose());

interface Run {
  readonly status: string;
  readonly output?: string;
  readonly error?: { readonly code: string };
}

async function restart(): Promise<void> {
  restarts += 1;
  expect(restarts).toBeLessThanOrEqual(6);
  await server.start();
}

async function start(body: object): Promise<string> {
  const response = await server.request('/v1/runs', { body });
  await response.body?.cancel();
  return response.headers.get('x-run-id') ?? '';
}

async function read(id: string): Promise<Run> {
  return (await server.request(`/v1/runs/${id}`)).json() as Promise<Run>;
}

function isUp(): Promise<boolean> {
  return server.request('/health').then(
    () => true,
    () => false,
  );
}

/** The server may die before it answers. */
function idOfPoisoned(): Promise<string> {
  return until(async () => {
    try {
      const response = await server.request('/v1/runs?agent=poisoned');
      const { runs } = (await response.json()) as { runs: { id: string }[] };
      return runs[0]?.id;
    } catch {
      await restart();
      return undefined;
    }
  }, 'the poisoned run');
}

/** Resolves when the run has ended, or the server has. */
function endOf(id: string): Promise<'failed' | 'died'> {
  return until(async () => {
    try {
      return (await read(id)).status === 'failed' && 'failed';
    } catch {
      return 'died';
    }
  }, 'the run or the server to end');
}

test(
  'a run that the server dies of does not keep the server down, and the other runs complete',
  { timeout: 120_000 },
  async () => {
    // Each needs longer than the server lives at first.
    const others = await Promise.all(
      Array.from({ length: 3 }, () => start({ model: 'demo', input: 'slow 1500' })),
    );
    // It may die before it answers.
    await start({ agent: 'poisoned', input: 'use poison {}' }).catch(() => undefined);
    await until(async () => !(await isUp()), 'the server to die');
    await restart();
    const poisoned = await idOfPoisoned();
    while ((await endOf(poisoned)) === 'died') await restart();
    expect(restarts).toBe(6);
    expect(await read(poisoned)).toMatchObject({
      status: 'failed',
      error: { code: 'resume_crashed' },
    });
    for (const id of others) {
      await until(async () => (await read(id)).status === 'completed', 'the other runs');
    }
    const next = await server.request('/v1/runs', { body: { model: 'demo', input: 'say 3' } });
    expect(await next.text()).toContain('"status":"completed"');
  },
);
