/** Standing permissions: what needs no approval, since when, by whom, how often, and the end of it. */
import type { Grant, GrantScope } from '@relay/protocol/wire';
import { useMutation } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { Link } from 'wouter';
import { useMay } from '../../api/account.tsx';
import { client } from '../../api/client.ts';
import { useListing } from '../../api/listing.ts';
import { queries } from '../../api/queries.ts';
import { SafeText } from '../../text/safe-text.tsx';
import { Button } from '../../ui/button.tsx';
import { cx } from '../../ui/cx.ts';
import { Input, Select } from '../../ui/form.tsx';
import { PageBody } from '../../ui/layout.tsx';
import { Empty, ErrorNotice, errorText, Loading } from '../../ui/notice.tsx';
import { Confirm } from '../../ui/overlay.tsx';
import { ValidityBadge } from '../../ui/state.tsx';
import { toast } from '../../ui/toast.tsx';
import { useFilters } from '../../ui/use-filters.ts';
import { formatCount, Id, shortId, Time } from '../../ui/values.tsx';
import { RuleSummary } from './rule-summary.tsx';

const scopeNames: readonly GrantScope[] = ['run', 'conversation', 'session', 'tenant'];

export function Grants() {
  const { search, setFilter } = useFilters('grant');
  const tool = search.get('tool') ?? '';
  const scope = scopeNames.find((name) => name === search.get('scope'));
  const target = search.get('grant');
  // The grant that the address names may have ended.
  const status = search.get('status') === 'all' || target !== null ? 'all' : 'active';
  const grants = useListing(['grants', status, tool, scope ?? null], (options) =>
    client.grants.list(
      {
        status,
        limit: 100,
        ...(tool === '' ? {} : { tool }),
        ...(scope === undefined ? {} : { scope }),
      },
      options,
    ),
  );
  const { items } = grants;
  return (
    <PageBody>
      <p className="text-sm text-muted">
        A grant lets matching calls run without an approval. “Approve always” in the inbox makes
        one. It never overrides a deny rule.
      </p>
      <div className="flex flex-wrap gap-2">
        <Select
          aria-label="Status"
          className="w-auto!"
          value={status}
          onChange={(event) => setFilter('status', event.target.value === 'all' ? 'all' : '')}
        >
          <option value="active">Active</option>
          <option value="all">Also ended</option>
        </Select>
        <Select
          aria-label="Scope"
          className="w-auto!"
          value={scope ?? ''}
          onChange={(event) => setFilter('scope', event.target.value)}
        >
          <option value="">Every scope</option>
          {scopeNames.map((name) => (
            <option key={name} value={name}>
              {scopeWords[name]}
            </option>
          ))}
        </Select>
        <Input
          aria-label="Tool"
          placeholder="Tool"
          className="max-w-52"
          value={tool}
          onChange={(event) => setFilter('tool', event.target.value)}
        />
      </div>
      {items === undefined ? (
        grants.error === null ? (
          <Loading />
        ) : (
          <ErrorNotice
            title="The grants could not be loaded"
            error={grants.error}
            onRetry={grants.reload}
          />
        )
      ) : items.length === 0 ? (
        <Empty
          title={status === 'all' || tool !== '' ? 'No grants are found' : 'There are no grants'}
          action={
            <Link href="/chat" className="text-sm underline">
              Ask the demo model to “notify hello”
            </Link>
          }
        >
          Approve a call with “Always” in the inbox, and the grant is here.
        </Empty>
      ) : (
        <ul aria-label="Grants" className="flex flex-col rounded border border-line bg-surface">
          {items.map((grant) => (
            <GrantRow key={grant.id} grant={grant} isTarget={grant.id === target} />
          ))}
        </ul>
      )}
      {grants.hasMore ? (
        <div>
          <Button disabled={grants.isLoadingMore} onClick={grants.loadMore}>
            Show more
          </Button>
        </div>
      ) : null}
    </PageBody>
  );
}

const scopeWords: Readonly<Record<GrantScope, string>> = {
  run: 'One run',
  conversation: 'One conversation',
  session: 'One session',
  tenant: 'Whole tenant',
};

function GrantRow({ grant, isTarget }: { readonly grant: Grant; readonly isTarget: boolean }) {
  const mayRevoke = useMay('approve');
  const mayAudit = useMay('admin');
  const [isAsked, setAsked] = useState(false);
  const row = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (isTarget) row.current?.scrollIntoView({ block: 'center' });
  }, [isTarget]);
  const revoke = useMutation({
    mutationFn: () => client.grants.revoke(grant.id),
    onSuccess: () => {
      setAsked(false);
      toast('The grant is revoked. Matching calls need an approval again.');
      void queries.invalidateQueries({ queryKey: ['grants'] });
    },
    onError: (error) => toast(`The grant was not revoked: ${errorText(error)}`, 'error'),
  });
  const { id, scope, createdAt, createdBy, expiresAt, uses, usesLeft, revokedAt } = grant;
  return (
    <li
      ref={row}
      aria-current={isTarget ? 'location' : undefined}
      className={cx(
        'flex flex-wrap items-start gap-x-4 gap-y-2 border-b border-line px-4 py-2.5 last:border-b-0',
        isTarget && 'bg-selected',
      )}
    >
      <div className="flex min-w-0 flex-1 basis-72 flex-col gap-1">
        <RuleSummary rule={grant} />
        <div className="flex flex-wrap items-center gap-x-3 gap-y-0.5 text-xs text-muted">
          <span>
            {scopeWords[scope]} <ScopeLink grant={grant} />
          </span>
          <span>
            by <SafeText text={createdBy.owner ?? createdBy.name} maxLength={60} />,{' '}
            <Time at={createdAt} />
          </span>
          <span>
            {expiresAt === undefined ? (
              'does not expire'
            ) : (
              <>
                {grant.status === 'expired' ? 'expired' : 'expires'} <Time at={expiresAt} />
              </>
            )}
          </span>
          {revokedAt === undefined ? null : (
            <span>
              revoked <Time at={revokedAt} />
            </span>
          )}
          {uses === undefined ? null : (
            <span>
              {formatCount(usesLeft ?? 0)} of {formatCount(uses)} uses left
            </span>
          )}
          {mayAudit ? (
            <>
              <Link href={madeAddress(createdAt)} className="underline">
                How it was made
              </Link>
              <Link href={`/audit?actor=${encodeURIComponent(id)}`} className="underline">
                Calls that it allowed
              </Link>
            </>
          ) : null}
          <Id id={id} label="grant id" />
        </div>
      </div>
      <div className="flex items-center gap-2">
        <ValidityBadge status={grant.status} />
        {grant.status === 'active' && mayRevoke ? (
          <Button size="sm" kind="danger" onClick={() => setAsked(true)}>
            Revoke
          </Button>
        ) : null}
      </div>
      <Confirm
        open={isAsked}
        onOpenChange={setAsked}
        title="Revoke this grant?"
        action="Revoke the grant"
        isBusy={revoke.isPending}
        onConfirm={() => revoke.mutate()}
      >
        Calls of <code className="font-mono">{grant.tool}</code> that it allowed need an approval
        again, from the next call on. Calls that run already are not stopped. A revoked grant cannot
        be restored.
      </Confirm>
    </li>
  );
}

/** The audit entry, which names the approval. */
function madeAddress(createdAt: string): string {
  const until = new Date(Date.parse(createdAt) + 1).toISOString();
  const query = new URLSearchParams({ action: 'grant.created', since: createdAt, until });
  return `/audit?${query.toString()}`;
}

function ScopeLink({ grant: { scope, scopeId } }: { readonly grant: Grant }) {
  if (scopeId === undefined) return null;
  switch (scope) {
    case 'run':
    case 'session':
    case 'conversation': {
      const page = { run: 'runs', session: 'sessions', conversation: 'chat' }[scope];
      return (
        <Link href={`/${page}/${scopeId}`} title={scopeId} className="font-mono underline">
          {shortId(scopeId)}
        </Link>
      );
    }
    case 'tenant':
      return null;
  }
}
