/** One conversation: the transcripts of its runs, and the next message. */
import { type Conversation as ConversationInfo, RelayApiError, type Run } from '@relay/sdk';
import { useMutation, useQuery } from '@tanstack/react-query';
import { type ReactNode, useEffect, useMemo, useState } from 'react';
import { Link } from 'wouter';
import { useAccount, useMay } from '../../api/account.tsx';
import { client } from '../../api/client.ts';
import { Person } from '../../api/people.tsx';
import type { JournalState } from '../../transcript/journal.ts';
import { Button, buttonClass } from '../../ui/button.tsx';
import { Empty, ErrorNotice, errorText, Loading } from '../../ui/notice.tsx';
import { TailList } from '../../ui/tail-list.tsx';
import { toast } from '../../ui/toast.tsx';
import type { Choice } from './choice.ts';
import { Composer } from './composer.tsx';
import { useConversationRuns, useJournals } from './conversation-runs.ts';
import { removeSent, sendMessage, sendToRun, type Sent, useSent } from './outbox.ts';
import { ChatRowView, type RowActions } from './row.tsx';
import { chatRows, inputOf, isCanceled, isStored, isUnread, shownRuns } from './rows.ts';

export function Conversation({ id }: { readonly id: string }) {
  const { runs, data, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } =
    useConversationRuns(id);
  const { journals, retry } = useJournals(runs);
  const allSent = useSent();
  const sent = useMemo(
    () => allSent.filter(({ conversationId }) => conversationId === id),
    [allSent, id],
  );
  const [toggled, setToggled] = useState<ReadonlySet<string>>(new Set());
  const [sends, setSends] = useState(0);
  const rows = useMemo(
    () => chatRows({ runs, journals, sent, toggled }),
    [runs, journals, sent, toggled],
  );
  useEffect(() => {
    // What a journal has is no longer on its way.
    const stored = sent.filter((each) => isStored(each, runs, journals));
    // The answer was complete before these were read: they continue the conversation.
    const unread = sent.filter(
      (each) =>
        !stored.includes(each) && isUnread(each, journals) && !isCanceled(each.to, journals),
    );
    removeSent([...stored, ...unread].map(({ key }) => key));
    const earlier = new Set(runs.map((run) => run.id));
    for (const each of unread) void sendMessage(each, earlier);
  }, [sent, runs, journals]);
  const isSending = sent.length > 0;
  useEffect(() => {
    if (!isSending) return undefined;
    // The page is the only one that knows of them.
    const ask = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener('beforeunload', ask);
    return () => removeEventListener('beforeunload', ask);
  }, [isSending]);

  const last = runs.at(-1);
  const lastJournal = last === undefined ? undefined : journals.get(last.id);
  const active = last !== undefined && isGoing(last, lastJournal) ? last : undefined;
  const stop = useMutation({
    mutationFn: (run: Run) => client.runs.cancel(run.id),
    onError: (problem) => toast(`It was not stopped: ${errorText(problem)}`, 'error'),
  });
  const earlier = () => new Set(runs.map((run) => run.id));
  const send = (content: Sent['content'], choice: Choice) => {
    setSends((count) => count + 1);
    const message = { conversationId: id, ...choice };
    if (active !== undefined && typeof content === 'string') {
      void sendToRun({ ...message, content }, active.id);
    } else void sendMessage({ ...message, content }, earlier());
  };
  const actions: RowActions = {
    toggle: (key) =>
      setToggled((before) => {
        const next = new Set(before);
        if (!next.delete(key)) next.add(key);
        return next;
      }),
    retry:
      active === undefined
        ? (run) => {
            const journal = journals.get(run.id);
            const content = journal === undefined ? undefined : inputOf(journal);
            if (content !== undefined) send(content, { agent: run.agent, model: run.model });
          }
        : undefined,
    resend: ({ key, content, agent, model }) => {
      removeSent([key]);
      send(content, { agent, model });
    },
  };

  const shown = shownRuns(runs, journals);
  const failed = [...journals.values()].find((journal) => journal.error !== undefined);
  if (data === undefined && sent.length === 0) {
    return error === null ? (
      <Loading />
    ) : (
      <ErrorNotice
        title="The conversation could not be loaded"
        error={error}
        onRetry={() => void refetch()}
      />
    );
  }
  if (data !== undefined && runs.length === 0 && sent.length === 0) {
    return (
      <Empty
        title="This conversation was not found"
        action={
          <Link href="/chat/new" className={buttonClass('primary')}>
            New chat
          </Link>
        }
      >
        There is no conversation with this id, or it belongs to another tenant.
      </Empty>
    );
  }
  return (
    <>
      <div className="min-h-0 flex-1">
        {rows.length === 0 && failed === undefined ? <Loading /> : null}
        <TailList
          label="Conversation"
          items={rows}
          keyOf={({ key }) => key}
          endLabel={active === undefined ? 'To the end' : 'New messages'}
          showEnd={sends}
          top={
            <Column>
              <div className="flex min-h-4 justify-center py-2">
                {hasNextPage || shown.length < runs.length - 1 ? (
                  <Button
                    size="sm"
                    disabled={isFetchingNextPage || !hasNextPage}
                    onClick={() => void fetchNextPage()}
                  >
                    {hasNextPage && !isFetchingNextPage ? 'Load older messages' : 'Loading …'}
                  </Button>
                ) : null}
              </div>
            </Column>
          }
        >
          {(row) => (
            <Column rowKey={row.key}>
              <ChatRowView row={row} actions={actions} />
            </Column>
          )}
        </TailList>
      </div>
      {failed === undefined ? null : (
        <ErrorNotice
          title="A part of the conversation could not be loaded"
          error={failed.error}
          onRetry={retry}
        />
      )}
      <Writer
        id={id}
        choice={choiceOf(last, lastJournal)}
        status={statusOf(active, lastJournal)}
        onSend={send}
        running={
          active === undefined
            ? undefined
            : {
                stop: () => stop.mutate(active),
                isStopping: stop.isPending || (stop.isSuccess && stop.variables.id === active.id),
              }
        }
      />
    </>
  );
}

interface ColumnProps {
  readonly rowKey?: string;
  readonly children: ReactNode;
}

function Column({ rowKey, children }: ColumnProps) {
  return (
    <div data-row={rowKey} className="mx-auto w-full max-w-[860px] px-3 sm:px-4">
      {children}
    </div>
  );
}

/** The list of runs may be older or newer than the journal. */
function isGoing(run: Run, journal: JournalState | undefined): boolean {
  return run.endedAt === undefined && journal?.fold.timeline.isOver !== true;
}

/** The next message goes to the agent that has answered last. */
function choiceOf(run: Run | undefined, journal: JournalState | undefined): Choice {
  const items = journal?.fold.transcript.items ?? [];
  const item = items.findLast(
    (each) => each.kind === 'note' && each.event.type === 'agent.switched',
  );
  if (item?.kind === 'note' && item.event.type === 'agent.switched') {
    return { agent: item.event.name, model: item.event.model };
  }
  return { agent: run?.agent, model: run?.model };
}

function statusOf(active: Run | undefined, journal: JournalState | undefined): string | undefined {
  if (active === undefined || journal === undefined) return undefined;
  const { disconnection, fold } = journal;
  if (disconnection !== undefined && disconnection.until === undefined) {
    return 'Reconnecting … Nothing is lost: the run goes on by itself.';
  }
  return fold.timeline.isSuspended
    ? 'The agent waits. You can close this page: nothing is lost.'
    : undefined;
}

interface WriterProps {
  readonly id: string;
  readonly choice: Choice;
  readonly status: string | undefined;
  readonly onSend: (content: Sent['content'], choice: Choice) => void;
  readonly running: { readonly stop: () => void; readonly isStopping: boolean } | undefined;
}

/** The composer, or why nothing can be written here. */
function Writer({ id, choice, status, onSend, running }: WriterProps) {
  const mayRun = useMay('runs');
  const isAdmin = useMay('admin');
  const { data: account } = useAccount();
  const { data: info } = useQuery({
    queryKey: ['conversations', 'one', id],
    queryFn: async ({ signal }) => {
      try {
        return await client.conversations.get(id, { signal });
      } catch (error) {
        // It is stored with its first run.
        if (error instanceof RelayApiError && error.status === 404) return null;
        throw error;
      }
    },
  });
  const persons = account === undefined ? [] : [account.owner, account.id, account.parent];
  const isForeign =
    !isAdmin && info !== undefined && info !== null && !persons.includes(info.owner);
  if (!mayRun) {
    return (
      <NoComposer>
        You can read here, but not write: your key does not have the scope runs.
      </NoComposer>
    );
  }
  if (info?.sessionId !== undefined) return <OfSession info={info} />;
  if (isForeign) {
    return (
      <NoComposer>
        This conversation belongs to <Person id={info.owner} />. Only they and administrators can
        continue it.
      </NoComposer>
    );
  }
  return (
    <Composer
      draftKey={id}
      choice={choice}
      status={status}
      onSend={onSend}
      running={running}
      isFocused
    />
  );
}

function OfSession({ info: { sessionId } }: { readonly info: ConversationInfo }) {
  return (
    <NoComposer>
      These are the turns of a session.{' '}
      <Link href={`/sessions/${sessionId}`} className="text-working underline">
        Write to it in Sessions
      </Link>
    </NoComposer>
  );
}

function NoComposer({ children }: { readonly children: ReactNode }) {
  return <p className="border-t border-line bg-surface p-4 text-sm text-muted">{children}</p>;
}
