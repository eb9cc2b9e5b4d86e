/** What an agent that is a session can do with others: write to them, see who is there, invoke actions. */
import type { RunSession, Tool, ToolOutput } from '@relay/core';
import { type CapabilityDetails, defined, deliveryModes, RelayError } from '@relay/protocol';
import { z } from 'zod';
import { defineTool } from '../define-tool.ts';

const addressSchema = z
  .string()
  .regex(/^[@#][a-z0-9][a-z0-9._-]{0,63}$/, 'Must be "@" and a handle, or "#" and a channel');

const sendMessage = defineTool({
  name: 'send_message',
  description:
    'Send a message to other sessions (agents, programs, people) or channels. Your final answer is ' +
    'sent by itself as the reply to who wrote to you: do not send it with this tool as well.',
  schema: z
    .strictObject({
      to: z
        .union([addressSchema, z.array(addressSchema).min(1).max(64)])
        .optional()
        .describe('"@handle", "#channel" or a list of them; default with replyTo: its thread'),
      text: z.string().min(1),
      mode: z
        .enum(deliveryModes)
        .optional()
        .describe('When a session that is working reads it; default: when it is idle'),
      replyTo: z.string().min(1).max(64).optional().describe('The id of a message'),
    })
    .refine(({ to, replyTo }) => to !== undefined || replyTo !== undefined, {
      path: ['to'],
      message: 'Required, except with replyTo',
    }),
  allowedByDefault: true,
  // A repeated call has the same idempotency key, and sends once.
  idempotent: true,
  needsSession: true,
  async execute({ to, ...draft }, { session }) {
    const addresses = typeof to === 'string' ? [to] : to;
    const { message, deliveries } = await explained(
      sessionOf(session).send({ ...draft, ...defined({ to: addresses }) }),
    );
    const recipients = deliveries.map(({ handle, status, error }) => ({
      handle,
      status,
      ...defined({ error: (error as { message?: string } | null)?.message }),
    }));
    return compact({ id: message.id, recipients });
  },
});

const listSessions = defineTool({
  name: 'list_sessions',
  description: 'List the sessions that messages can be sent to, with their handles and statuses.',
  schema: z.strictObject({}),
  allowedByDefault: true,
  idempotent: true,
  needsSession: true,
  async execute(_, { session }) {
    const { sessions, isWhole } = await sessionOf(session).list();
    return compact({ sessions, ...(isWhole ? {} : { more: true }) });
  },
});

const invokeAction = defineTool({
  name: 'invoke_action',
  description: 'Invoke an action that other participants offer, and get its output.',
  schema: z.strictObject({
    name: z.string().min(1).max(64),
    input: z.record(z.string(), z.unknown()).default({}),
  }),
  allowedByDefault: true,
  // A repeated call has the same idempotency key, and waits for the same invocation.
  idempotent: true,
  needsSession: true,
  async execute({ name, input }, { session }) {
    const { id, status, output, error } = await explained(sessionOf(session).invoke(name, input));
    if (error !== null) throw new Error(`${error.code}: ${error.message}`);
    return compact({ id, status, ...(status === 'completed' ? { output } : {}) });
  },
});

export const sessionTools: readonly Tool[] = [sendMessage, listSessions, invokeAction];

function sessionOf(session: RunSession | undefined): RunSession {
  if (session === undefined) throw new TypeError('This run is not the turn of a session');
  return session;
}

function compact(result: object): ToolOutput {
  return { context: JSON.stringify(result), result };
}

/** A model has only the text of an error: it names the capability. */
async function explained<Value>(promise: Promise<Value>): Promise<Value> {
  try {
    return await promise;
  } catch (error) {
    if (!(error instanceof RelayError) || error.capability === undefined) throw error;
    throw new Error(`${error.message} (${textOf(error.capability)})`, { cause: error });
  }
}

function textOf({ path, asked, offered }: CapabilityDetails): string {
  return `path: ${path}, asked: ${JSON.stringify(asked)}, offered: ${JSON.stringify(offered)}`;
}
