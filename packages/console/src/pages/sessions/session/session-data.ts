/** What the page of a session reads besides its journal. */
import type { Delivery, Session, SessionMessage } from '@relay/sdk';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { client } from '../../../api/client.ts';

const most = 200;

/** The newest messages that the session has sent or received, by id. */
export function useSessionMessages({ id, identity }: Session): ReadonlyMap<string, SessionMessage> {
  const { data } = useQuery({
    queryKey: ['session-messages', id],
    queryFn: async ({ signal }) => {
      const query = { with: identity.handle, limit: most };
      const { items } = await client.messages.list(query, { signal }).page();
      return new Map(items.map((message) => [message.id, message]));
    },
    placeholderData: keepPreviousData,
  });
  return data ?? noMessages;
}

const noMessages: ReadonlyMap<string, SessionMessage> = new Map();
const noDeliveries: ReadonlyMap<string, Delivery> = new Map();

/** One message: older ones than the list has. */
export function useMessage(id: string, known: SessionMessage | undefined) {
  const { data, error } = useQuery({
    queryKey: ['message', id],
    queryFn: ({ signal }) => client.messages.get(id, { signal }),
    enabled: known === undefined,
  });
  return { message: known ?? data, error };
}

/** The newest deliveries to the session, by message. */
export function useDeliveries(sessionId: string): ReadonlyMap<string, Delivery> {
  const { data } = useQuery({
    queryKey: ['deliveries', sessionId],
    queryFn: async ({ signal }) => {
      const { items } = await client.deliveries.list({ sessionId, limit: most }, { signal }).page();
      return new Map(items.map((delivery) => [delivery.messageId, delivery]));
    },
    placeholderData: keepPreviousData,
  });
  return data ?? noDeliveries;
}

/** What waits, the oldest first. */
export function useQueue(sessionId: string) {
  return useQuery({
    queryKey: ['deliveries', sessionId, 'queue'],
    queryFn: async ({ signal }) => {
      const pages = await Promise.all(
        (['accepted', 'deferred'] as const).map((status) =>
          client.deliveries.list({ sessionId, status, limit: most }, { signal }).page(),
        ),
      );
      return pages
        .flatMap(({ items }) => items)
        .toSorted((a, b) => a.acceptedAt.localeCompare(b.acceptedAt));
    },
    placeholderData: keepPreviousData,
  });
}

export function usePendingApprovals(sessionId: string) {
  const { data } = useQuery({
    queryKey: ['approvals', 'session', sessionId],
    queryFn: async ({ signal }) => {
      const query = { status: 'pending', sessionId, limit: most } as const;
      return (await client.approvals.list(query, { signal }).page()).items;
    },
    placeholderData: keepPreviousData,
  });
  return data ?? [];
}
