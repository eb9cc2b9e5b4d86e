import { expect, it } from 'vitest';
import type { Call } from '../../../src/http/handlers/handler.ts';
import { revokeKey } from '../../../src/http/handlers/keys.ts';

it('closes the streams of a key as soon as that is stored, and before it answers', async () => {
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
      streams: { closeOf: (id: string) => note(`closed ${id}`) },
      control: { engine: { clock: { now: () => 7 } } },
    },
    reply: { code: (status: number) => note(`answered ${status}`) },
  } as unknown as Call;
  await revokeKey(call);
  expect(happened).toEqual(['stored', 'closed key-1', 'answered 204']);
});
