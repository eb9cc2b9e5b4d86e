import { expect, it } from 'vitest';
import { decideApproval } from '../../../src/http/handlers/governance/approvals.ts';
import type { RouteRequest } from '../../../src/http/handlers/handler.ts';

it('answers 404 to a decision about an approval whose run was deleted', async () => {
  const approval = { id: 'relay-1', runId: 'run-1', status: 'pending' };
  const store = { readApproval: async () => approval, readRunHead: async () => undefined };
  const tenants = { tenant: () => store };
  const call = {
    params: { id: 'relay-1' },
    body: { approved: true },
    caller: { tenantId: 'tenant-1', actor: { type: 'key', id: 'k', name: 'k' } },
    context: { store: tenants, control: { engine: { store: tenants } } },
  } as unknown as RouteRequest<'decideApproval'>;
  await expect(decideApproval(call)).rejects.toMatchObject({
    code: 'not_found',
    status: 404,
    message: 'No such approval',
  });
});
