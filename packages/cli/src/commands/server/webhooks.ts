import type { WebhookBody } from '@relay/sdk';
import { webhookEventGroups, webhookEvents } from '@relay/protocol/wire';
import { Option } from 'commander';
import { type CliCommand, type Context, pageSize, takeCounted } from '../../command.ts';
import { count } from '../../options.ts';

type Event = WebhookBody['events'][number];

export function registerWebhooks(program: CliCommand): void {
  const webhooks = program
    .command('webhooks')
    .description('manage webhooks')
    .examples(['relay webhooks list', 'relay webhooks deliveries WEBHOOK_ID']);
  webhooks
    .command('list')
    .description('list webhooks, newest first')
    .option('--limit <n>', 'maximum number of results', count, 20)
    .examples(['relay webhooks list'])
    .handle(listWebhooks);
  webhooks
    .command('add <url>')
    .description('add a webhook; its signing secret is shown only once')
    .addOption(
      new Option('--events <events...>', 'events to deliver')
        .choices([...webhookEvents, ...webhookEventGroups])
        .default(['approval.requested', 'run.ended']),
    )
    .option('--handle <handle>', 'only events of the session with this handle')
    .option('--channel <channel>', 'only messages of this channel')
    .option('--mention <handle>', 'only messages that mention this handle')
    .examples([
      'relay webhooks add https://example.com/hook --events approval.requested run.ended',
      "relay webhooks add https://example.com/hook --events 'session.*' --handle builder",
    ])
    .handle(addWebhook);
  webhooks
    .command('delete [webhooks...]')
    .description('delete webhooks and their pending deliveries')
    .examples(['relay webhooks delete WEBHOOK_ID'])
    .handle(deleteWebhooks);
  webhooks
    .command('deliveries [webhook]')
    .description('list the deliveries of a webhook, newest first')
    .option('--limit <n>', 'maximum number of results', count, 20)
    .examples(['relay webhooks deliveries WEBHOOK_ID'])
    .handle(listDeliveries);
  webhooks
    .command('redeliver [webhook] [deliveries...]')
    .description('send deliveries of a webhook again')
    .examples(['relay webhooks redeliver WEBHOOK_ID DELIVERY_ID'])
    .handle(redeliver);
}

async function listWebhooks(context: Context<{ limit: number }>): Promise<void> {
  const { limit } = context.options;
  const { webhooks } = await context.client();
  context.print.list(
    await takeCounted(webhooks.list({ limit: pageSize(limit) }), limit),
    [
      { title: 'webhook', value: ({ id }) => id, id: true },
      { title: 'created', value: ({ createdAt }) => createdAt, time: true, minor: true },
      {
        title: 'events',
        value: ({ events, filter = {} }) => [...events, ...conditionsOf(filter)].join(' '),
      },
      { title: 'url', value: ({ url }) => url },
    ],
    'No webhooks.',
  );
}

interface AddOptions {
  readonly events: Event[];
  readonly handle?: string;
  readonly channel?: string;
  readonly mention?: string;
}

async function addWebhook(context: Context<AddOptions>, [url = '']: readonly string[]) {
  const { events, handle, channel, mention } = context.options;
  const given = Object.entries({ handle, channel, mention }).filter(([, value]) => value);
  const filter = given.length === 0 ? {} : { filter: Object.fromEntries(given) };
  const { webhooks } = await context.client();
  const webhook = await webhooks.create({ url, events, ...filter });
  context.print.secret(
    webhook,
    `Signing secret of webhook ${webhook.id} (shown only once):`,
    webhook.secret,
  );
}

function conditionsOf(filter: Readonly<Record<string, string | undefined>>): string[] {
  return Object.entries(filter).map(([name, value]) => `${name}=${value}`);
}

async function deleteWebhooks(context: Context, given: readonly string[]): Promise<void> {
  const ids = await context.ids('webhook', given);
  const { webhooks } = await context.client();
  for (const id of ids) {
    await webhooks.delete(id);
    context.print.result({ id, status: 'deleted' }, `Deleted ${id}.`);
  }
}

async function listDeliveries(context: Context<{ limit: number }>, [given]: readonly string[]) {
  const { limit } = context.options;
  const id = await context.id('webhook', given);
  const { webhooks } = await context.client();
  context.print.list(
    await takeCounted(webhooks.deliveries(id, { limit: pageSize(limit) }), limit),
    [
      { title: 'delivery', value: (each) => each.id },
      { title: 'event', value: ({ event }) => event },
      { title: 'status', value: ({ status }) => status, status: true },
      { title: 'attempts', value: ({ attempts }) => attempts, minor: true },
      { title: 'at', value: ({ at }) => at, time: true, minor: true },
      { title: 'next', value: ({ nextAttemptAt }) => nextAttemptAt, time: true },
      { title: 'last response', value: ({ lastStatus, lastError }) => lastError ?? lastStatus },
    ],
    'No deliveries yet.',
  );
}

async function redeliver(context: Context, [given, ...deliveries]: readonly string[]) {
  const webhook = await context.id('webhook', given);
  const { webhooks } = await context.client();
  const recent = async (limit: number) => {
    const { items } = await webhooks.deliveries(webhook, { limit }).page();
    return items.map(({ id, at, event, status }) => ({ id, at, text: `${event}  ${status}` }));
  };
  const { resolveAmong } = await import('../../ids.ts');
  for (const each of deliveries.length === 0 ? [undefined] : deliveries) {
    const id = await resolveAmong(context, 'delivery', each, recent);
    context.print.result(await webhooks.redeliver(webhook, id), `${id} will be sent again.`);
  }
}
