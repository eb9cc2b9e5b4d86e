/** The versions of the policy: who saved what and when, what changed, and the way back. */
import { defined, type Policy } from '@relay/protocol/wire';
import { useState } from 'react';
import { Link, useLocation, useSearchParams } from 'wouter';
import { useMay } from '../../api/account.tsx';
import { client } from '../../api/client.ts';
import { useListing } from '../../api/listing.ts';
import { DiffOf } from '../../text/diff.tsx';
import { SafeText } from '../../text/safe-text.tsx';
import { Button } from '../../ui/button.tsx';
import { cx } from '../../ui/cx.ts';
import { Select } from '../../ui/form.tsx';
import { Split } from '../../ui/layout.tsx';
import { Empty, ErrorNotice, Loading } from '../../ui/notice.tsx';
import { Confirm } from '../../ui/overlay.tsx';
import { Ago, Time } from '../../ui/values.tsx';
import { AgentSelect } from './agent-select.tsx';
import { changesText, countChanges, linesOf, type Rules, rulesOf } from './draft.ts';
import { setDraft, useDraft, usePolicy } from './use-policy.ts';

const noRules: Rules = { deny: [], ask: [], allow: [], approvers: [] };

export function History() {
  const [search, setSearch] = useSearchParams();
  const agent = search.get('agent') ?? undefined;
  const versions = useListing(['policy-versions', agent ?? null], (options) =>
    client.policy.versions({ ...defined({ agent }), limit: 100 }, options),
  );
  const { items } = versions;
  const addressOf = (query: Record<string, string>) =>
    `/policy/history?${new URLSearchParams({ ...defined({ agent }), ...query }).toString()}`;
  const selected = items?.find(({ version }) => String(version) === search.get('version'));
  return (
    <Split
      back={addressOf({})}
      placeholder={<Empty title="Choose a version">It shows what was changed.</Empty>}
      list={
        <>
          <div className="border-b border-line p-3">
            <AgentSelect
              agent={agent}
              none="All agents"
              onChange={(next) => setSearch(new URLSearchParams(defined({ agent: next })))}
            />
          </div>
          <div className="min-h-0 flex-1 overflow-y-auto">
            {items === undefined ? (
              versions.error === null ? (
                <Loading />
              ) : (
                <ErrorNotice
                  title="The versions could not be loaded"
                  error={versions.error}
                  onRetry={versions.reload}
                />
              )
            ) : items.length === 0 ? (
              <Empty title="No version is saved yet">
                Every saved change of the rules is a version, with who saved it and when.{' '}
                <Link href="/policy" className="underline">
                  Write the first rule
                </Link>
              </Empty>
            ) : (
              <ol>
                {items.map((policy, index) => (
                  <li key={policy.version}>
                    <VersionRow
                      href={addressOf({ version: String(policy.version) })}
                      policy={policy}
                      previous={items[index + 1] ?? (versions.hasMore ? undefined : noRules)}
                      isSelected={policy === selected}
                      isCurrent={index === 0}
                    />
                  </li>
                ))}
              </ol>
            )}
            {versions.hasMore ? (
              <div className="p-3">
                <Button disabled={versions.isLoadingMore} onClick={versions.loadMore}>
                  Show older versions
                </Button>
              </div>
            ) : null}
          </div>
        </>
      }
      detail={
        selected === undefined || items === undefined ? undefined : (
          <Version policy={selected} versions={items} />
        )
      }
    />
  );
}

interface VersionRowProps {
  readonly href: string;
  readonly policy: Policy;
  readonly previous: Rules | undefined;
  readonly isSelected: boolean;
  readonly isCurrent: boolean;
}

function VersionRow({ href, policy, previous, isSelected, isCurrent }: VersionRowProps) {
  return (
    <Link
      href={href}
      aria-current={isSelected ? 'true' : undefined}
      className={cx(
        'flex min-h-11 flex-wrap items-center gap-x-3 border-b border-line px-4 py-2 text-sm',
        isSelected ? 'bg-selected' : 'hover:bg-hover',
      )}
    >
      <span className="font-medium">Version {policy.version}</span>
      {isCurrent ? <span className="text-muted">current</span> : null}
      <span className="text-muted">
        {previous === undefined ? '' : changesText(countChanges(previous, policy))}
      </span>
      <span className="ml-auto min-w-0 truncate text-muted">
        <SafeText text={nameOf(policy)} maxLength={60} />
        {policy.updatedAt === undefined ? null : (
          <>
            , <Ago at={policy.updatedAt} />
          </>
        )}
      </span>
    </Link>
  );
}

function nameOf({ updatedBy }: Policy): string {
  return updatedBy?.owner ?? updatedBy?.name ?? 'the server';
}

interface VersionProps {
  readonly policy: Policy;
  readonly versions: readonly Policy[];
}

function Version({ policy, versions }: VersionProps) {
  const { agent, version, updatedAt } = policy;
  const [search, setSearch] = useSearchParams();
  const [, navigate] = useLocation();
  const mayEdit = useMay('admin');
  const current = usePolicy(agent).data;
  const draft = useDraft(agent);
  const [isAsked, setAsked] = useState(false);
  const against = Number(search.get('against') ?? version - 1);
  const other: Rules | undefined =
    against === 0 ? noRules : versions.find((each) => each.version === against);
  const restore = () => {
    if (current === undefined) return;
    const base = { ...rulesOf(current), version: current.version };
    setDraft(agent, { base, rules: rulesOf(policy) });
    navigate(`/policy${agent === undefined ? '' : `?agent=${encodeURIComponent(agent)}`}`);
  };
  return (
    <div className="flex min-h-0 flex-1 flex-col gap-3 overflow-y-auto p-4">
      <div className="flex flex-wrap items-center gap-2">
        <h2 className="text-base font-semibold">Version {version}</h2>
        <span className="text-sm text-muted">
          saved by <SafeText text={nameOf(policy)} />{' '}
          {updatedAt === undefined ? null : <Time at={updatedAt} />}
        </span>
        {mayEdit && current !== undefined && current.version !== version ? (
          <Button className="ml-auto" onClick={draft === null ? restore : () => setAsked(true)}>
            Restore as a new version
          </Button>
        ) : null}
      </div>
      <label className="flex items-center gap-2 text-sm">
        <span className="whitespace-nowrap text-muted">Compared with</span>
        <Select
          className="max-w-52"
          value={against}
          onChange={({ target: { value } }) =>
            setSearch((before) => {
              const next = new URLSearchParams(before);
              next.set('against', value);
              return next;
            })
          }
        >
          <option value={0}>No rules</option>
          {versions
            .filter((each) => each.version !== version)
            .map((each) => (
              <option key={each.version} value={each.version}>
                Version {each.version}
              </option>
            ))}
        </Select>
      </label>
      {other === undefined ? (
        <p className="text-sm text-muted">Version {against} is not loaded.</p>
      ) : (
        <DiffOf
          before={linesOf(against > version ? policy : other)}
          after={linesOf(against > version ? other : policy)}
        />
      )}
      <Confirm
        open={isAsked}
        onOpenChange={setAsked}
        title="Replace your unsaved changes?"
        action="Replace them"
        onConfirm={restore}
      >
        You have changes to the policy that are not saved. The rules of version {version} take their
        place.
      </Confirm>
    </div>
  );
}
