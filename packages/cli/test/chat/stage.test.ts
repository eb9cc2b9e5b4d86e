import type { RunStreamEvent } from '@relay/sdk';
import { describe, expect, test } from 'vitest';
import { settled } from '../support/fake-world.ts';
import type { Decision, Request } from '../../src/chat/request.ts';
import { Stage } from '../../src/chat/stage.ts';
import { Interrupted } from '../../src/chat/terminal.ts';

const requestOf = (id: string) => ({ id, tool: 'send_note' }) as Request;
const token = (seq: number): RunStreamEvent => ({ type: 'token', text: String(seq), seq });

function scene(refusals: readonly (string | undefined)[] = []) {
  const log: string[] = [];
  const asking: { id: string; answer: (decision: Decision | undefined | Error) => void }[] = [];
  const left = [...refusals];
  const stage = new Stage({
    transcript: {
      endText: () => {},
      show: (event) => void log.push(`show ${event.seq}`),
    },
    asker: {
      ask: ({ id }, signal) =>
        new Promise((resolve, reject) => {
          log.push(`ask ${id}`);
          signal.addEventListener('abort', () => reject(signal.reason as Error));
          asking.push({
            id,
            answer: (decision) =>
              decision instanceof Error ? reject(decision) : resolve(decision),
          });
        }),
    },
    answer: async ({ id }, decision) => {
      log.push(`answer ${id} ${decision.approved}`);
      return left.shift();
    },
    say: (line) => void log.push(`say ${line.trim()}`),
    interrupt: () => void log.push('interrupt'),
    unanswered: async ({ id }) => void log.push(`open ${id}`),
  });
  const raise = (id: string) => stage.raise(id, async () => requestOf(id));
  return { stage, raise, log, asking };
}

describe('a stage', () => {
  test('asks about one request at a time, in the order in which they were raised', async () => {
    const { stage, raise, log, asking } = scene();
    raise('a');
    raise('b');
    await settled();
    expect(log).toEqual(['ask a']);
    asking[0]?.answer({ approved: true });
    await settled();
    asking[1]?.answer({ approved: false });
    await stage.finish();
    expect(log).toEqual(['ask a', 'answer a true', 'ask b', 'answer b false']);
  });

  test('shows nothing into a question, and everything behind it in order', async () => {
    const { stage, raise, log, asking } = scene();
    stage.show(token(1));
    raise('a');
    stage.show(token(2));
    await settled();
    stage.show(token(3));
    expect(log).toEqual(['show 1', 'ask a']);
    asking[0]?.answer({ approved: true });
    await settled();
    stage.show(token(4));
    expect(log).toEqual(['show 1', 'ask a', 'answer a true', 'show 2', 'show 3', 'show 4']);
    await stage.finish();
  });

  test('takes a question back that somebody else has answered, asked or not', async () => {
    const { stage, raise, log } = scene();
    raise('a');
    raise('b');
    await settled();
    stage.close('b');
    stage.close('a');
    await settled();
    await stage.finish();
    expect(log).toEqual(['ask a', 'say (it is no longer asked)']);
  });

  test('does not ask about what is over already', async () => {
    const { stage, log } = scene();
    stage.raise('old', async () => undefined);
    await stage.finish();
    expect(log).toEqual([]);
  });

  test('asks again if the answer was not taken, and says why', async () => {
    const { stage, raise, log, asking } = scene(['to: must be text']);
    raise('a');
    await settled();
    asking[0]?.answer({ approved: true, input: {} });
    await settled();
    asking[1]?.answer({ approved: true });
    await settled();
    await stage.finish();
    expect(log).toEqual([
      'ask a',
      'answer a true',
      'say to: must be text',
      'ask a',
      'answer a true',
    ]);
  });

  test('takes Ctrl-C at a question for the end of the run', async () => {
    const { stage, raise, log, asking } = scene();
    raise('a');
    await settled();
    asking[0]?.answer(new Interrupted());
    await stage.finish();
    expect(log).toEqual(['ask a', 'interrupt']);
  });

  test('leaves a request open if nobody is there, and ends with what went wrong', async () => {
    const { stage, raise, log, asking } = scene();
    raise('a');
    await settled();
    asking[0]?.answer(undefined);
    await settled();
    expect(log).toEqual(['ask a', 'open a']);
    stage.raise('b', async () => {
      throw new Error('no connection');
    });
    await settled();
    await expect(stage.finish()).rejects.toThrow('no connection');
  });
});
