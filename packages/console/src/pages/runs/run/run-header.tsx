/** What a run is: its state, its numbers, what it belongs to, and what can be done with it. */
import type { Run } from '@relay/protocol/wire';
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { client } from '../../../api/client.ts';
import { Person } from '../../../api/people.tsx';
import { SafeText } from '../../../text/safe-text.tsx';
import { Badge, StatusBadge } from '../../../ui/state.tsx';
import { formatCost, formatCount, Id, shortId, Time } from '../../../ui/values.tsx';
import { Duration } from '../list/duration.tsx';
import { inputText } from '../list/run-filter.ts';
import type { JournalState } from '../../../transcript/journal.ts';
import { RunActions } from './run-actions.tsx';

interface RunHeaderProps {
  readonly run: Run;
  readonly journal: JournalState | undefined;
  readonly cursor: number;
}

export function RunHeader({ run, journal, cursor }: RunHeaderProps) {
  const created = journal?.fold.at(1);
  const sessionId = created?.type === 'run.created' ? created.sessionId : undefined;
  const { input_tokens: inputTokens, output_tokens: outputTokens } = run.usage;
  return (
    <header className="border-b border-line px-4 py-2">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <StatusBadge status={run.status} />
        <h1 className="min-w-0 flex-1 basis-40 truncate text-lg font-semibold">
          <SafeText text={inputText(run)} />
        </h1>
        <RunActions run={run} journal={journal} cursor={cursor} />
      </div>
      <dl className="mt-1 flex flex-wrap gap-x-4 gap-y-1 text-xs text-muted max-md:flex-nowrap max-md:overflow-x-auto">
        <Fact name="Run">
          <Id id={run.id} label="run id" />
        </Fact>
        <Fact name="Agent">{run.agent}</Fact>
        <Fact name="Model">{run.model}</Fact>
        <Fact name="Started">
          <Time at={run.createdAt} />
        </Fact>
        <Fact name="By">
          <Person id={run.owner} />
        </Fact>
        <Fact name="Duration">
          <Duration run={run} />
        </Fact>
        <Fact name="Tokens">
          {formatCount(inputTokens)} in, {formatCount(outputTokens)} out
        </Fact>
        {run.costUsd === undefined ? null : <Fact name="Cost">{formatCost(run.costUsd)}</Fact>}
        <Fact name="Conversation">
          <Link href={`/runs?conversation=${run.conversationId}`} className="font-mono underline">
            {shortId(run.conversationId)}
          </Link>
        </Fact>
        {sessionId === undefined ? null : (
          <Fact name="Session">
            <Link href={`/sessions/${sessionId}`} className="font-mono underline">
              {shortId(sessionId)}
            </Link>
          </Fact>
        )}
        {run.parentRunId === undefined ? null : (
          <Fact name={run.forkedFrom === undefined ? 'Parent run' : 'Forked from'}>
            <Link
              href={`/runs/${run.parentRunId}${run.forkedFrom === undefined ? '' : `?seq=${run.forkedFrom.seq}`}`}
              className="font-mono underline"
            >
              {shortId(run.parentRunId)}
            </Link>
          </Fact>
        )}
        <ChildRuns run={run} />
        {Object.entries(run.labels).map(([name, value]) => (
          <Fact key={name} name="Label">
            <Link href={`/runs?label=${encodeURIComponent(`${name}:${value}`)}`}>
              <Badge tone="ended">
                <SafeText text={`${name}: ${value}`} />
              </Badge>
            </Link>
          </Fact>
        ))}
        <PendingApprovals run={run} />
      </dl>
      {run.error === undefined ? null : (
        <p className="mt-1 text-sm break-words text-failed">
          <SafeText text={run.error.message} maxLength={600} />
        </p>
      )}
    </header>
  );
}

function Fact({ name, children }: { readonly name: string; readonly children: ReactNode }) {
  return (
    <div className="flex items-center gap-1 whitespace-nowrap">
      <dt className="text-faint">{name}</dt>
      <dd className="text-text">{children}</dd>
    </div>
  );
}

/** Its forks, and the runs that name it as their parent. */
function ChildRuns({ run }: { readonly run: Run }) {
  const { data } = useQuery({
    queryKey: ['runs', 'of-parent', run.id],
    queryFn: ({ signal }) => client.runs.list({ parentRunId: run.id, limit: 5 }, { signal }).page(),
  });
  if (data === undefined || data.items.length === 0) return null;
  return (
    <Fact name={data.items.length === 1 ? 'Child run' : 'Child runs'}>
      <span className="flex gap-2">
        {data.items.map(({ id, status }) => (
          <Link key={id} href={`/runs/${id}`} title={status} className="font-mono underline">
            {shortId(id)}
          </Link>
        ))}
        {data.nextCursor === null ? '' : '…'}
      </span>
    </Fact>
  );
}

/** The way from a run that waits to the decision. */
function PendingApprovals({ run }: { readonly run: Run }) {
  const { data } = useQuery({
    queryKey: ['approvals', 'of-run', run.id],
    queryFn: ({ signal }) =>
      client.approvals.list({ status: 'pending', runId: run.id }, { signal }).page(),
    enabled: run.status === 'waiting' || run.status === 'running',
  });
  const [first] = data?.items ?? [];
  if (first === undefined || data === undefined) return null;
  const count = data.items.length;
  return (
    <div>
      <dt className="sr-only">Approvals</dt>
      <dd>
        <Link href={`/inbox/${first.id}`} className="font-medium text-waiting underline">
          Waits for {count} {count === 1 ? 'approval' : 'approvals'}
        </Link>
      </dd>
    </div>
  );
}
