/** The conversations of the tenant, the one with the latest message first. */
import type { Conversation } from '@relay/sdk';
import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query';
import { VList } from 'virtua';
import { Link, useSearchParams } from 'wouter';
import { client } from '../../api/client.ts';
import { SafeText } from '../../text/safe-text.tsx';
import { Button } from '../../ui/button.tsx';
import { cx } from '../../ui/cx.ts';
import { Input } from '../../ui/form.tsx';
import { Empty, ErrorNotice, Loading } from '../../ui/notice.tsx';
import { lookOf, toneText } from '../../ui/state.tsx';
import { Time } from '../../ui/values.tsx';

export function Conversations({ open }: { readonly open: string | undefined }) {
  const [params, setParams] = useSearchParams();
  const q = params.get('q') ?? '';
  const { data, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery(
    {
      queryKey: ['conversations', 'list', q],
      queryFn: ({ pageParam, signal }) =>
        client.conversations
          .list(q.trim() === '' ? {} : { q: q.trim() }, { signal })
          .page(pageParam),
      initialPageParam: undefined as string | undefined,
      getNextPageParam: ({ nextCursor }) => nextCursor ?? undefined,
      placeholderData: keepPreviousData,
    },
  );
  const found = [
    ...new Map(
      (data?.pages ?? []).flatMap(({ items }) => items.map((item) => [item.id, item] as const)),
    ).values(),
  ];
  const search = q === '' ? '' : `?q=${encodeURIComponent(q)}`;
  return (
    <>
      <div className="border-b border-line p-2">
        <Input
          type="search"
          aria-label="Search conversations"
          placeholder="Search conversations"
          maxLength={200}
          value={q}
          onChange={(event) =>
            setParams(
              (before) => {
                const next = new URLSearchParams(before);
                if (event.target.value === '') next.delete('q');
                else next.set('q', event.target.value);
                return next;
              },
              { replace: true },
            )
          }
        />
      </div>
      {data === undefined ? (
        error === null ? (
          <Loading />
        ) : (
          <ErrorNotice
            title="The conversations could not be loaded"
            error={error}
            onRetry={() => void refetch()}
          />
        )
      ) : found.length === 0 ? (
        <Empty title={q === '' ? 'No conversations yet' : 'Nothing was found'}>
          {q === ''
            ? 'Every conversation with an agent is kept here, also those that programs start.'
            : 'Only the beginning of a conversation is searched.'}
        </Empty>
      ) : (
        <VList className="min-h-0 flex-1" itemSize={56}>
          {found.map((conversation) => (
            <ConversationLink
              key={conversation.id}
              conversation={conversation}
              isOpen={conversation.id === open}
              search={search}
            />
          ))}
          {hasNextPage ? (
            <div className="flex justify-center p-3">
              <Button size="sm" disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
                Load more
              </Button>
            </div>
          ) : null}
        </VList>
      )}
    </>
  );
}

interface ConversationLinkProps {
  readonly conversation: Conversation;
  readonly isOpen: boolean;
  readonly search: string;
}

function ConversationLink({ conversation, isOpen, search }: ConversationLinkProps) {
  const { id, title, agent, status, updatedAt } = conversation;
  const { icon: Icon, tone, label } = lookOf(status);
  return (
    <Link
      href={`/chat/${id}${search}`}
      aria-current={isOpen ? 'page' : undefined}
      className={cx(
        'flex h-14 flex-col justify-center gap-0.5 border-b border-line px-3 -outline-offset-2',
        isOpen ? 'bg-selected' : 'hover:bg-hover',
      )}
    >
      <span className="truncate text-sm font-medium" dir="auto">
        <SafeText text={title ?? 'Without text'} maxLength={200} />
      </span>
      <span className="flex items-center gap-2 text-xs text-muted">
        <span className={cx('inline-flex shrink-0 items-center gap-1', toneText[tone])}>
          <Icon aria-hidden size={12} /> {label}
        </span>
        <span className="min-w-0 truncate">
          <SafeText text={agent} maxLength={100} />
        </span>
        <span className="ml-auto shrink-0">
          <Time at={updatedAt} />
        </span>
      </span>
    </Link>
  );
}
