/** Messages of a channel, replies below what they reply to. */
import type { SessionMessage } from '@relay/sdk';

export interface Thread {
  readonly root: SessionMessage;
  /** Oldest first. */
  readonly replies: readonly SessionMessage[];
}

/** By the time of their first message. A reply whose thread begins before the given messages is shown alone. */
export function threadsOf(messages: readonly SessionMessage[]): readonly Thread[] {
  const ordered = messages.toSorted((a, b) => a.at.localeCompare(b.at) || a.id.localeCompare(b.id));
  const byId = new Map(ordered.map((message) => [message.id, message]));
  const threads = new Map<string, { root: SessionMessage; replies: SessionMessage[] }>();
  for (const message of ordered) {
    const root = rootOf(message, byId);
    if (root === message) threads.set(message.id, { root, replies: [] });
    else threads.get(root.id)?.replies.push(message);
  }
  return [...threads.values()];
}

function rootOf(
  message: SessionMessage,
  byId: ReadonlyMap<string, SessionMessage>,
): SessionMessage {
  let root = message;
  for (;;) {
    const above = root.replyTo === undefined ? undefined : byId.get(root.replyTo);
    if (above === undefined) return root;
    root = above;
  }
}
