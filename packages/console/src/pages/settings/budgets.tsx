/** How much the tenant and its keys may use, and what they have used. */
import type { Tenant } from '@relay/protocol/wire';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { client } from '../../api/client.ts';
import { useListing } from '../../api/listing.ts';
import { queries } from '../../api/queries.ts';
import { SafeText } from '../../text/safe-text.tsx';
import { Button } from '../../ui/button.tsx';
import { cx } from '../../ui/cx.ts';
import { Field, Input, Select } from '../../ui/form.tsx';
import { Section } from '../../ui/layout.tsx';
import { ErrorNotice, errorText, Loading, Note } from '../../ui/notice.tsx';
import { FormDialog } from '../../ui/overlay.tsx';
import { toast } from '../../ui/toast.tsx';
import { formatCost, formatCount } from '../../ui/values.tsx';
import { type Budget, budgetOf, budgetText, type Fields, fieldsOf, shareOf } from './budget.ts';
import { useTenant } from './use-tenant.ts';

/** The whole tenant, or one key. */
type Whose = { readonly keyId: string | undefined };

export function Budgets() {
  const tenant = useTenant();
  const [editing, setEditing] = useState<Whose>();
  if (tenant.data === undefined) {
    if (tenant.error === null) return <Loading />;
    return (
      <ErrorNotice
        title="The budgets could not be loaded"
        error={tenant.error}
        onRetry={() => void tenant.refetch()}
      />
    );
  }
  const { budgets } = tenant.data;
  return (
    <>
      <Section
        title="Tenant"
        actions={
          <Button size="sm" onClick={() => setEditing({ keyId: undefined })}>
            {budgets.tenant === undefined ? 'Set a budget' : 'Change the budget'}
          </Button>
        }
      >
        <div className="flex flex-col gap-4">
          <p className="text-sm">
            {budgets.tenant === undefined ? (
              <span className="text-muted">No budget is set: use is not limited.</span>
            ) : (
              budgetText(budgets.tenant)
            )}
          </p>
          <Usage tenant={tenant.data} />
        </div>
      </Section>
      <KeyBudgets budgets={budgets.keys ?? {}} onEdit={(keyId) => setEditing({ keyId })} />
      <p className="text-xs text-muted">
        Days and months are those of UTC. Usage is counted when runs end; of a run under way, what
        it has reserved counts too, so a run can be refused before a bar is full.
      </p>
      {editing === undefined ? null : (
        <EditBudget keyId={editing.keyId} budgets={budgets} onClose={() => setEditing(undefined)} />
      )}
    </>
  );
}

function Usage({ tenant }: { readonly tenant: Tenant }) {
  const { usage, budgets, openRuns } = tenant;
  const { tenant: budget } = budgets;
  const running = openRuns.queued + openRuns.running;
  return (
    <div className="grid gap-x-8 gap-y-4 sm:grid-cols-2">
      {(['day', 'month'] as const).map((period) => {
        const used = usage[period];
        const tokens = used.inputTokens + used.outputTokens;
        const limits = budget?.period === period ? budget : undefined;
        return (
          <div key={period} className="flex flex-col gap-2">
            <h3 className="text-sm font-medium">{period === 'day' ? 'Today' : 'This month'}</h3>
            <Bar label="Tokens" value={tokens} limit={limits?.tokens} format={formatCount} />
            <Bar label="Cost" value={used.costUsd} limit={limits?.costUsd} format={formatCost} />
            <span className="text-xs text-muted">{formatCount(used.runs)} runs</span>
          </div>
        );
      })}
      <Bar
        label="Runs at the same time"
        value={running}
        limit={budget?.concurrentRuns}
        format={formatCount}
      />
    </div>
  );
}

interface BarProps {
  readonly label: string;
  readonly value: number;
  readonly limit: number | undefined;
  readonly format: (value: number) => string;
}

function Bar({ label, value, limit, format }: BarProps) {
  const share = shareOf(value, limit);
  return (
    <div className="flex flex-col gap-1 text-sm">
      <div className="flex justify-between gap-2">
        <span className="text-muted">{label}</span>
        <span>
          {format(value)}
          {limit === undefined ? '' : ` of ${format(limit)}`}
          {share === undefined ? '' : ` (${Math.round(share * 100)} %)`}
        </span>
      </div>
      {share === undefined ? null : (
        <div
          role="progressbar"
          aria-label={label}
          aria-valuenow={Math.min(100, Math.round(share * 100))}
          aria-valuemin={0}
          aria-valuemax={100}
          className="h-2 overflow-hidden rounded-full bg-line"
        >
          <div
            className={cx(
              'h-full',
              share >= 1 ? 'bg-failed-solid' : share >= 0.8 ? 'bg-waiting' : 'bg-working',
            )}
            style={{ width: `${Math.min(100, share * 100)}%` }}
          />
        </div>
      )}
    </div>
  );
}

interface KeyBudgetsProps {
  readonly budgets: Readonly<Record<string, Budget>>;
  readonly onEdit: (keyId: string) => void;
}

function KeyBudgets({ budgets, onEdit }: KeyBudgetsProps) {
  const keys = useListing(['keys'], (options) => client.keys.list(options));
  const api = keys.items?.filter(
    ({ kind, revokedAt }) => kind === 'api' && revokedAt === undefined,
  );
  const nameOf = (id: string) => keys.items?.find((key) => key.id === id)?.name ?? id;
  const others = api?.filter(({ id }) => budgets[id] === undefined) ?? [];
  return (
    <Section title="Single keys">
      <div className="flex flex-col gap-3">
        {Object.keys(budgets).length === 0 ? (
          <p className="text-sm text-muted">No key has a budget of its own.</p>
        ) : (
          <ul aria-label="Budgets of keys" className="flex flex-col gap-2">
            {Object.entries(budgets).map(([id, budget]) => (
              <li key={id} className="flex flex-wrap items-center gap-x-4 gap-y-1 text-sm">
                <span className="font-medium">
                  <SafeText text={nameOf(id)} />
                </span>
                <span className="min-w-0 flex-1 basis-40 text-muted">{budgetText(budget)}</span>
                <Button size="sm" onClick={() => onEdit(id)}>
                  Change
                </Button>
              </li>
            ))}
          </ul>
        )}
        {others.length === 0 ? null : (
          <Select
            aria-label="Set a budget for a key"
            className="max-w-64"
            value=""
            onChange={(event) => onEdit(event.target.value)}
          >
            <option value="" disabled>
              Set a budget for a key …
            </option>
            {others.map(({ id, name, owner }) => (
              <option key={id} value={id}>
                {name}
                {owner === undefined ? '' : ` (${owner})`}
              </option>
            ))}
          </Select>
        )}
      </div>
    </Section>
  );
}

interface EditBudgetProps {
  readonly keyId: string | undefined;
  readonly budgets: Tenant['budgets'];
  readonly onClose: () => void;
}

function EditBudget({ keyId, budgets, onClose }: EditBudgetProps) {
  const current = keyId === undefined ? budgets.tenant : budgets.keys?.[keyId];
  const [fields, setFields] = useState<Fields>(() => fieldsOf(current));
  const save = useMutation({
    mutationFn: async (budget: Budget | undefined) => {
      // All budgets are replaced: those that others have set meanwhile stay.
      const { budgets: now } = await client.tenant.get();
      if (keyId === undefined) {
        const { tenant: _, ...rest } = now;
        return client.tenant.update({
          budgets: budget === undefined ? rest : { ...rest, tenant: budget },
        });
      }
      const { [keyId]: _, ...others } = now.keys ?? {};
      const keys = budget === undefined ? others : { ...others, [keyId]: budget };
      return client.tenant.update({ budgets: { ...now, keys } });
    },
    onSuccess: (tenant) => {
      queries.setQueryData(['tenant'], tenant);
      toast('The budget is saved.');
      onClose();
    },
  });
  const set = (change: Partial<Fields>) => setFields({ ...fields, ...change });
  const number = (name: 'tokens' | 'costUsd' | 'concurrentRuns', label: string, hint: string) => (
    <Field label={label} hint={hint}>
      {(field) => (
        <Input
          {...field}
          type="number"
          min={0}
          step={name === 'costUsd' ? 'any' : 1}
          placeholder="no limit"
          value={fields[name]}
          onChange={(event) => set({ [name]: event.target.value })}
        />
      )}
    </Field>
  );
  return (
    <FormDialog
      title={keyId === undefined ? 'Budget of the tenant' : 'Budget of the key'}
      action="Save"
      isDisabled={save.isPending}
      onSubmit={() => save.mutate(budgetOf(fields))}
      onClose={onClose}
      other={
        current === undefined ? undefined : (
          <Button
            kind="danger"
            className="mr-auto"
            disabled={save.isPending}
            onClick={() => save.mutate(undefined)}
          >
            Remove the budget
          </Button>
        )
      }
    >
      <Field label="Period">
        {(field) => (
          <Select
            {...field}
            value={fields.period}
            onChange={(event) => set({ period: event.target.value as Budget['period'] })}
          >
            <option value="day">Each day</option>
            <option value="month">Each month</option>
          </Select>
        )}
      </Field>
      {number('tokens', 'Tokens', 'Input and output together')}
      {number('costUsd', 'US dollars', 'Models without a price are then refused, also demo')}
      {number('concurrentRuns', 'Runs at the same time', 'Waiting runs do not count')}
      {save.error === null ? null : <Note tone="failed">{errorText(save.error)}</Note>}
    </FormDialog>
  );
}
