import { type CliCommand, type Context, pageSize, takeCounted } from '../../command.ts';
import { count } from '../../options.ts';
import { formatTime } from '../../output/table.ts';

export function registerChannels(program: CliCommand): void {
  const channels = program
    .command('channels')
    .description('manage channels: every member receives what is sent to one')
    .examples(['relay channels create team', 'relay channels add team builder ada']);
  channels
    .command('list')
    .description('list channels with their members')
    .option('--limit <n>', 'maximum number of results', count, 100)
    .examples(['relay channels list'])
    .handle(listChannels);
  channels
    .command('show <channel>')
    .description('show a channel with its members')
    .examples(['relay channels show team'])
    .handle(showChannel);
  channels
    .command('create <channel>')
    .description('create a channel, or change its topic')
    .option('--topic <text>', 'what it is about')
    .examples(['relay channels create team --topic "Release 2"'])
    .handle(createChannel);
  channels
    .command('add <channel> <handles...>')
    .description('add sessions to a channel')
    .examples(['relay channels add team builder ada'])
    .handle(addMembers);
  channels
    .command('remove <channel> <handles...>')
    .description('remove sessions from a channel')
    .examples(['relay channels remove team builder'])
    .handle(removeMembers);
}

const nameOf = (channel: string) => channel.replace(/^#/, '');
const handleOf = (handle: string) => handle.replace(/^@/, '');

async function listChannels(context: Context<{ limit: number }>): Promise<void> {
  const { limit } = context.options;
  const { channels } = await context.client();
  context.print.list(
    await takeCounted(channels.list({ limit: pageSize(limit) }), limit),
    [
      { title: 'channel', value: ({ name }) => `#${name}` },
      { title: 'created', value: ({ createdAt }) => createdAt, time: true, minor: true },
      { title: 'topic', value: ({ topic }) => topic },
      { title: 'members', value: ({ members }) => members.map((each) => `@${each}`).join(' ') },
    ],
    'No channels.',
  );
}

async function showChannel(context: Context, [name = '']: readonly string[]): Promise<void> {
  const { channels } = await context.client();
  const channel = await channels.get(nameOf(name));
  context.print.record(channel, {
    channel: `#${channel.name}`,
    topic: channel.topic,
    members: channel.members.map((each) => `@${each}`).join(' '),
    created: formatTime(channel.createdAt),
  });
}

async function createChannel(context: Context<{ topic?: string }>, [name = '']: readonly string[]) {
  const { channels } = await context.client();
  const { topic } = context.options;
  const channel = await channels.put(nameOf(name), topic === undefined ? {} : { topic });
  context.print.result(channel, `#${channel.name} has ${countOf(channel.members)}.`);
}

function countOf({ length }: readonly string[]): string {
  return length === 1 ? '1 member' : `${length} members`;
}

async function addMembers(context: Context, [name = '', ...handles]: readonly string[]) {
  const { channels } = await context.client();
  for (const handle of handles) await channels.addMember(nameOf(name), handleOf(handle));
  const channel = await channels.get(nameOf(name));
  context.print.result(channel, `#${channel.name} has ${countOf(channel.members)}.`);
}

async function removeMembers(context: Context, [name = '', ...handles]: readonly string[]) {
  const { channels } = await context.client();
  for (const handle of handles) await channels.removeMember(nameOf(name), handleOf(handle));
  const channel = await channels.get(nameOf(name));
  context.print.result(channel, `#${channel.name} has ${countOf(channel.members)}.`);
}
