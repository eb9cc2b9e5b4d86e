import type { WebhookBody } from '@relay/sdk';
import { Option } from 'commander';
import { type CliCommand, type Context, pageSize, take } from '../command.ts';
import { count } from '../options.ts';

type Event = WebhookBody['events'][number];

/** Repeats the list in @relay/protocol so that help does not load it; a test compares the two. */
const webhookEvents = [
  'approval.requested',
  'approval.expiring',
  'approval.expired',
  'approval.voted',
  'approval.decided',
  'run.ended',
] as const satisfies readonly Event[];

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
        .choices(webhookEvents)
        .default(['approval.requested', 'run.ended']),
    )
    .examples(['relay webhooks add https://example.com/hook --events approval.requested run.ended'])
    .handle(addWebhook);
  webhooks
    .command('delete <webhooks...>')
    .description('delete webhooks and their pending deliveries')
    .examples(['relay webhooks delete WEBHOOK_ID'])
    .handle(deleteWebhooks);
  webhooks
    .command('deliveries <webhook>')
    .description('list the deliveries of a webhook, newest first')
    .option('--limit <n>', 'maximum number of results', count, 20)
    .examples(['relay webhooks deliveries WEBHOOK_ID'])
    .handle(listDeliveries);
}

async function listWebhooks(context: Context<{ limit: number }>): Promise<void> {
  const { limit } = context.options;
  const { webhooks } = await context.client();
  context.print.list(
    await take(webhooks.list({ limit: pageSize(limit) }), limit),
    [
      { title: 'webhook', value: ({ id }) => id },
      { title: 'created', value: ({ createdAt }) => createdAt, time: true, minor: true },
      { title: 'events', value: ({ events }) => events.join(' ') },
      { title: 'url', value: ({ url }) => url },
    ],
    'No webhooks.',
  );
}

async function addWebhook(context: Context<{ events: Event[] }>, [url = '']: readonly string[]) {
  const { webhooks } = await context.client();
  const webhook = await webhooks.create({ url, events: context.options.events });
  context.print.secret(
    webhook,
    `Signing secret of webhook ${webhook.id} (shown only once):`,
    webhook.secret,
  );
}

async function deleteWebhooks(context: Context, ids: readonly string[]): Promise<void> {
  const { webhooks } = await context.client();
  for (const id of ids) {
    await webhooks.delete(id);
    context.print.result({ id, status: 'deleted' }, `Deleted ${id}.`);
  }
}

async function listDeliveries(context: Context<{ limit: number }>, [id = '']: readonly string[]) {
  const { limit } = context.options;
  const { webhooks } = await context.client();
  context.print.list(
    await take(webhooks.deliveries(id, { limit: pageSize(limit) }), limit),
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
