/**
 * Sessions, kept up to date one by one: the feed names the session that has changed, and only that one is
 * read again. A terminal changes its session several times per second, so a session is read at most once
 * per `pauseMs`, and not at all while the page is hidden.
 */
import { RelayApiError, type AgentStatus, type Session } from '@relay/sdk';
import { useQuery } from '@tanstack/react-query';
import { client } from './client.ts';
import { onFeedEvent } from './feed.ts';
import { queries } from './queries.ts';

const pauseMs = 400;
/** The most of one status that a page shows. */
export const mostPerStatus = 200;

const listKey = (status: AgentStatus) => ['session-lists', status] as const;
const sessionKey = (id: string) => ['session', id] as const;

/** The newest sessions of a status, for `useQuery` and `useQueries`. */
export function sessionsWith(status: AgentStatus) {
  return {
    queryKey: listKey(status),
    queryFn: async ({ signal }: { readonly signal: AbortSignal }) => {
      const page = client.sessions.list({ status, limit: mostPerStatus }, { signal }).page();
      return (await page).items;
    },
    // The feed says what has changed.
    staleTime: Infinity,
  };
}

export function useSession(id: string) {
  return useQuery({
    queryKey: sessionKey(id),
    queryFn: ({ signal }) => client.sessions.get(id, { signal }),
    staleTime: Infinity,
  });
}

/** Puts a session that was read, or that a command has returned, into every list that shows it. */
export function sessionChanged(session: Session): void {
  const isOld = (known: Session | undefined) => (known?.lastSeq ?? 0) > session.lastSeq;
  queries.setQueryData<Session>(sessionKey(session.id), (known) =>
    isOld(known) ? known : session,
  );
  for (const [key, list] of queries.getQueriesData<readonly Session[]>({
    queryKey: ['session-lists'],
  })) {
    if (list === undefined) continue;
    const known = list.find(({ id }) => id === session.id);
    if (isOld(known)) continue;
    const others = list.filter(({ id }) => id !== session.id);
    if (key[1] === session.status) queries.setQueryData(key, [session, ...others]);
    else if (known !== undefined) queries.setQueryData(key, others);
  }
}

function sessionGone(gone: string): void {
  queries.setQueriesData<readonly Session[]>({ queryKey: ['session-lists'] }, (list) =>
    list?.filter(({ id }) => id !== gone),
  );
  // The page of the session shows that there is none any more.
  void queries.invalidateQueries({ queryKey: sessionKey(gone) });
}

/** Sessions that have changed since they were read. */
const due = new Set<string>();
/** Sessions that were read a moment ago, or are being read. */
const resting = new Set<string>();

onFeedEvent((event) => {
  if (event.kind !== 'session') return;
  due.add(event.id);
  readDue();
});
document.addEventListener('visibilitychange', readDue);

function readDue(): void {
  if (document.hidden) return;
  for (const id of due) {
    if (resting.has(id)) continue;
    due.delete(id);
    resting.add(id);
    void read(id).finally(() =>
      setTimeout(() => {
        resting.delete(id);
        readDue();
      }, pauseMs),
    );
  }
}

async function read(id: string): Promise<void> {
  try {
    sessionChanged(await client.sessions.get(id));
  } catch (error) {
    if (error instanceof RelayApiError && error.status === 404) sessionGone(id);
    // Otherwise the feed reports everything as changed when the server is back.
  }
}
