/** `/v1/tenant` and the kill switch. */
import * as core from '@relay/core';
import type { AuditFact, RunFilter } from '@relay/core';
import { type Budgets, defined, type RunStatus } from '@relay/protocol';
import { startOf } from '../../jobs/budgets.ts';
import { changeSettings, type TenantSettings } from '../../config/tenant-settings.ts';
import { auditEntry, type Call, type Handler } from './handler.ts';

export const getTenant: Handler<'getTenant'> = async (call) => presentTenant(call);

async function presentTenant(call: Call) {
  const store = call.context.store.tenant(call.caller.tenantId);
  const tenant = await store.readTenant();
  const now = new Date();
  const [day, month, openRuns] = await Promise.all([
    store.readUsage({ since: startOf('day', now) }),
    store.readUsage({ since: startOf('month', now) }),
    store.countOpenRuns({}),
  ]);
  return {
    id: tenant.id,
    name: tenant.name,
    paused: tenant.pausedAt !== null,
    budgets: (tenant.settings as TenantSettings).budgets ?? {},
    usage: { day, month },
    openRuns,
  };
}

export const updateTenant: Handler<'updateTenant'> = async (call) => {
  const { paused, budgets } = call.body;
  const { context, caller } = call;
  const { tenantId } = caller;
  const store = context.store.tenant(tenantId);
  const audit = [
    ...(paused === undefined
      ? []
      : auditEntry(call, paused ? 'tenant.paused' : 'tenant.resumed', {})),
    ...(budgets === undefined ? [] : auditEntry(call, 'tenant.budgets-changed', factsOf(budgets))),
  ];
  const pause = paused === undefined ? {} : { pausedAt: paused ? Date.now() : null };
  if (budgets === undefined) await store.updateTenant(pause, audit);
  else await changeSettings(store, { budgets }, { ...pause, audit });
  context.budgets.forget(tenantId);
  if (paused !== undefined) context.control.supervisor.setPaused(tenantId, paused);
  return presentTenant(call);
};

/** What was set, as one fact a number: `tenant.tokens`, `keys.<id>.costUsd`. */
function factsOf({ tenant, keys = {} }: Budgets): Record<string, AuditFact> {
  const owners = [
    ...(tenant === undefined ? [] : [['tenant', tenant] as const]),
    ...Object.entries(keys).map(([id, budget]) => [`keys.${id}`, budget] as const),
  ];
  return Object.fromEntries(
    owners.flatMap(([owner, budget]) =>
      Object.entries(budget).map(([name, value]) => [`${owner}.${name}`, value ?? null]),
    ),
  );
}

const open: readonly RunStatus[] = ['queued', 'running', 'waiting'];
const pageSize = 200;

/** Every run that is not over and fits; those that end by themselves meanwhile are not counted. */
export const cancelRuns: Handler<'cancelRuns'> = async (call) => {
  const { agent, labels = {} } = call.body;
  const [first, ...others] = Object.entries(labels);
  const filter: RunFilter = {
    status: open,
    ...defined({
      agent,
      label: first === undefined ? undefined : { name: first[0], value: first[1] },
    }),
  };
  let canceled = 0;
  for await (const run of openRuns(call, filter)) {
    if (others.some(([name, value]) => run.labels[name] !== value)) continue;
    const ref = { tenantId: run.tenantId, runId: run.id };
    const why = { reason: `Canceled by ${call.caller.as.name}`, by: call.caller.as };
    if (await core.cancelRun(call.context.control, ref, why)) canceled += 1;
  }
  return { canceled };
};

async function* openRuns(call: Call, filter: RunFilter) {
  const store = call.context.store.tenant(call.caller.tenantId);
  let page = await store.listRuns(filter, { limit: pageSize });
  for (;;) {
    yield* page;
    const last = page.at(-1);
    if (last === undefined || page.length < pageSize) return;
    page = await store.listRuns(filter, {
      limit: pageSize,
      before: { at: last.createdAt, id: last.id },
    });
  }
}
