import type { Delivery, DeliveryMode, MessageBody, RelayClient, SessionMessage } from '@relay/sdk';
import { deliveryModes } from '@relay/protocol/wire';
import { Option } from 'commander';
import { type CliCommand, type Context, takeCounted } from '../../command.ts';
import { askUntil, timeoutOption } from '../../deadline.ts';
import { CliError, exitCodes, usageError } from '../../errors.ts';
import { count, pastTime } from '../../options.ts';
import { formatTime } from '../../output/table.ts';
import { relay } from '../../environment.ts';

export interface SendOptions {
  readonly mode?: DeliveryMode;
  readonly replyTo?: string;
  readonly wait?: 'delivered' | 'consumed';
  readonly timeout?: number;
}

export function sendOptions(command: CliCommand): CliCommand {
  return command
    .addOption(
      new Option(
        '--mode <mode>',
        "when it reaches a busy session (default: the session's)",
      ).choices(deliveryModes),
    )
    .option('--reply-to <message>', 'answer in the thread of this message')
    .addOption(
      new Option(
        '--wait <status>',
        'wait until it was delivered or consumed, for up to 25 s or the time of --timeout',
      ).choices(['delivered', 'consumed']),
    )
    .addOption(timeoutOption('the delivery'));
}

export function registerMessages(program: CliCommand): void {
  const messages = program
    .command('messages')
    .description('send, list, change and deliver messages')
    .examples([
      'relay messages send @builder "run the tests"',
      'relay messages list --with builder',
    ]);
  messages
    .command('list')
    .description('list messages, newest first')
    .option('--channel <name>', 'only of this channel')
    .option('--with <handle>', 'only from or to this session')
    .option('--thread <message>', 'only of the thread that this message began')
    .option('--search <words>', 'only with these words')
    .option('--since <time>', 'sent after: a date, or 12h, 7d ago', pastTime)
    .option('--limit <n>', 'maximum number of results', count, 20)
    .examples([
      'relay messages list --channel team',
      'relay messages list --search deploy --since 24h',
    ])
    .handle(listMessages);
  sendOptions(
    messages
      .command('send <to> <text...>')
      .description('send a message to @handles and #channels, separated by commas'),
  )
    .examples(
      [
        'relay messages send @builder "run the tests" --wait consumed',
        'relay messages send \'#team\' "Release at noon"',
        'relay messages send @ada,@builder "Who is free?"',
      ],
      'In a shell, write a channel in quotes. accepted: stored, and it will not be lost. delivered: ' +
        'handed to the session. consumed: in the context of its model, or shown to the person. With ' +
        '--wait, a message that did not get there within 25 s exits with 1, or with 124 after the ' +
        'time of --timeout.',
    )
    .handle(sendMessage);
  messages
    .command('show [message]')
    .description('show a message and its deliveries')
    .examples(['relay messages show MESSAGE_ID'])
    .handle(showMessage);
  messages
    .command('edit <message> [text...]')
    .description('change a message that no recipient has yet')
    .addOption(new Option('--mode <mode>', 'another delivery mode').choices(deliveryModes))
    .examples(['relay messages edit MESSAGE_ID "run only the unit tests"'])
    .handle(editMessage);
  messages
    .command('withdraw [messages...]')
    .description('withdraw messages that no recipient has yet')
    .examples(['relay messages withdraw MESSAGE_ID'])
    .handle(withdrawMessages);
  messages
    .command('redeliver [deliveries...]')
    .description('deliver messages again whose delivery failed')
    .examples(
      ['relay messages redeliver DELIVERY_ID'],
      '"relay sessions queue SESSION --failed" lists the deliveries that failed.',
    )
    .handle(redeliver);
}

interface ListOptions {
  readonly channel?: string;
  readonly with?: string;
  readonly thread?: string;
  readonly search?: string;
  readonly since?: string;
  readonly limit: number;
}

async function listMessages(context: Context<ListOptions>): Promise<void> {
  const { channel, with: handle, thread, search, since, limit } = context.options;
  const { messages } = await context.client();
  const query = {
    channel,
    with: handle,
    thread: await context.optionalId('message', thread),
    q: search,
    since,
    ...context.page(limit),
  };
  context.print.list(
    await takeCounted(messages.list(query), limit),
    [
      { title: 'message', value: ({ id }) => id, id: true },
      { title: 'sent', value: ({ at }) => at, time: true },
      { title: 'from', value: ({ from }) => from.name },
      { title: 'to', value: addresseesOf },
      { title: 'status', value: statusOf, status: true },
      { title: 'text', value: ({ text }) => text },
    ],
    'No matching messages.',
  );
}

function addresseesOf({ to }: SessionMessage): string {
  return typeof to === 'string' ? to : to.join(' ');
}

/** Of one delivery, or how many have each status. */
function statusOf({ deliveries, withdrawnAt }: SessionMessage): string {
  if (withdrawnAt !== undefined) return 'withdrawn';
  const counts = new Map<string, number>();
  for (const { status } of deliveries) counts.set(status, (counts.get(status) ?? 0) + 1);
  const [only] = counts.keys();
  if (counts.size === 1 && only !== undefined) return only;
  return [...counts].map(([status, number]) => `${number} ${status}`).join(', ');
}

async function sendMessage(
  context: Context<SendOptions>,
  [to = '', ...words]: readonly string[],
): Promise<void> {
  const addresses = to.split(',').filter((address) => address !== '');
  const wrong = addresses.find((address) => !/^[@#]/.test(address));
  if (wrong !== undefined || addresses.length === 0) {
    throw usageError(
      `Invalid recipient "${wrong ?? ''}"`,
      "write @handle, or '#channel' in quotes",
    );
  }
  await printSent(context, await context.client(), { to: addresses, text: words.join(' ') });
}

/** Sends a message and prints what became of it. */
export async function printSent(
  context: Context<SendOptions>,
  { messages }: RelayClient,
  body: Pick<MessageBody, 'to' | 'text'>,
): Promise<void> {
  const { mode, wait, timeout } = context.options;
  if (timeout !== undefined && wait === undefined) throw usageError('--timeout requires --wait');
  const replyTo = await context.optionalId('message', context.options.replyTo);
  const message = await messages.send({ ...body, mode, replyTo });
  if (wait === undefined) {
    context.print.result(message, sentText(message));
    return;
  }
  const isThere = ({ status }: Delivery) => status === 'consumed' || status === wait;
  const deliveries = await askUntil(
    timeout,
    (waitMs) => messages.deliveries(message.id, { wait, waitMs }),
    // The server does not wait for a program that cannot say that it consumes.
    (all, isEarly) =>
      all.every(
        (each) =>
          isThere(each) || each.status === 'failed' || (isEarly && each.status === 'delivered'),
      ),
  );
  context.print.result({ ...message, deliveries }, sentText({ ...message, deliveries }));
  const late = deliveries.find((each) => !isThere(each));
  if (late === undefined) return;
  const why = late.reason === undefined ? '' : ` (${late.reason})`;
  throw new CliError(
    'not_delivered',
    `The message to @${late.handle} is ${late.status}${why}, not ${wait}`,
    {
      exit:
        timeout === undefined || late.status === 'failed' ? exitCodes.failure : exitCodes.timeout,
      hint:
        `"${relay} messages show ${message.id}" shows its deliveries` +
        (late.status === 'delivered' ? '; those to a terminal end as delivered' : ''),
    },
  );
}

function sentText({ id, deliveries }: Pick<SessionMessage, 'id' | 'deliveries'>): string {
  const states = deliveries.map(({ handle, status, error }) => {
    const why = error === undefined ? '' : ` (${error.message})`;
    return `@${handle} ${status}${why}`;
  });
  return `Sent ${id}: ${states.length === 0 ? 'no session receives it' : states.join(', ')}.`;
}

async function showMessage(context: Context, [given]: readonly string[]): Promise<void> {
  const id = await context.id('message', given);
  const { messages } = await context.client();
  const [message, deliveries] = await Promise.all([messages.get(id), messages.deliveries(id)]);
  const { print } = context;
  print.record(
    { ...message, deliveries },
    {
      message: message.id,
      from: message.from.name,
      to: addresseesOf(message),
      mode: message.mode,
      'reply to': message.replyTo,
      sent: formatTime(message.at),
      edited: formatTime(message.editedAt),
      withdrawn: formatTime(message.withdrawnAt),
      attachments: message.attachments.length === 0 ? undefined : message.attachments.length,
      text: message.text,
    },
  );
  if (!print.json) print.list(deliveries, deliveryColumns);
}

const deliveryColumns = [
  { title: 'delivery', value: ({ id }: Delivery) => id, id: true },
  { title: 'to', value: ({ handle }: Delivery) => `@${handle}` },
  { title: 'status', value: ({ status }: Delivery) => status, status: true },
  { title: 'mode', value: ({ mode }: Delivery) => mode, minor: true },
  { title: 'attempts', value: ({ attempts }: Delivery) => attempts, minor: true },
  { title: 'reason', value: ({ error, reason }: Delivery) => error?.message ?? reason },
];

async function editMessage(
  context: Context<{ mode?: DeliveryMode }>,
  [given, ...words]: readonly string[],
): Promise<void> {
  const text = words.length === 0 ? undefined : words.join(' ');
  const { mode } = context.options;
  if (text === undefined && mode === undefined) {
    throw usageError('Nothing to change', 'pass a text, --mode, or both');
  }
  const id = await context.id('message', given);
  const { messages } = await context.client();
  const message = await messages.edit(id, { text, mode });
  context.print.result(message, `Changed ${message.id}.`);
}

async function withdrawMessages(context: Context, given: readonly string[]): Promise<void> {
  const ids = await context.ids('message', given);
  const { messages } = await context.client();
  for (const id of ids) {
    await messages.withdraw(id);
    context.print.result({ id, status: 'withdrawn' }, `Withdrew ${id}.`);
  }
}

async function redeliver(context: Context, given: readonly string[]): Promise<void> {
  const ids = await context.ids('delivery', given);
  const { deliveries } = await context.client();
  for (const id of ids) {
    const delivery = await deliveries.redeliver(id);
    context.print.result(
      delivery,
      `The message to @${delivery.handle} is ${delivery.status} again.`,
    );
  }
}
