/** Channels: each member receives what is sent there. */
import type { Channel, Delivery, SessionMessage } from '@relay/sdk';
import {
  keepPreviousData,
  useInfiniteQuery,
  useMutation,
  useQueries,
  useQuery,
} from '@tanstack/react-query';
import { Hash, MessageSquare, Plus, X } from 'lucide-react';
import { type FormEvent, useMemo, useState } from 'react';
import { Link, useLocation, useSearchParams } from 'wouter';
import { useMay } from '../../../api/account.tsx';
import { client } from '../../../api/client.ts';
import { queries } from '../../../api/queries.ts';
import { sessionsWith } from '../../../api/sessions.ts';
import { SafeText } from '../../../text/safe-text.tsx';
import { Button, IconButton } from '../../../ui/button.tsx';
import { cx } from '../../../ui/cx.ts';
import { Field, Input, Select } from '../../../ui/form.tsx';
import { PageHeader, Split } from '../../../ui/layout.tsx';
import { Empty, ErrorNotice, errorText, Loading } from '../../../ui/notice.tsx';
import { toast } from '../../../ui/toast.tsx';
import { sessionStatuses } from '../board/columns.ts';
import { Composer } from './composer.tsx';
import { MessageView } from './message.tsx';
import { leastOf, receiptOf } from './receipt.ts';
import { TailList } from '../../../ui/tail-list.tsx';
import { DeliveryReceipt, Ticks } from './ticks.tsx';
import { type Thread, threadsOf } from './threads.ts';
import { ViewSwitch } from '../views.tsx';

const list = '/sessions?view=channels';
const addressOf = (name: string, thread?: string) =>
  `${list}&channel=${encodeURIComponent(name)}${thread === undefined ? '' : `&thread=${thread}`}`;

export function Channels() {
  const [search] = useSearchParams();
  const mayRun = useMay('runs');
  const [isNew, setNew] = useState(false);
  const name = search.get('channel') ?? undefined;
  const thread = search.get('thread') ?? undefined;
  const { data, error, refetch } = useQuery({
    queryKey: ['channels'],
    queryFn: async ({ signal }) => {
      const channels: Channel[] = [];
      for await (const channel of client.channels.list({}, { signal })) channels.push(channel);
      return channels;
    },
    placeholderData: keepPreviousData,
  });
  const selected = data?.find((channel) => channel.name === name);

  return (
    <>
      <PageHeader title="Sessions">
        <ViewSwitch view="channels" />
        {mayRun ? (
          <Button kind="primary" onClick={() => setNew(true)}>
            <Plus aria-hidden size={16} /> New channel
          </Button>
        ) : null}
      </PageHeader>
      {isNew ? <NewChannel onClose={() => setNew(false)} /> : null}
      {error === null ? null : (
        <ErrorNotice
          title="The channels could not be loaded"
          error={error}
          onRetry={() => void refetch()}
        />
      )}
      {data === undefined && error === null ? <Loading /> : null}
      {data?.length === 0 ? (
        <Empty
          title="No channel yet"
          action={
            mayRun && !isNew ? (
              <Button onClick={() => setNew(true)}>Create the first channel</Button>
            ) : undefined
          }
        >
          In a channel, sessions work together: each member receives what is sent there, and those
          that a message mentions answer it.
        </Empty>
      ) : null}
      {data !== undefined && data.length > 0 ? (
        <Split
          back={list}
          list={<ChannelList channels={data} selected={name} />}
          detail={
            name === undefined ? undefined : selected === undefined ? (
              <Empty title="There is no such channel">It may belong to another tenant.</Empty>
            ) : (
              <ChannelPage key={`${name} ${thread}`} channel={selected} thread={thread} />
            )
          }
          placeholder={<Empty title="Choose a channel">Its messages are shown here.</Empty>}
        />
      ) : null}
    </>
  );
}

function NewChannel({ onClose }: { readonly onClose: () => void }) {
  const [, navigate] = useLocation();
  const [name, setName] = useState('');
  const [topic, setTopic] = useState('');
  const create = useMutation({
    mutationFn: () => client.channels.put(name, topic === '' ? {} : { topic }),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['channels'] });
      onClose();
      navigate(addressOf(name));
    },
  });
  return (
    <form
      className="flex flex-wrap items-start gap-3 border-b border-line bg-surface px-4 py-3"
      onSubmit={(event: FormEvent) => {
        event.preventDefault();
        create.mutate();
      }}
    >
      <Field label="Name" hint="Lower-case letters and digits.">
        {(ids) => (
          <Input
            {...ids}
            required
            autoFocus
            pattern="[a-z0-9][a-z0-9._\-]{0,63}"
            value={name}
            onChange={(event) => setName(event.target.value.replace(/^#/, ''))}
          />
        )}
      </Field>
      <Field label="Topic (optional)">
        {(ids) => (
          <Input {...ids} value={topic} onChange={(event) => setTopic(event.target.value)} />
        )}
      </Field>
      <div className="mt-6 flex gap-2">
        <Button kind="primary" type="submit" disabled={create.isPending}>
          Create
        </Button>
        <Button onClick={onClose}>Cancel</Button>
      </div>
      {create.error === null ? null : (
        <p role="alert" className="w-full text-sm text-failed">
          {errorText(create.error)}
        </p>
      )}
    </form>
  );
}

interface ChannelListProps {
  readonly channels: readonly Channel[];
  readonly selected: string | undefined;
}

function ChannelList({ channels, selected }: ChannelListProps) {
  return (
    <nav aria-label="Channels" className="min-h-0 flex-1 overflow-y-auto p-2">
      {channels.map(({ name, topic, members }) => (
        <Link
          key={name}
          href={addressOf(name)}
          aria-current={name === selected ? 'page' : undefined}
          className={cx(
            'flex min-h-11 items-center gap-2 rounded px-2 py-1.5',
            name === selected ? 'bg-selected' : 'hover:bg-hover',
          )}
        >
          <Hash aria-hidden size={16} className="shrink-0 text-muted" />
          <span className="min-w-0 flex-1">
            <span className="block truncate font-medium">{name}</span>
            {topic === undefined ? null : (
              <span className="block truncate text-xs text-muted">
                <SafeText text={topic} />
              </span>
            )}
          </span>
          <span className="text-xs whitespace-nowrap text-muted">
            {members.length === 1 ? '1 member' : `${members.length} members`}
          </span>
        </Link>
      ))}
    </nav>
  );
}

interface ChannelPageProps {
  readonly channel: Channel;
  /** The first message of a thread: only that is shown. */
  readonly thread: string | undefined;
}

function ChannelPage({ channel, thread }: ChannelPageProps) {
  const { name, topic, members } = channel;
  const mayRun = useMay('runs');
  const messages = useInfiniteQuery({
    queryKey: ['session-messages', 'channel', name, thread],
    queryFn: ({ pageParam, signal }) => {
      const query = thread === undefined ? { channel: name } : { thread };
      return client.messages.list({ ...query, limit: 100 }, { signal }).page(pageParam);
    },
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ nextCursor }) => nextCursor,
    placeholderData: keepPreviousData,
  });
  const { data, error, refetch } = messages;
  const all = useMemo(() => data?.pages.flatMap(({ items }) => items) ?? [], [data]);
  const threads = useMemo(() => threadsOf(all), [all]);
  const [opened] = threads;
  const shown: readonly Thread[] =
    thread === undefined || opened === undefined
      ? threads
      : [opened.root, ...opened.replies].map((root) => ({ root, replies: [] }));

  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <header className="flex flex-wrap items-center gap-x-3 gap-y-1 border-b border-line px-4 py-2">
        <h2 className="text-base font-semibold">#{name}</h2>
        {thread === undefined ? (
          <span className="min-w-0 truncate text-sm text-muted">
            <SafeText text={topic ?? ''} />
          </span>
        ) : (
          <Link href={addressOf(name)} className="text-sm underline">
            Thread. Show the whole channel
          </Link>
        )}
        <Members channel={channel} />
      </header>
      {error === null ? null : (
        <ErrorNotice
          title="The messages could not be loaded"
          error={error}
          onRetry={() => void refetch()}
        />
      )}
      <div className="min-h-0 flex-1">
        {data === undefined && error === null ? <Loading /> : null}
        {data !== undefined && shown.length === 0 ? (
          <Empty title="Nothing was sent here yet">
            {members.length === 0
              ? 'Add members first: they receive what is sent here.'
              : `Write to ${members.length === 1 ? 'the member' : `the ${members.length} members`} below. Mention one with @ to get an answer.`}
          </Empty>
        ) : (
          <TailList
            label={`Messages of #${name}`}
            items={shown}
            keyOf={({ root }) => root.id}
            top={
              messages.hasNextPage ? (
                <div className="flex justify-center p-3">
                  <Button
                    size="sm"
                    disabled={messages.isFetchingNextPage}
                    onClick={() => void messages.fetchNextPage()}
                  >
                    Older messages
                  </Button>
                </div>
              ) : null
            }
          >
            {({ root, replies }) => (
              <div className="mx-auto max-w-[860px] px-4 py-1.5">
                <MessageView message={root} direction="in" impliedTo={`#${name}`}>
                  <Receipts message={root} />
                  {thread === undefined ? (
                    <Link
                      href={addressOf(name, root.id)}
                      className="ml-auto inline-flex items-center gap-1 text-xs text-muted hover:text-text hover:underline pointer-coarse:min-h-11"
                    >
                      <MessageSquare aria-hidden size={12} />
                      {repliesText(replies.length)}
                    </Link>
                  ) : null}
                </MessageView>
                {replies.slice(-2).map((reply) => (
                  <div key={reply.id} className="mt-1 ml-6">
                    <MessageView message={reply} direction="out" impliedTo={`#${name}`}>
                      <Receipts message={reply} />
                    </MessageView>
                  </div>
                ))}
              </div>
            )}
          </TailList>
        )}
      </div>
      <Composer
        to={`#${name}`}
        disabledReason={mayRun ? undefined : 'You may only look: sending needs the scope runs'}
        handles={members}
        replyTo={thread === undefined ? undefined : opened?.root}
        onSent={() => void queries.invalidateQueries({ queryKey: ['session-messages'] })}
      />
    </div>
  );
}

function repliesText(count: number): string {
  if (count === 0) return 'Reply in a thread';
  return count === 1 ? '1 reply' : `${count} replies`;
}

/** Together at first, and per recipient when asked for. */
function Receipts({ message }: { readonly message: SessionMessage }) {
  const { deliveries } = message;
  const [isOpen, setOpen] = useState(false);
  const { data: known } = useQuery({
    queryKey: ['deliveries', 'message', message.id],
    queryFn: ({ signal }) => client.messages.deliveries(message.id, {}, { signal }),
    enabled: isOpen,
    placeholderData: keepPreviousData,
  });
  const least = leastOf(deliveries);
  if (least === undefined) return null;
  const read = deliveries.filter(({ status }) => status === 'consumed').length;
  const shown: readonly (Delivery | (typeof deliveries)[number])[] = known ?? deliveries;
  return (
    <details className="text-xs text-muted" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className="inline-flex items-center gap-2">
        <Ticks receipt={receiptOf(least)} />
        {deliveries.length > 1 ? `${read} of ${deliveries.length} have read it` : null}
      </summary>
      <ul className="mt-1 flex flex-col gap-1">
        {shown.map((delivery) => (
          <li key={delivery.id} className="flex flex-wrap items-center gap-2">
            <Link href={`/sessions/${delivery.sessionId}`} className="hover:underline">
              @{delivery.handle}
            </Link>
            <DeliveryReceipt delivery={delivery} />
          </li>
        ))}
      </ul>
    </details>
  );
}

function Members({ channel: { name, members } }: { readonly channel: Channel }) {
  const mayRun = useMay('runs');
  const handles = useQueries({
    queries: sessionStatuses
      .filter((status) => status !== 'released')
      .map((status) => sessionsWith(status)),
    combine: (results) =>
      results.flatMap(({ data = [] }) => data.map(({ identity }) => identity.handle)).toSorted(),
  });
  const failed = (error: unknown) => toast(errorText(error), 'error');
  const changed = () => queries.invalidateQueries({ queryKey: ['channels'] });
  const add = useMutation({
    mutationFn: (handle: string) => client.channels.addMember(name, handle),
    onSuccess: changed,
    onError: failed,
  });
  const remove = useMutation({
    mutationFn: (handle: string) => client.channels.removeMember(name, handle),
    onSuccess: changed,
    onError: failed,
  });
  const others = handles.filter((handle) => !members.includes(handle));
  return (
    <div className="ml-auto flex flex-wrap items-center gap-1.5">
      <ul aria-label="Members" className="flex flex-wrap items-center gap-1.5">
        {members.map((handle) => (
          <li
            key={handle}
            className="inline-flex items-center rounded-sm bg-sunken pl-2 text-xs leading-6"
          >
            @{handle}
            {mayRun ? (
              <IconButton
                label={`Remove @${handle}`}
                className="h-6 w-6"
                onClick={() => remove.mutate(handle)}
              >
                <X aria-hidden size={12} />
              </IconButton>
            ) : (
              <span className="w-2" />
            )}
          </li>
        ))}
      </ul>
      {mayRun ? (
        <Select
          aria-label="Add a member"
          className="w-36!"
          value=""
          disabled={others.length === 0}
          onChange={(event) => add.mutate(event.target.value)}
        >
          <option value="">{others.length === 0 ? 'No other session' : 'Add a member'}</option>
          {others.map((handle) => (
            <option key={handle} value={handle}>
              @{handle}
            </option>
          ))}
        </Select>
      ) : null}
    </div>
  );
}
