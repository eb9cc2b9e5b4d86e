/** All sessions by what they do: those that need a person come first. */
import type { Approval, Session, SessionMessage } from '@relay/sdk';
import { keepPreviousData, useQueries, useQuery } from '@tanstack/react-query';
import { Plus, Search, TriangleAlert } from 'lucide-react';
import { type ReactNode, Suspense, useState } from 'react';
import { Link } from 'wouter';
import { useMay } from '../../../api/account.tsx';
import { client } from '../../../api/client.ts';
import { mostPerStatus, sessionsWith } from '../../../api/sessions.ts';
import { SafeText } from '../../../text/safe-text.tsx';
import { Button } from '../../../ui/button.tsx';
import { cx } from '../../../ui/cx.ts';
import { Input, Select } from '../../../ui/form.tsx';
import { PageHeader } from '../../../ui/layout.tsx';
import { lazyPart } from '../../../ui/lazy-part.ts';
import { Empty, ErrorNotice, Loading } from '../../../ui/notice.tsx';
import { StatusBadge } from '../../../ui/state.tsx';
import { useFilters } from '../../../ui/use-filters.ts';
import { Ago, formatCost, formatCount } from '../../../ui/values.tsx';
import { columnOf, columns, sessionStatuses } from './columns.ts';
import { FirstSession } from './first-session.tsx';
import { activityOf } from '../session/timeline.ts';
import { HarnessIcon, kindOf, titleOf, ViewSwitch } from '../views.tsx';

const StartSession = lazyPart(async () => (await import('./start-session.tsx')).StartSession);

/** Cards of a column until all are asked for. */
const mostCards = 50;

export function Board() {
  const { search, setFilter, clearFilters } = useFilters();
  const [isStarting, setStarting] = useState(false);
  const mayRun = useMay('runs');
  const { sessions, isLoading, error, retry } = useAllSessions();
  const approvals = usePendingApprovals();
  const lastMessages = useLastMessages();
  const query = search.get('q') ?? '';
  const harness = search.get('harness') ?? '';
  const shown = sessions.filter(
    (session) => (harness === '' || session.harness === harness) && matches(session, query),
  );
  const harnesses = [...new Set(sessions.map((session) => session.harness))].toSorted();

  return (
    <>
      <PageHeader title="Sessions">
        <ViewSwitch view="board" />
        <label className="relative flex items-center">
          <Search aria-hidden size={14} className="absolute left-2 text-faint" />
          <Input
            type="search"
            aria-label="Find sessions"
            placeholder="Find a session"
            value={query}
            onChange={(event) => setFilter('q', event.target.value)}
            className="w-44! pl-7"
          />
        </label>
        <Select
          aria-label="Harness"
          value={harness}
          onChange={(event) => setFilter('harness', event.target.value)}
          className="w-36!"
        >
          <option value="">All harnesses</option>
          {[...new Set([...harnesses, ...(harness === '' ? [] : [harness])])].map((name) => (
            <option key={name}>{name}</option>
          ))}
        </Select>
        {mayRun ? (
          <Button kind="primary" onClick={() => setStarting(true)}>
            <Plus aria-hidden size={16} /> Start a session
          </Button>
        ) : null}
      </PageHeader>
      {isStarting ? (
        <Suspense>
          <StartSession onClose={() => setStarting(false)} harnesses={harnesses} />
        </Suspense>
      ) : null}
      {error === null ? null : (
        <ErrorNotice title="The sessions could not be loaded" error={error} onRetry={retry} />
      )}
      {isLoading ? <Loading /> : null}
      {!isLoading && error === null && sessions.length === 0 ? <FirstSession /> : null}
      {sessions.length > 0 && shown.length === 0 ? (
        <Empty
          title="No session matches"
          action={<Button onClick={clearFilters}>Show all sessions</Button>}
        >
          {sessions.length} sessions are hidden by the filters.
        </Empty>
      ) : null}
      {shown.length > 0 ? (
        <div className="min-h-0 flex-1 overflow-auto">
          <div className="grid gap-x-3 gap-y-4 p-3 min-[1100px]:h-full min-[1100px]:min-w-[1060px] min-[1100px]:grid-cols-5">
            {columns.map(({ column, title }) => (
              <BoardColumn
                key={column}
                title={title}
                sessions={shown.filter(({ status }) => columnOf(status) === column)}
              >
                {(session) => (
                  <Card
                    key={session.id}
                    session={session}
                    approvals={approvals.filter(({ sessionId }) => sessionId === session.id)}
                    lastMessage={lastMessages.find((message) => concerns(message, session))}
                  />
                )}
              </BoardColumn>
            ))}
          </div>
        </div>
      ) : null}
    </>
  );
}

/** One request per status: released sessions are many, and must not push out old ones that go on. */
function useAllSessions() {
  return useQueries({
    queries: sessionStatuses.map((status) => sessionsWith(status)),
    combine: (results) => ({
      sessions: results
        .flatMap(({ data = [] }) => data)
        .toSorted((a, b) => b.lastActiveAt.localeCompare(a.lastActiveAt)),
      isLoading: results.some(({ isPending, error }) => isPending && error === null),
      error: results.find(({ error }) => error !== null)?.error ?? null,
      retry: () => {
        for (const { error, refetch } of results) if (error !== null) void refetch();
      },
    }),
  });
}

function usePendingApprovals(): readonly Approval[] {
  const { data } = useQuery({
    queryKey: ['approvals', 'board'],
    queryFn: async ({ signal }) =>
      (await client.approvals.list({ status: 'pending', limit: 200 }, { signal }).page()).items,
    placeholderData: keepPreviousData,
  });
  return data ?? [];
}

/** Newest first. */
function useLastMessages(): readonly SessionMessage[] {
  const { data } = useQuery({
    queryKey: ['messages', 'board'],
    queryFn: async ({ signal }) =>
      (await client.messages.list({ limit: 200 }, { signal }).page()).items,
    placeholderData: keepPreviousData,
  });
  return data ?? [];
}

function concerns({ from, deliveries }: SessionMessage, { id }: Session): boolean {
  return from.id === id || deliveries.some(({ sessionId }) => sessionId === id);
}

function matches(session: Session, query: string): boolean {
  const words = query.toLowerCase().split(/\s+/);
  const { identity, labels, owner } = session;
  const text = [
    `@${identity.handle}`,
    identity.name,
    kindOf(session),
    session.status,
    owner,
    ...Object.entries(labels).map(([name, value]) => `${name}:${value}`),
  ]
    .join(' ')
    .toLowerCase();
  return words.every((word) => text.includes(word));
}

interface BoardColumnProps {
  readonly title: string;
  readonly sessions: readonly Session[];
  readonly children: (session: Session) => ReactNode;
}

function BoardColumn({ title, sessions, children }: BoardColumnProps) {
  const [isOpen, setOpen] = useState(false);
  const shown = isOpen ? sessions : sessions.slice(0, mostCards);
  const isCut = sessions.length >= mostPerStatus;
  return (
    <section
      aria-label={title}
      className={cx(
        'flex min-h-0 min-w-0 flex-col gap-2 min-[1100px]:flex',
        sessions.length === 0 && 'hidden',
      )}
    >
      <h2 className="flex items-center gap-2 px-1 text-sm font-semibold">
        {title}
        <span className="font-normal text-muted">
          {formatCount(sessions.length)}
          {isCut ? '+' : ''}
        </span>
      </h2>
      <div className="flex min-h-0 flex-col gap-2 min-[1100px]:overflow-y-auto min-[1100px]:rounded min-[1100px]:bg-sunken min-[1100px]:p-2 min-[1100px]:flex-1">
        {shown.map((session) => children(session))}
        {sessions.length === 0 ? <p className="py-6 text-center text-xs text-faint">None</p> : null}
        {shown.length < sessions.length ? (
          <Button onClick={() => setOpen(true)}>Show all {formatCount(sessions.length)}</Button>
        ) : null}
      </div>
    </section>
  );
}

interface CardProps {
  readonly session: Session;
  readonly approvals: readonly Approval[];
  readonly lastMessage: SessionMessage | undefined;
}

function Card({ session, approvals, lastMessage }: CardProps) {
  const { id, identity, status, queue, usage, stuck } = session;
  const title = titleOf(session);
  return (
    <Link
      href={`/sessions/${id}`}
      className="flex shrink-0 flex-col gap-1.5 rounded border border-line bg-surface p-3 hover:border-line-strong hover:bg-hover"
    >
      <span className="flex items-center gap-2">
        <HarnessIcon session={session} />
        <span className="min-w-0 flex-1 truncate font-medium" title={`@${identity.handle}`}>
          @<SafeText text={identity.handle} />
        </span>
      </span>
      {title === undefined ? null : (
        <span className="truncate text-sm">
          <SafeText text={title} />
        </span>
      )}
      <span className="flex items-center gap-2">
        <span className="min-w-0 flex-1 truncate text-xs text-muted">
          <SafeText text={kindOf(session)} />
        </span>
        <StatusBadge status={status} />
      </span>
      <Doing session={session} approvals={approvals} />
      {lastMessage === undefined ? null : (
        <span className="line-clamp-2 text-xs text-muted">
          <SafeText text={`${lastMessage.from.name}: `} />
          <SafeText text={firstLines(lastMessage.text)} />
        </span>
      )}
      <span className="flex flex-wrap items-center gap-x-3 text-xs text-faint">
        <Ago at={session.lastActiveAt} />
        {queue.length === 0 ? null : (
          <span className={cx(stuck && 'font-medium text-waiting')}>
            {queue.length} in the queue{stuck ? ', stuck' : ''}
          </span>
        )}
        {usage.costUsd === undefined ? null : <span>{formatCost(usage.costUsd)}</span>}
        {usage.tokens === 0 ? null : <span>{formatCount(usage.tokens)} tokens</span>}
      </span>
    </Link>
  );
}

function firstLines(text: string): string {
  return text.slice(0, 300).replaceAll(/\s+/g, ' ');
}

/** Why the session has its status, and which tool it uses. */
function Doing({ session, approvals }: Pick<CardProps, 'session' | 'approvals'>) {
  const { id, status, lastSeq } = session;
  const isOfInterest = status !== 'idle' && status !== 'released';
  const { data: activity } = useQuery({
    queryKey: ['session-activity', id, lastSeq],
    queryFn: async ({ signal }) => {
      const query = { after: Math.max(0, lastSeq - 40), limit: 40 };
      return activityOf((await client.sessions.events(id, query, { signal }).page()).items);
    },
    enabled: isOfInterest && approvals.length === 0,
    gcTime: 10_000,
    placeholderData: keepPreviousData,
  });
  if (!isOfInterest) return null;
  const [first] = approvals;
  if (first !== undefined) {
    const more = approvals.length === 1 ? '' : `, and ${approvals.length - 1} more`;
    return (
      <span className="flex items-start gap-1 text-sm text-waiting">
        <TriangleAlert aria-hidden size={14} className="mt-0.5 shrink-0" />
        <span className="min-w-0 break-words">
          {first.kind === 'question' ? 'Asks a question' : 'Waits for a decision on '}
          {first.kind === 'question' ? null : (
            <code className="font-mono text-xs">
              <SafeText text={first.tool} />
            </code>
          )}
          {more}
        </span>
      </span>
    );
  }
  if (activity?.tool === undefined && activity?.reason === undefined) return null;
  return (
    <span className="min-w-0 truncate text-sm">
      {activity.reason === undefined ? (
        <>
          Uses{' '}
          <code className="font-mono text-xs">
            <SafeText text={activity.tool ?? ''} />
          </code>
        </>
      ) : (
        <SafeText text={activity.reason} />
      )}
    </span>
  );
}
