/** The runs of a conversation with their journals: pages of runs from the newest back, each run followed. */
import type { Run } from '@relay/protocol/wire';
import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query';
import { useEffect, useMemo, useState, useSyncExternalStore } from 'react';
import { client } from '../../api/client.ts';
import { onFeedEvent } from '../../api/feed.ts';
import { type JournalState, RunJournal } from '../../transcript/journal.ts';

const runsPerPage = 20;

/** Oldest first. */
export function useConversationRuns(conversationId: string) {
  const query = useInfiniteQuery({
    queryKey: ['runs', 'conversation', conversationId],
    queryFn: ({ pageParam, signal }) =>
      client.runs.list({ conversationId, limit: runsPerPage }, { signal }).page(pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ nextCursor }) => nextCursor ?? undefined,
    placeholderData: keepPreviousData,
  });
  const runs = useMemo(() => {
    const all = new Map<string, Run>();
    for (const { items } of query.data?.pages ?? []) for (const run of items) all.set(run.id, run);
    return [...all.values()].toReversed();
  }, [query.data]);
  return { ...query, runs };
}

type Journals = ReadonlyMap<string, JournalState>;

/** The journals of several runs. One that could not be read is read again when the server is back. */
class JournalSet {
  readonly #journals = new Map<string, RunJournal>();
  readonly #watchers = new Set<() => void>();
  #states: Journals = new Map();

  readonly subscribe = (watcher: () => void): (() => void) => {
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  };

  readonly states = (): Journals => this.#states;

  read(runs: readonly Run[]): void {
    // What a reader sees first is read first.
    for (const run of runs.toReversed()) {
      if (this.#journals.has(run.id)) continue;
      const journal = new RunJournal(run.id, run.lastSeq);
      this.#journals.set(run.id, journal);
      journal.subscribe(() => this.#publish(run.id, journal.getState()));
      journal.start();
    }
  }

  retry(): void {
    for (const journal of this.#journals.values()) {
      if (journal.getState().error !== undefined) journal.start();
    }
  }

  stop(): void {
    for (const journal of this.#journals.values()) journal.stop();
    this.#journals.clear();
  }

  #publish(id: string, state: JournalState): void {
    this.#states = new Map(this.#states).set(id, state);
    for (const watcher of this.#watchers) watcher();
  }
}

const none: Journals = new Map();
const noJournals = { subscribe: () => () => undefined, states: () => none };

export function useJournals(runs: readonly Run[]): {
  readonly journals: Journals;
  readonly retry: () => void;
} {
  const [set, setSet] = useState<JournalSet>();
  useEffect(() => {
    const started = new JournalSet();
    setSet(started);
    const stopListening = onFeedEvent(({ kind }) => {
      if (kind === 'connected') started.retry();
    });
    return () => {
      stopListening();
      started.stop();
    };
  }, []);
  useEffect(() => set?.read(runs), [set, runs]);
  const { subscribe, states } = set ?? noJournals;
  return { journals: useSyncExternalStore(subscribe, states), retry: () => set?.retry() };
}
