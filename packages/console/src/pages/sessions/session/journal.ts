/**
 * The journal of a session on a page. New events are read when the feed says that the session has changed,
 * so that a page needs no stream for them.
 */
import { useEffect, useMemo, useSyncExternalStore } from 'react';
import { client } from '../../../api/client.ts';
import { onFeedEvent } from '../../../api/feed.ts';
import { JournalReader, type JournalState } from './journal-reader.ts';

export interface Journal extends JournalState {
  readonly loadOlder: (size?: number) => void;
  readonly retry: () => void;
}

/** The journal of a session, live while the page is visible. */
export function useJournal(sessionId: string): Journal {
  const reader = useMemo(
    () =>
      new JournalReader(async (after, limit) => {
        const query = after === undefined ? { limit } : { after, limit };
        const { items, session } = await client.sessions.events(sessionId, query).page();
        return { events: items, lastSeq: session.lastSeq };
      }),
    [sessionId],
  );
  useEffect(() => {
    const update = () => {
      if (!document.hidden) void reader.update();
    };
    update();
    document.addEventListener('visibilitychange', update);
    const unsubscribe = onFeedEvent((event) => {
      if (event.kind === 'session' && event.id !== sessionId) return;
      if (event.kind === 'session' || event.kind === 'connected' || event.kind === 'all') update();
    });
    return () => {
      document.removeEventListener('visibilitychange', update);
      unsubscribe();
    };
  }, [reader, sessionId]);
  const state = useSyncExternalStore(reader.subscribe, () => reader.state);
  return useMemo(
    () => ({
      ...state,
      loadOlder: (size) => void reader.loadOlder(size),
      retry: () => void reader.update(),
    }),
    [reader, state],
  );
}
