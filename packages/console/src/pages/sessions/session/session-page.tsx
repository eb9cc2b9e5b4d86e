/** One session: what is said in it, what waits, what it has done, and what can be done with it. */
import { escapeMisleading } from '@relay/protocol/display';
import { RelayApiError, type Approval, type Session } from '@relay/sdk';
import { ArrowLeft, Hand } from 'lucide-react';
import { type ReactNode, Suspense, useState } from 'react';
import { Link, useSearchParams } from 'wouter';
import { useMay } from '../../../api/account.tsx';
import { useSession } from '../../../api/sessions.ts';
import { SafeText } from '../../../text/safe-text.tsx';
import { Button } from '../../../ui/button.tsx';
import { cx } from '../../../ui/cx.ts';
import { lazyPart } from '../../../ui/lazy-part.ts';
import { Empty, ErrorNotice, Loading } from '../../../ui/notice.tsx';
import { StatusBadge } from '../../../ui/state.tsx';
import { formatCost, formatCount } from '../../../ui/values.tsx';
import { hasTerminal } from '../abilities.ts';
import { Capabilities } from './capabilities.tsx';
import { Conversation } from './conversation.tsx';
import { Events } from './events.tsx';
import { Files } from './files.tsx';
import { type Journal, useJournal } from './journal.ts';
import { Queue } from './queue.tsx';
import { usePendingApprovals } from './session-data.ts';
import { activityOf } from './timeline.ts';
import { HarnessIcon, kindOf, titleOf } from '../views.tsx';

const Terminal = lazyPart(async () => (await import('../terminal/terminal.tsx')).Terminal);
const InlineApproval = lazyPart(
  async () => (await import('../../inbox/inline-approval.tsx')).InlineApproval,
);
const Lifecycle = lazyPart(async () => (await import('./lifecycle.tsx')).Lifecycle);

const tabs = ['terminal', 'conversation', 'queue', 'files', 'events', 'capabilities'] as const;
type Tab = (typeof tabs)[number];

export function SessionPage({ id }: { readonly id: string }) {
  const { data: session, error, refetch } = useSession(id);
  if (session !== undefined) return <Page session={session} />;
  if (error === null) return <Loading />;
  if (error instanceof RelayApiError && error.status === 404) {
    return (
      <Empty
        title="There is no such session"
        action={
          <Link href="/sessions" className="underline">
            All sessions
          </Link>
        }
      >
        It may have been deleted, or belong to another tenant.
      </Empty>
    );
  }
  return (
    <ErrorNotice
      title="The session could not be loaded"
      error={error}
      onRetry={() => void refetch()}
    />
  );
}

function Page({ session }: { readonly session: Session }) {
  const [search] = useSearchParams();
  const journal = useJournal(session.id);
  const approvals = usePendingApprovals(session.id);
  const isTerminal = hasTerminal(session);
  const offered = tabs.filter((tab) => tab !== 'terminal' || isTerminal);
  const tab = offered.find((each) => each === search.get('tab')) ?? offered[0] ?? 'conversation';
  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <Header session={session} journal={journal} />
      {approvals.length === 0 ? null : <Decisions approvals={approvals} />}
      <nav
        aria-label="Parts of the session"
        className="flex shrink-0 gap-1 overflow-x-auto border-b border-line px-3"
      >
        {offered.map((each) => (
          <TabLink key={each} session={session} tab={each} isHere={each === tab} />
        ))}
      </nav>
      <Suspense fallback={<Loading />}>{partOf(tab, session, journal)}</Suspense>
    </div>
  );
}

function partOf(tab: Tab, session: Session, journal: Journal): ReactNode {
  switch (tab) {
    case 'terminal':
      return <Terminal session={session} />;
    case 'conversation':
      return <Conversation session={session} journal={journal} />;
    case 'queue':
      return <Queue session={session} />;
    case 'files':
      return <Files session={session} journal={journal} />;
    case 'events':
      return <Events journal={journal} />;
    case 'capabilities':
      return <Capabilities session={session} />;
  }
}

const tabNames: Readonly<Record<Tab, string>> = {
  terminal: 'Terminal',
  conversation: 'Conversation',
  queue: 'Queue',
  files: 'Files',
  events: 'Events',
  capabilities: 'Capabilities',
};

interface TabLinkProps {
  readonly session: Session;
  readonly tab: Tab;
  readonly isHere: boolean;
}

function TabLink({ session, tab, isHere }: TabLinkProps) {
  const count = tab === 'queue' ? session.queue.length : 0;
  return (
    <Link
      href={`/sessions/${session.id}?tab=${tab}`}
      aria-current={isHere ? 'page' : undefined}
      className={cx(
        '-mb-px flex h-9 items-center gap-1.5 border-b-2 px-2.5 text-sm whitespace-nowrap pointer-coarse:h-11',
        isHere
          ? 'border-solid font-medium text-text'
          : 'border-transparent text-muted hover:text-text',
      )}
    >
      {tabNames[tab]}
      {count === 0 ? null : (
        <span className="rounded-full bg-waiting-soft px-1.5 text-xs font-semibold text-waiting">
          {count}
        </span>
      )}
    </Link>
  );
}

function Header({ session, journal }: { readonly session: Session; readonly journal: Journal }) {
  const { identity, status, usage, stuck } = session;
  const { tool, reason } = activityOf(journal.events.slice(-100));
  const title = titleOf(session);
  const doing = reason ?? (status === 'active' && tool !== undefined ? `Uses ${tool}` : undefined);
  return (
    <header className="flex shrink-0 flex-wrap items-center gap-x-3 gap-y-1 border-b border-line px-4 py-2">
      <Link
        href="/sessions"
        aria-label="All sessions"
        title="All sessions"
        className="-ml-1 rounded p-1 text-muted hover:bg-hover hover:text-text pointer-coarse:p-3"
      >
        <ArrowLeft aria-hidden size={16} />
      </Link>
      <HarnessIcon session={session} />
      <h1 className="min-w-0 truncate text-lg font-semibold">
        @<SafeText text={identity.handle} />
      </h1>
      <StatusBadge status={status} />
      {doing === undefined ? null : (
        <span
          className="min-w-0 max-w-md truncate text-sm text-muted"
          title={escapeMisleading(doing)}
        >
          <SafeText text={doing} />
        </span>
      )}
      {stuck ? (
        <span
          className="text-sm text-waiting"
          title="A message has waited for more than 60 seconds although the session could take it"
        >
          Stuck
        </span>
      ) : null}
      <div className="ml-auto flex flex-wrap items-center gap-2">
        <Suspense>
          <Lifecycle session={session} />
        </Suspense>
      </div>
      <p className="flex w-full flex-wrap gap-x-3 text-xs text-muted">
        {title === undefined ? null : (
          <span className="text-text">
            <SafeText text={title} />
          </span>
        )}
        <SafeText text={kindOf(session)} />
        {usage.tokens === 0 ? null : <span>{formatCount(usage.tokens)} tokens</span>}
        {usage.costUsd === undefined ? null : <span>{formatCost(usage.costUsd)}</span>}
        {session.activeRunId === undefined ? null : (
          <Link href={`/runs/${session.activeRunId}`} className="underline">
            The run of this turn
          </Link>
        )}
      </p>
    </header>
  );
}

/**
 * A decision must never be missed: it stands above everything else of the session. A phone has no room for
 * both the requests and the session, so there they are opened.
 */
function Decisions({ approvals }: { readonly approvals: readonly Approval[] }) {
  const mayDecide = useMay('approve');
  const [isOpen, setOpen] = useState(false);
  return (
    <div className="shrink-0 border-b border-line bg-waiting-soft px-4 py-2 text-sm">
      <p role="status" className="flex items-center gap-2 font-medium text-waiting">
        <Hand aria-hidden size={16} />
        {mayDecide ? 'This session waits for your decision' : 'This session waits for a decision'}
        <Button
          size="sm"
          className="ml-auto sm:hidden"
          aria-expanded={isOpen}
          onClick={() => setOpen(!isOpen)}
        >
          {isOpen ? 'Hide' : 'Show'}
        </Button>
      </p>
      <div
        className={cx(
          'mt-2 flex max-h-[45vh] flex-col gap-2 overflow-y-auto text-text max-sm:max-h-[60vh]',
          !isOpen && 'max-sm:hidden',
        )}
      >
        <Suspense fallback={<Loading lines={3} />}>
          {approvals.map(({ id }) => (
            <InlineApproval key={id} id={id} />
          ))}
        </Suspense>
      </div>
    </div>
  );
}
