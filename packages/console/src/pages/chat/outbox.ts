/**
 * Messages on their way to the server. A message is shown as being sent until the journal of a run has it:
 * as the input of a new run, or as a message that a run received while it was going on.
 */
import { defined, type MessageContent } from '@relay/protocol/wire';
import { RelayApiError, type Run } from '@relay/sdk';
import type { InfiniteData } from '@tanstack/react-query';
import { useSyncExternalStore } from 'react';
import { client } from '../../api/client.ts';
import { queries } from '../../api/queries.ts';
import { errorText } from '../../ui/notice.tsx';
import { resolveChoice } from './options.ts';

export interface NewMessage {
  readonly conversationId: string;
  readonly content: MessageContent;
  readonly agent: string | undefined;
  readonly model: string | undefined;
}

export interface Sent extends NewMessage {
  readonly key: string;
  readonly at: string;
  /** The run that it was sent to; undefined for a message that starts one. */
  readonly to: string | undefined;
  /** The runs that the conversation had before: the run of this message is another one. */
  readonly earlier: ReadonlySet<string>;
  /** The run that it has started. */
  readonly runId: string | undefined;
  /** The message that the run receives. */
  readonly messageId: string | undefined;
  /** Why the server has not taken it. */
  readonly error: string | undefined;
}

let sent: readonly Sent[] = [];
let lastKey = 0;
const watchers = new Set<() => void>();

function update(next: readonly Sent[]): void {
  sent = next;
  for (const watcher of watchers) watcher();
}

function change(key: string, changes: Partial<Sent>): void {
  update(sent.map((each) => (each.key === key ? { ...each, ...changes } : each)));
}

export function removeSent(keys: readonly string[]): void {
  if (keys.length > 0) update(sent.filter(({ key }) => !keys.includes(key)));
}

/** Those of all conversations. */
export function useSent(): readonly Sent[] {
  return useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher);
      return () => void watchers.delete(watcher);
    },
    () => sent,
  );
}

function add(
  { conversationId, content, agent, model }: NewMessage,
  more: Pick<Sent, 'to' | 'earlier'>,
): Sent {
  lastKey += 1;
  const added: Sent = {
    conversationId,
    content,
    agent,
    model,
    ...more,
    key: `sent${lastKey}`,
    at: new Date().toISOString(),
    runId: undefined,
    messageId: undefined,
    error: undefined,
  };
  update([...sent, added]);
  return added;
}

/** Starts a run that continues the conversation, or begins it. */
export async function sendMessage(
  message: NewMessage,
  earlier: ReadonlySet<string>,
): Promise<void> {
  const { key } = add(message, { to: undefined, earlier });
  const { conversationId, content } = message;
  try {
    const { agent, model } = await resolveChoice(message);
    const run = await client.runs.sendMessage({
      message: content,
      conversationId,
      ...defined({ agent, model }),
    });
    change(key, { runId: run.id });
    showRun(conversationId, await client.runs.get(run.id));
    void queries.invalidateQueries({ queryKey: ['conversations'] });
  } catch (error) {
    change(key, { error: errorText(error) });
  }
}

/** Its answer is shown even if the list cannot be read at this moment. */
function showRun(conversationId: string, run: Run): void {
  const queryKey = ['runs', 'conversation', conversationId];
  queries.setQueryData<InfiniteData<{ readonly items: readonly Run[] }>>(queryKey, (known) => {
    const [first, ...others] = known?.pages ?? [];
    if (known === undefined || first === undefined) return known;
    const items = [run, ...first.items.filter(({ id }) => id !== run.id)];
    return { ...known, pages: [{ ...first, items }, ...others] };
  });
  void queries.invalidateQueries({ queryKey });
}

/** Sends a text to a run that is going on. */
export async function sendToRun(
  message: NewMessage & { readonly content: string },
  runId: string,
): Promise<void> {
  const { key } = add(message, { to: runId, earlier: new Set() });
  try {
    const { id } = await client.runs.message(runId, { text: message.content });
    change(key, { messageId: id });
  } catch (error) {
    if (error instanceof RelayApiError && error.code === 'run_ended') {
      // It has ended meanwhile: the message continues the conversation.
      removeSent([key]);
      await sendMessage(message, new Set([runId]));
    } else change(key, { error: errorText(error) });
  }
}
