/**
 * How many messages of agents and programs, each caused by the one before it, led to a message. A person
 * starts at 0. What a session sends is caused by what it has received, whether or not it says so with
 * `replyTo`: otherwise two of them could answer each other for ever.
 */
import type { MessageEnvelope, MessageRecord } from '../ports/index.ts';

/** Of an answer to these messages. */
export function hopsOfReply(messages: readonly Pick<MessageRecord, 'hops'>[]): number {
  return 1 + Math.max(0, ...messages.map(({ hops }) => hops));
}

/** Of what an agent sends in a turn that has read these messages. A person among the senders is the cause. */
export function hopsOfTurn(read: readonly Pick<MessageRecord, 'hops'>[]): number {
  return read.some(({ hops }) => hops === 0) ? 1 : hopsOfReply(read);
}

/**
 * Of what a program sends, which does not tell what it works on. The cause is what it has received in this
 * exchange since a person last wrote to it, else the last message of all.
 */
export function hopsOfProgram(
  received: readonly MessageEnvelope[],
  isInExchange: (message: MessageEnvelope) => boolean,
): number {
  const [last] = received;
  if (last === undefined) return 0;
  const person = received.findIndex(({ hops }) => hops === 0);
  const since = person === -1 ? received : received.slice(0, person);
  const exchange = since.filter(isInExchange);
  return hopsOfReply(exchange.length > 0 ? exchange : [last]);
}
