import { expect, it } from 'vitest';
import type { RouteRequest } from '../../../src/http/handlers/handler.ts';
import { revokeKey } from '../../../src/http/handlers/governance/keys.ts';

it('closes the streams of a revoked key after the revocation is stored and before it answers', async () => {
  const happened: string[] = [];
  const note = (what: string) => void happened.push(what);
  const store = {
    readKey: async () => ({ id: 'key-1' }),
    revokeKey: async () => note('stored'),
  };
  const call = {
    params: { id: 'key-1' },
    caller: { tenantId: 'tenant-1' },
    context: {
      store: { tenant: () => store },
      streams: {
        closeByKey: (id: string) => note(`closed ${id}`),
        closeSessionsOf: (id: string) => note(`closed sessions of ${id}`),
      },
      control: { engine: { clock: { now: () => 7 } } },
    },
  } as unknown as RouteRequest<'revokeKey'>;
  await revokeKey(call);
  expect(happened).toEqual(['stored', 'closed key-1', 'closed sessions of key-1']);
});
