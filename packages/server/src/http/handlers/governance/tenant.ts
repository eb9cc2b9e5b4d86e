/** `/v1/tenant`: settings, budgets, pause, and canceling runs in bulk. */
import * as core from '@relay/core';
import type { AuditFact, RunFilter, UsageScope } from '@relay/core';
import { type Budgets, defined, type RunStatus } from '@relay/protocol';
import { changeSettings, type TenantSettings } from '../../../config/tenant-settings.ts';
import { auditEntry, type ApiRequest, type Handler, storeOf } from '../handler.ts';

export const getTenant: Handler<'getTenant'> = async (call) => presentTenant(call);

async function presentTenant(call: ApiRequest) {
  const store = storeOf(call);
  const tenant = await store.readTenant();
  const budgets = (tenant.settings as TenantSettings).budgets ?? {};
  const now = new Date();
  const usageOf = async (scope: UsageScope) => {
    const [day, month] = await Promise.all([
      store.readUsage({ ...scope, since: core.startOf('day', now) }),
      store.readUsage({ ...scope, since: core.startOf('month', now) }),
    ]);
    return { day, month };
  };
  const [usage, openRuns, keys] = await Promise.all([
    usageOf({}),
    store.countOpenRuns({}),
    Promise.all(
      Object.keys(budgets.keys ?? {}).map(
        async (keyId) => [keyId, await usageOf({ keyId })] as const,
      ),
    ),
  ]);
  return {
    id: tenant.id,
    name: tenant.name,
    paused: tenant.pausedAt !== null,
    budgets,
    usage: { ...usage, keys: Object.fromEntries(keys) },
    openRuns,
  };
}

export const updateTenant: Handler<'updateTenant'> = async (call) => {
  const { paused, budgets } = call.body;
  const { context } = call;
  const { tenantId } = call.caller;
  const store = storeOf(call);
  const { pausedAt } = await store.readTenant();
  const isChanged = paused !== undefined && paused !== (pausedAt !== null);
  const audit = [
    ...(!isChanged ? [] : auditEntry(call, paused ? 'tenant.paused' : 'tenant.resumed', {})),
    ...(budgets === undefined ? [] : auditEntry(call, 'tenant.budgets-changed', factsOf(budgets))),
  ];
  const pause = isChanged ? { pausedAt: paused ? Date.now() : null } : {};
  if (budgets === undefined) await store.updateTenant(pause, audit);
  else await changeSettings(store, { budgets }, { ...pause, audit });
  context.budgets.invalidate(tenantId);
  if (paused !== undefined) context.control.supervisor.setPaused(tenantId, paused);
  return presentTenant(call);
};

/** One audit fact per number: `tenant.tokens`, `keys.<id>.costUsd`. */
function factsOf({ tenant, keys = {} }: Budgets): Record<string, AuditFact> {
  const owners = [
    ['tenant', tenant ?? {}] as const,
    ...Object.entries(keys).map(([id, budget]) => [`keys.${id}`, budget] as const),
  ];
  return Object.fromEntries(
    owners.flatMap(([owner, budget]) =>
      Object.entries(budget).map(([name, value]) => [`${owner}.${name}`, value ?? null]),
    ),
  );
}

const openStatuses: readonly RunStatus[] = ['queued', 'running', 'waiting'];

/** Cancels the open runs that match. Runs that end meanwhile are not counted. */
export const cancelRuns: Handler<'cancelRuns'> = async (call) => {
  const { agent, labels = {} } = call.body;
  const [first, ...others] = Object.entries(labels);
  const filter: RunFilter = {
    status: openStatuses,
    ...defined({
      agent,
      label: first === undefined ? undefined : { name: first[0], value: first[1] },
    }),
  };
  let canceled = 0;
  const openRuns = core.listedItems((page) => storeOf(call).listRuns(filter, page));
  for await (const run of openRuns) {
    if (others.some(([name, value]) => run.labels[name] !== value)) continue;
    const ref = { tenantId: run.tenantId, runId: run.id };
    const why = { reason: `Canceled by ${call.caller.actor.name}`, by: call.caller.actor };
    if (await core.cancelRun(call.context.control, ref, why)) canceled += 1;
  }
  return { canceled };
};
