/** `/v1/channels`: channels and their members. */
import { byHandle, type ChannelRecord } from '@relay/core';
import { channelNameSchema, defined } from '@relay/protocol';
import { invalidField, notFound } from '../../errors.ts';
import { iso } from '../../views/pagination.ts';
import { type ApiRequest, auditEntry, type Handler, storeOf } from '../handler.ts';

export const putChannel: Handler<'putChannel'> = async (call) => {
  const { name } = call.params;
  const { topic } = call.body ?? {};
  const { caller, context } = call;
  const channel = await storeOf(call).channels.put(
    {
      name,
      createdAt: context.control.engine.clock.now(),
      createdBy: caller.actor,
      ...defined({ topic }),
    },
    auditEntry(call, 'channel.changed', { channel: name, ...defined({ topic }) }),
  );
  return presentChannel(call, channel);
};

export const listChannels: Handler<'listChannels'> = async (call) => {
  const { limit, cursor: after } = call.query;
  if (after !== undefined && !channelNameSchema.safeParse(after).success) {
    throw invalidField('cursor', 'Invalid cursor');
  }
  const found = await storeOf(call).channels.list({ limit: limit + 1, ...defined({ after }) });
  const page = found.slice(0, limit);
  return {
    channels: await Promise.all(page.map((channel) => presentChannel(call, channel))),
    nextCursor: found.length > limit ? (page.at(-1)?.name ?? null) : null,
  };
};

export const getChannel: Handler<'getChannel'> = async (call) =>
  presentChannel(call, await findChannel(call, call.params.name));

export const putChannelMember: Handler<'putChannelMember'> = async (call) => {
  const { name, handle } = call.params;
  const { channels } = storeOf(call);
  await findChannel(call, name);
  const { id: sessionId } = await byHandle(storeOf(call), handle);
  const isAdded = await channels.addMember(
    { channel: name, sessionId, addedAt: call.context.control.engine.clock.now() },
    auditEntry(call, 'channel.member-added', { channel: name, handle, sessionId }),
  );
  if (!isAdded) throw notFound(`session: @${handle} is released; start or attach it again`);
};

/** Succeeds if the session is not a member. */
export const deleteChannelMember: Handler<'deleteChannelMember'> = async (call) => {
  const { name, handle } = call.params;
  await findChannel(call, name);
  const { id: sessionId } = await byHandle(storeOf(call), handle);
  await storeOf(call).channels.removeMember(
    { channel: name, sessionId },
    auditEntry(call, 'channel.member-removed', { channel: name, handle, sessionId }),
  );
};

async function findChannel(call: ApiRequest, name: string): Promise<ChannelRecord> {
  const channel = await storeOf(call).channels.read(name);
  if (channel === undefined) throw notFound('channel');
  return channel;
}

async function presentChannel(call: ApiRequest, { name, topic, createdAt }: ChannelRecord) {
  const members = await storeOf(call).channels.members(name);
  return {
    name,
    topic: topic ?? undefined,
    members: members.map(({ handle }) => handle).toSorted(),
    createdAt: iso(createdAt),
  };
}
