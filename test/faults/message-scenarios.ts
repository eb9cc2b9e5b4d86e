/** Runs that people talk to while they work: messages of every mode, and pauses. */
import { type Model, pauseRun, postMessage, type RunRef, unpauseRun } from '@relay/core';
import { createRecordingTool, finish, text, toolCall } from '@relay/core/testing';
import { type Message, type MessageMode, type StoredEvent, textOf } from '@relay/protocol';
import { type Kernel, openApprovals } from '../support/kernel.ts';
import { runIn, type Scenario } from './scenarios.ts';

const from = { type: 'session', id: 'session-ada', name: 'ada' } as const;

/** Posts a message that was not acknowledged yet: it is neither in the inbox nor in the journal. */
async function sendOnce(
  kernel: Kernel,
  ref: RunRef,
  { messageId, mode }: { messageId: string; mode: MessageMode },
): Promise<void> {
  const isTaken = async () => {
    const added = await kernel.store
      .tenant(ref.tenantId)
      .readEvents(ref.runId, { after: 0, limit: 10_000 });
    return added.some((event) => event.type === 'message.added' && event.messageId === messageId);
  };
  const inbox = await kernel.store.tenant(ref.tenantId).readInbox(ref.runId);
  // In this order: a command that was in the inbox may be in the journal by now.
  if (inbox.some(({ id }) => id === messageId) || (await isTaken())) return;
  await postMessage(kernel.control, ref, { messageId, mode, from, content: messageId });
}

function hasRead(messages: readonly Message[], messageId: string): boolean {
  return messages.some(({ role, content }) => role === 'user' && textOf(content) === messageId);
}

function countOf(events: readonly StoredEvent[], type: StoredEvent['type']): number {
  return events.filter((event) => event.type === type).length;
}

/** A stream without output, as long as it is to wait. */
async function* keptOpen(waits: () => boolean): AsyncGenerator<[]> {
  while (waits()) {
    yield [];
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

export const messageScenarios: Readonly<Record<string, () => Scenario>> = {
  'messages of every mode': () => {
    let isLatePosted = false;
    /** It goes on only when it is interrupted, and answers when the last message is on its way. */
    const model: Model = {
      async *stream({ messages }, signal) {
        if (!hasRead(messages, 'now')) {
          yield [text('To begin ')];
          yield* keptOpen(() => !signal.aborted);
        } else if (!hasRead(messages, 'after the tool')) {
          yield [text('I pay. '), toolCall('call_1', 'pay', { amount: 1 }), finish()];
        } else {
          yield [text('Paid.')];
          yield* keptOpen(() => !signal.aborted && !isLatePosted);
          yield [finish()];
        }
      },
    };
    return {
      name: 'messages of every mode',
      tools: [createRecordingTool({ name: 'pay' })],
      model,
      shows: 'message.added',
      async acts(kernel, ref, events) {
        if (countOf(events, 'text.appended') === 0) return;
        // The first one waits for the tool, although the second one interrupts the model.
        await sendOnce(kernel, ref, { messageId: 'after the tool', mode: 'next-tool-call' });
        await sendOnce(kernel, ref, { messageId: 'now', mode: 'immediate' });
        if (openApprovals(events).length > 0) {
          await sendOnce(kernel, ref, { messageId: 'next', mode: 'next-message' });
          await sendOnce(kernel, ref, { messageId: 'at once', mode: 'immediate' });
        }
        const last = events.findLastIndex(({ type }) => type === 'message.added');
        if (countOf(events, 'message.added') < 4) return;
        if (countOf(events.slice(last), 'text.appended') === 0) return;
        await sendOnce(kernel, ref, { messageId: 'too late', mode: 'next-tool-call' });
        isLatePosted = true;
      },
      async leaves(store) {
        const { tenant, runId } = await runIn(store);
        const events = await tenant.readEvents(runId, { after: 0, limit: 10_000 });
        return {
          taken: events.flatMap((event) => (event.type === 'message.added' ? event.messageId : [])),
          left: (await tenant.readInbox(runId)).map(({ id }) => id),
        };
      },
    };
  },

  'a pause': () => ({
    name: 'a pause',
    tools: [createRecordingTool({ name: 'pay' })],
    model: {
      async *stream({ messages }) {
        if (messages.at(-1)?.role === 'tool') yield [text('Paid.'), finish()];
        else yield [toolCall('call_1', 'pay', { amount: 1 }), finish()];
      },
    },
    async acts(kernel, ref, events) {
      const tenant = kernel.store.tenant(ref.tenantId);
      const run = await tenant.readRun(ref.runId);
      const kinds = (await tenant.readInbox(ref.runId)).map(({ command }) => command.kind);
      const isPaused = kinds.includes('pause');
      if (openApprovals(events).length > 0) {
        if (!isPaused) await pauseRun(kernel.control, ref);
      } else if (run?.status === 'waiting' && isPaused && !kinds.includes('resume')) {
        await unpauseRun(kernel.control, ref);
      }
    },
    async leaves(store) {
      const { tenant, runId } = await runIn(store);
      return tenant.readInbox(runId);
    },
  }),
};
