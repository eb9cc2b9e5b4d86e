import { once } from 'node:events';
import type { RunStreamEvent } from '@relay/sdk';
import { describe, expect, test } from 'vitest';
import { settled } from '../support/environment.ts';
import type { ApprovalRequest, Decision } from '../../src/chat/client.ts';
import { TurnView } from '../../src/chat/turn-view.ts';
import { Interrupted } from '../../src/chat/terminal.ts';

const requestOf = (id: string) => ({ id, tool: 'send_note' }) as ApprovalRequest;
const token = (seq: number): RunStreamEvent => ({ type: 'token', text: String(seq), seq });

/** Instead of a rejection: the decision is not sent before the signal is aborted. */
const unreachable = 'unreachable';

function turnView(rejections: readonly (string | undefined)[] = []) {
  const log: string[] = [];
  const asking: { id: string; answer: (decision: Decision | undefined | Error) => void }[] = [];
  const left = [...rejections];
  const view = new TurnView({
    transcript: {
      endText: () => {},
      show: (event) => void log.push(`show ${event.seq}`),
    },
    prompt: {
      ask: ({ id }, signal, rejected) =>
        new Promise((resolve, reject) => {
          log.push(`ask ${id}${rejected === undefined ? '' : ' again'}`);
          signal.addEventListener('abort', () => reject(signal.reason as Error));
          asking.push({
            id,
            answer: (decision) =>
              decision instanceof Error ? reject(decision) : resolve(decision),
          });
        }),
    },
    decide: async ({ id }, decision, signal) => {
      log.push(`decide ${id} ${decision.approved}`);
      const rejection = left.shift();
      if (rejection !== unreachable) return rejection;
      await once(signal, 'abort');
      throw new Error('not sent');
    },
    decision: async (id) => (id === 'a' ? 'denied by ada just now' : undefined),
    writeLine: (line) => void log.push(`write ${line.trim()}`),
    interrupt: () => void log.push('interrupt'),
    undecided: async ({ id }) => void log.push(`undecided ${id}`),
    unsent: ({ id }) => void log.push(`unsent ${id}`),
  });
  const enqueue = (id: string) => view.enqueue(id, async () => requestOf(id));
  return { view, enqueue, log, asking };
}

describe('TurnView', () => {
  test('prompts for one approval at a time, in order', async () => {
    const { view, enqueue, log, asking } = turnView();
    enqueue('a');
    enqueue('b');
    await settled();
    expect(log).toEqual(['ask a']);
    asking[0]?.answer({ approved: true });
    await settled();
    asking[1]?.answer({ approved: false });
    await view.finish();
    expect(log).toEqual(['ask a', 'decide a true', 'ask b', 'decide b false']);
  });

  test('shows events after an open prompt, in order', async () => {
    const { view, enqueue, log, asking } = turnView();
    view.show(token(1));
    enqueue('a');
    view.show(token(2));
    await settled();
    view.show(token(3));
    expect(log).toEqual(['show 1', 'show 2', 'ask a']);
    asking[0]?.answer({ approved: true });
    await settled();
    view.show(token(4));
    expect(log).toEqual(['show 1', 'show 2', 'ask a', 'decide a true', 'show 3', 'show 4']);
    await view.finish();
  });

  test('shows the events of one prompt before the next', async () => {
    const { view, enqueue, log, asking } = turnView();
    enqueue('a');
    enqueue('b');
    await settled();
    view.show(token(1));
    asking[0]?.answer({ approved: true });
    await settled();
    asking[1]?.answer({ approved: true });
    await view.finish();
    expect(log).toEqual(['ask a', 'decide a true', 'show 1', 'ask b', 'decide b true']);
  });

  test('dismisses prompts that were decided elsewhere, open or queued', async () => {
    const { view, enqueue, log } = turnView();
    enqueue('a');
    enqueue('b');
    await settled();
    view.dismiss('b', 'approved');
    view.dismiss('a', 'denied');
    await settled();
    await view.finish();
    expect(log).toEqual(['ask a', 'write (denied by ada just now)']);
  });

  test('does not prompt for an approval that is no longer pending', async () => {
    const { view, log } = turnView();
    view.enqueue('old', async () => undefined);
    await view.finish();
    expect(log).toEqual([]);
  });

  test('prompts again if the decision was rejected, and shows why', async () => {
    const { view, enqueue, log, asking } = turnView(['to: must be text']);
    enqueue('a');
    await settled();
    asking[0]?.answer({ approved: true, input: {} });
    await settled();
    asking[1]?.answer({ approved: true });
    await settled();
    await view.finish();
    expect(log).toEqual([
      'ask a',
      'decide a true',
      'write to: must be text',
      'ask a again',
      'decide a true',
    ]);
  });

  test('says who decided, if that was meanwhile the reason of a rejection', async () => {
    const { view, log, asking } = turnView(['it was changed']);
    let isPending = true;
    view.enqueue('a', async () => (isPending ? requestOf('a') : undefined));
    await settled();
    isPending = false;
    asking[0]?.answer({ approved: true });
    await settled();
    await view.finish();
    expect(log.slice(2)).toEqual(['write it was changed', 'write (denied by ada just now)']);
  });

  test('interrupts the run on Ctrl-C at a prompt', async () => {
    const { view, enqueue, log, asking } = turnView();
    enqueue('a');
    await settled();
    asking[0]?.answer(new Interrupted());
    await view.finish();
    expect(log).toEqual(['ask a', 'interrupt']);
  });

  test('withdraws a decision that was not sent, and prompts for nothing more', async () => {
    const { view, enqueue, log, asking } = turnView([unreachable]);
    enqueue('a');
    enqueue('b');
    await settled();
    asking[0]?.answer({ approved: true });
    await settled();
    view.withdraw();
    await view.finish();
    expect(log).toEqual(['ask a', 'decide a true', 'unsent a']);
  });

  test('reports an undecided approval, and throws errors at the end', async () => {
    const { view, enqueue, log, asking } = turnView();
    enqueue('a');
    await settled();
    asking[0]?.answer(undefined);
    await settled();
    expect(log).toEqual(['ask a', 'undecided a']);
    view.enqueue('b', async () => {
      throw new Error('no connection');
    });
    await settled();
    await expect(view.finish()).rejects.toThrow('no connection');
  });
});
