import type { RunRecord, TenantStore } from '@relay/core';
import { notFound } from '../errors.ts';
import type { Call } from './handler.ts';

/** All that a caller can see. */
export function storeOf({ context, caller }: Call): TenantStore {
  return context.store.tenant(caller.tenantId);
}

/** Another tenant's run is answered exactly like one that does not exist. */
export async function findRun(call: Call, runId: string): Promise<RunRecord> {
  const run = await storeOf(call).readRun(runId);
  if (run === undefined) throw notFound('run');
  return run;
}
