import { expect } from 'vitest';
import type { TestRelay } from './relay.ts';

/** `/health` answers within 100 ms; one slow answer may be this machine's, five are the server's. */
export async function expectHealth(server: TestRelay): Promise<void> {
  let fastest = Infinity;
  for (let n = 0; n < 5 && fastest > 100; n += 1) {
    const since = performance.now();
    expect((await server.request('/health', { key: null })).status).toBe(200);
    fastest = Math.min(fastest, performance.now() - since);
  }
  expect(fastest).toBeLessThanOrEqual(100);
}
