/** Webhooks of the tenant, what was sent to them, and what became of it. */
import {
  defined,
  type Webhook,
  type WebhookBody,
  type WebhookDelivery,
} from '@relay/protocol/wire';
import { useMutation } from '@tanstack/react-query';
import { CircleCheck, CircleX, Clock, Plus } from 'lucide-react';
import { useState } from 'react';
import { Link, useSearchParams } from 'wouter';
import { client } from '../../api/client.ts';
import { useListing } from '../../api/listing.ts';
import { queries } from '../../api/queries.ts';
import { SafeText } from '../../text/safe-text.tsx';
import { Button } from '../../ui/button.tsx';
import { Field, Input } from '../../ui/form.tsx';
import { Section } from '../../ui/layout.tsx';
import { Empty, ErrorNotice, errorText, Loading, Note } from '../../ui/notice.tsx';
import { Confirm, FormDialog } from '../../ui/overlay.tsx';
import { Badge } from '../../ui/state.tsx';
import { toast } from '../../ui/toast.tsx';
import { Id, Time } from '../../ui/values.tsx';
import { SecretOnce } from './secret-once.tsx';
import { eventWords, hasFilter, webhookEvents } from './words.ts';

export function Webhooks() {
  const [search] = useSearchParams();
  const selected = search.get('webhook');
  const webhooks = useListing(['webhooks'], (options) =>
    client.webhooks.list({ limit: 100 }, options),
  );
  const [isCreating, setCreating] = useState(false);
  const [secret, setSecret] = useState<string>();
  const { items } = webhooks;
  const create = (
    <Button kind="primary" onClick={() => setCreating(true)}>
      <Plus aria-hidden size={14} /> Create a webhook
    </Button>
  );
  return (
    <>
      {items === undefined ? (
        webhooks.error === null ? (
          <Loading />
        ) : (
          <ErrorNotice
            title="The webhooks could not be loaded"
            error={webhooks.error}
            onRetry={webhooks.reload}
          />
        )
      ) : items.length === 0 ? (
        <Empty title="There are no webhooks" action={create}>
          A webhook tells another program about approvals, ended runs, sessions and messages.
        </Empty>
      ) : (
        <>
          <div className="flex flex-wrap items-center justify-between gap-2">
            <p className="text-sm text-muted">
              What cannot be delivered is tried again for a day, with growing delays.
            </p>
            {create}
          </div>
          <ul aria-label="Webhooks" className="flex flex-col rounded border border-line bg-surface">
            {items.map((webhook) => (
              <WebhookRow key={webhook.id} webhook={webhook} isSelected={webhook.id === selected} />
            ))}
          </ul>
          {items.some(({ id }) => id === selected) && selected !== null ? (
            <Deliveries key={selected} webhookId={selected} />
          ) : null}
        </>
      )}
      {isCreating ? (
        <CreateWebhook
          onClose={() => setCreating(false)}
          onMade={(made) => {
            setCreating(false);
            setSecret(made);
            void queries.invalidateQueries({ queryKey: ['webhooks'] });
          }}
        />
      ) : null}
      {secret === undefined ? null : (
        <SecretOnce
          title="The signing secret"
          label="signing secret"
          secret={secret}
          onClose={() => setSecret(undefined)}
        >
          <p className="text-muted">
            The receiver verifies the signature of each delivery with it, as Standard Webhooks say.
          </p>
        </SecretOnce>
      )}
    </>
  );
}

interface WebhookRowProps {
  readonly webhook: Webhook;
  readonly isSelected: boolean;
}

function WebhookRow({ webhook, isSelected }: WebhookRowProps) {
  const { id, url, events, filter = {}, createdAt } = webhook;
  const [isAsked, setAsked] = useState(false);
  const remove = useMutation({
    mutationFn: () => client.webhooks.delete(id),
    onSuccess: () => {
      setAsked(false);
      toast('The webhook is deleted.');
      void queries.invalidateQueries({ queryKey: ['webhooks'] });
    },
    onError: (error) => toast(errorText(error), 'error'),
  });
  return (
    <li className="flex flex-wrap items-start gap-x-4 gap-y-2 border-b border-line px-4 py-2.5 last:border-b-0">
      <div className="flex min-w-0 flex-1 basis-72 flex-col gap-1">
        <span dir="ltr" className="font-mono text-sm break-all">
          <SafeText text={url} maxLength={300} />
        </span>
        <span className="text-xs text-muted">
          {events.length === webhookEvents.length
            ? 'All events'
            : events.map((event) => eventWords[event]).join(' · ')}
        </span>
        <span className="flex flex-wrap items-center gap-x-3 text-xs text-muted">
          {Object.entries(defined(filter)).map(([name, value]) => (
            <span key={name}>
              {name} <SafeText text={value} />
            </span>
          ))}
          <span>
            created <Time at={createdAt} />
          </span>
          <Id id={id} label="webhook id" />
        </span>
      </div>
      <div className="flex gap-2">
        <Link
          href={isSelected ? '/settings/webhooks' : `/settings/webhooks?webhook=${id}`}
          aria-expanded={isSelected}
          className="inline-flex h-7 items-center rounded border border-line-strong px-2 text-xs font-medium hover:bg-hover pointer-coarse:min-h-11"
        >
          {isSelected ? 'Hide deliveries' : 'Deliveries'}
        </Link>
        <Button size="sm" kind="danger" onClick={() => setAsked(true)}>
          Delete
        </Button>
      </div>
      <Confirm
        open={isAsked}
        onOpenChange={setAsked}
        title="Delete this webhook?"
        action="Delete the webhook"
        isBusy={remove.isPending}
        onConfirm={() => remove.mutate()}
      >
        Its pending deliveries are dropped, and decision links that it has sent stop working.
      </Confirm>
    </li>
  );
}

function Deliveries({ webhookId }: { readonly webhookId: string }) {
  const deliveries = useListing(['webhook-deliveries', webhookId], (options) =>
    client.webhooks.deliveries(webhookId, { limit: 50 }, options),
  );
  const { items } = deliveries;
  return (
    <Section
      title="Deliveries of the last seven days"
      actions={
        <Button size="sm" onClick={deliveries.reload}>
          Read again
        </Button>
      }
    >
      {items === undefined ? (
        deliveries.error === null ? (
          <Loading lines={3} />
        ) : (
          <ErrorNotice error={deliveries.error} onRetry={deliveries.reload} />
        )
      ) : items.length === 0 ? (
        <p className="text-sm text-muted">
          Nothing has been sent yet. A delivery appears here when one of its events happens.
        </p>
      ) : (
        <ul aria-label="Deliveries" className="-mx-4 -my-4 flex flex-col">
          {items.map((delivery) => (
            <Delivery key={delivery.id} webhookId={webhookId} delivery={delivery} />
          ))}
        </ul>
      )}
      {deliveries.hasMore ? (
        <Button className="mt-6" disabled={deliveries.isLoadingMore} onClick={deliveries.loadMore}>
          Show older ones
        </Button>
      ) : null}
    </Section>
  );
}

interface DeliveryProps {
  readonly webhookId: string;
  readonly delivery: WebhookDelivery;
}

function Delivery({ webhookId, delivery }: DeliveryProps) {
  const { id, event, status, attempts, at, nextAttemptAt, lastStatus, lastError } = delivery;
  const redeliver = useMutation({
    mutationFn: () => client.webhooks.redeliver(webhookId, id),
    onSuccess: () => {
      toast('The delivery is sent again.');
      void queries.invalidateQueries({ queryKey: ['webhook-deliveries', webhookId] });
    },
    onError: (error) => toast(errorText(error), 'error'),
  });
  return (
    <li className="flex flex-wrap items-center gap-x-4 gap-y-1 border-b border-line px-4 py-2 last:border-b-0">
      <DeliveryBadge status={status} />
      <div className="flex min-w-0 flex-1 basis-60 flex-col text-sm">
        <span>{eventWords[event]}</span>
        <span className="flex flex-wrap gap-x-3 text-xs text-muted">
          <Time at={at} />
          <span>
            {attempts} {attempts === 1 ? 'attempt' : 'attempts'}
          </span>
          {lastStatus === undefined ? null : <span>answered {lastStatus}</span>}
          {status === 'pending' && nextAttemptAt !== undefined ? (
            <span>
              next <Time at={nextAttemptAt} />
            </span>
          ) : null}
        </span>
        {lastError === undefined || status === 'delivered' ? null : (
          <span className="text-xs break-words text-failed">
            <SafeText text={lastError} maxLength={500} />
          </span>
        )}
      </div>
      <Button size="sm" disabled={redeliver.isPending} onClick={() => redeliver.mutate()}>
        Send again
      </Button>
    </li>
  );
}

function DeliveryBadge({ status }: Pick<WebhookDelivery, 'status'>) {
  switch (status) {
    case 'pending':
      return (
        <Badge tone="working" icon={Clock}>
          Pending
        </Badge>
      );
    case 'delivered':
      return (
        <Badge tone="done" icon={CircleCheck}>
          Delivered
        </Badge>
      );
    case 'failed':
      return (
        <Badge tone="failed" icon={CircleX}>
          Failed
        </Badge>
      );
  }
}

const filters = [
  { name: 'handle', label: 'Session handle', hint: 'Only this session and its messages' },
  { name: 'channel', label: 'Channel', hint: 'Only messages of this channel' },
  { name: 'mention', label: 'Mention', hint: 'Only messages that mention this handle' },
] as const;

interface CreateWebhookProps {
  readonly onMade: (secret: string) => void;
  readonly onClose: () => void;
}

function CreateWebhook({ onMade, onClose }: CreateWebhookProps) {
  const [url, setUrl] = useState('');
  const [events, setEvents] = useState<ReadonlySet<(typeof webhookEvents)[number]>>(
    new Set(['approval.requested', 'approval.decided', 'run.ended'] as const),
  );
  const [filter, setFilter] = useState<Readonly<Record<string, string>>>({});
  const create = useMutation({
    mutationFn: (body: WebhookBody) => client.webhooks.create(body),
    onSuccess: ({ secret }) => onMade(secret),
  });
  /** Only where every chosen event has what is filtered by. */
  const offered = filters.filter(
    ({ name }) => events.size > 0 && [...events].every((event) => hasFilter(event, name)),
  );
  const submit = () => {
    const given = Object.fromEntries(
      offered.flatMap(({ name }) => {
        const value = filter[name]?.trim() ?? '';
        return value === '' ? [] : [[name, value]];
      }),
    );
    create.mutate({
      url: url.trim(),
      events: [...events],
      ...(Object.keys(given).length === 0 ? {} : { filter: given }),
    });
  };
  return (
    <FormDialog
      title="Create a webhook"
      action="Create the webhook"
      isDisabled={events.size === 0 || create.isPending}
      onSubmit={submit}
      onClose={onClose}
    >
      <Field label="URL" hint="It receives POST requests with a signature">
        {(field) => (
          <Input
            {...field}
            type="url"
            required
            placeholder="https://hooks.example.com/relay"
            value={url}
            onChange={(event) => setUrl(event.target.value)}
          />
        )}
      </Field>
      <fieldset className="flex flex-col gap-1">
        <legend className="mb-1 text-sm font-medium">Events</legend>
        <div className="grid gap-x-4 gap-y-1 sm:grid-cols-2">
          {webhookEvents.map((event) => (
            <label key={event} className="flex items-center gap-2 text-sm pointer-coarse:min-h-11">
              <input
                type="checkbox"
                checked={events.has(event)}
                onChange={(change) => {
                  const next = new Set(events);
                  if (change.target.checked) next.add(event);
                  else next.delete(event);
                  setEvents(next);
                }}
              />
              {eventWords[event]}
            </label>
          ))}
        </div>
      </fieldset>
      {offered.length === 0 ? (
        <p className="text-xs text-muted">
          Webhooks for sessions and messages alone can be filtered by session, channel or mention.
        </p>
      ) : (
        <div className="grid gap-4 sm:grid-cols-2">
          {offered.map(({ name, label, hint }) => (
            <Field key={name} label={label} hint={hint}>
              {(field) => (
                <Input
                  {...field}
                  autoComplete="off"
                  value={filter[name] ?? ''}
                  onChange={(event) => setFilter({ ...filter, [name]: event.target.value })}
                />
              )}
            </Field>
          ))}
        </div>
      )}
      {create.error === null ? null : <Note tone="failed">{errorText(create.error)}</Note>}
    </FormDialog>
  );
}
