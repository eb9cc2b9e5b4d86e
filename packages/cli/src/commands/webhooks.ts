import type { WebhookBody } from '@relay/sdk';
import type { Command } from 'commander';
import { Option } from 'commander';
import { acting, type Call } from '../call.ts';
import { count, examples } from '../help.ts';
import { pageSize, take } from '../lists.ts';
import type { World } from '../world.ts';

type Event = WebhookBody['events'][number];

/** The protocol's list again: help is shown without loading it, and a test compares the two. */
const webhookEvents = [
  'approval.requested',
  'approval.expiring',
  'approval.expired',
  'approval.decided',
  'run.ended',
] as const satisfies readonly Event[];

export function registerWebhooks(program: Command, world: World): void {
  const webhooks = program.command('webhooks').description('who is told what happens');
  examples(webhooks, ['relay webhooks list', 'relay webhooks deliveries WEBHOOK_ID']);
  const list = webhooks
    .command('list')
    .description('webhooks, newest first')
    .option('--limit <n>', 'how many at most', count, 20)
    .action(acting(world, listWebhooks));
  examples(list, ['relay webhooks list']);
  const add = webhooks
    .command('add <url>')
    .description('have a URL told of events; the secret that signs them is shown only this once')
    .addOption(
      new Option('--events <events...>', 'what it is told of')
        .choices(webhookEvents)
        .default(['approval.requested', 'run.ended']),
    )
    .action(acting(world, addWebhook));
  examples(add, [
    'relay webhooks add https://example.com/hook --events approval.requested run.ended',
  ]);
  const remove = webhooks
    .command('delete <webhooks...>')
    .description('tell URLs no more, not even what they have not been told yet')
    .action(acting(world, deleteWebhooks));
  examples(remove, ['relay webhooks delete WEBHOOK_ID']);
  const deliveries = webhooks
    .command('deliveries <webhook>')
    .description('what a webhook was told, or could not be told, newest first')
    .option('--limit <n>', 'how many at most', count, 20)
    .action(acting(world, listDeliveries));
  examples(deliveries, ['relay webhooks deliveries WEBHOOK_ID']);
}

async function listWebhooks(call: Call<{ limit: number }>): Promise<void> {
  const { limit } = call.options;
  const { webhooks } = await call.client();
  call.print.list(
    await take(webhooks.list({ limit: pageSize(limit) }), limit),
    [
      { title: 'webhook', of: ({ id }) => id },
      { title: 'created', of: ({ createdAt }) => createdAt, time: true, minor: true },
      { title: 'events', of: ({ events }) => events.join(' ') },
      { title: 'url', of: ({ url }) => url },
    ],
    'Nobody is told anything.',
  );
}

async function addWebhook(call: Call<{ events: Event[] }>, [url = '']: readonly string[]) {
  const { webhooks } = await call.client();
  const webhook = await webhooks.create({ url, events: call.options.events });
  if (call.print.json) {
    call.print.value(webhook);
    return;
  }
  call.print.note(`The webhook ${webhook.id} signs by this secret, shown only this once:`);
  call.print.say(webhook.secret);
}

async function deleteWebhooks(call: Call, ids: readonly string[]): Promise<void> {
  const { webhooks } = await call.client();
  for (const id of ids) {
    await webhooks.delete(id);
    if (call.print.json) call.print.value({ id, status: 'deleted' });
    else call.print.say(`${id} is told no more.`);
  }
}

async function listDeliveries(call: Call<{ limit: number }>, [id = '']: readonly string[]) {
  const { limit } = call.options;
  const { webhooks } = await call.client();
  call.print.list(
    await take(webhooks.deliveries(id, { limit: pageSize(limit) }), limit),
    [
      { title: 'delivery', of: (each) => each.id },
      { title: 'event', of: ({ event }) => event },
      { title: 'status', of: ({ status }) => status, status: true },
      { title: 'attempts', of: ({ attempts }) => attempts, minor: true },
      { title: 'at', of: ({ at }) => at, time: true, minor: true },
      { title: 'next', of: ({ nextAttemptAt }) => nextAttemptAt, time: true },
      { title: 'last answer', of: ({ lastStatus, lastError }) => lastError ?? lastStatus },
    ],
    'It has not been told anything yet.',
  );
}
