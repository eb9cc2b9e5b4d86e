/** Two agents and a person in one channel, while nothing goes wrong. `kill-team` compares the rest to it. */
import { type StoredEvent, textOf } from '@relay/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Environment } from '../faults/chaos/environment.ts';
import { playTeam, type TeamPlay } from '../faults/chaos/team.ts';

let environment: Environment | undefined;
let play: TeamPlay;
beforeAll(async () => {
  environment = await Environment.sqlite();
  play = await playTeam(environment);
}, 60_000);
afterAll(() => environment?.dispose());

/** The boundaries of a run, and the messages that entered at them. */
function boundariesOf(events: readonly StoredEvent[] = []): string[] {
  return events.flatMap((event) => {
    switch (event.type) {
      case 'turn.discarded':
        return `discarded: ${event.reason}`;
      case 'message.added':
        return `message: ${textOf(event.content)}`;
      case 'tool.completed':
        return `result: ${event.name}`;
      case 'run.ended':
        return `ended: ${event.status}`;
      default:
        return [];
    }
  });
}

describe('two agents and a person in one channel', () => {
  test('read messages in the order of their modes, not in that in which they were sent', () => {
    const { consumed, read, shown, violations } = play.result;
    expect(violations).toEqual([]);
    expect(consumed).toEqual({
      builder: [
        'plan',
        'build',
        'take the small one',
        'stop, charge it',
        'then pay',
        'it is fine',
        'get a review',
        'Reviewed.',
        'archive it',
        'ship it @tester',
        'Shipped.',
      ],
      tester: [
        'plan',
        'build',
        'take the small one',
        'stop, charge it',
        'then pay',
        'get a review',
        'review it',
        'archive it',
        'ship it @tester',
      ],
      pat: ['Paid, as you wished.', 'review it', 'Reviewed.', 'Shipped.'],
    });
    expect(read).toEqual({ builder: consumed['builder'], tester: consumed['tester'] });
    expect(shown).toEqual(consumed['pat']);
  });

  test('take each message at the boundary of its mode', () => {
    // The one for idle and the one for a flush are in no turn but their own.
    expect(boundariesOf(play.builds['builder'])).toEqual([
      'discarded: message',
      'message: take the small one',
      'message: stop, charge it',
      'result: charge',
      'message: then pay',
      'result: pay',
      'message: it is fine',
      'ended: completed',
    ]);
    expect(boundariesOf(play.builds['tester'])).toEqual([
      'discarded: message',
      'message: take the small one',
      'message: stop, charge it',
      'result: charge',
      'message: then pay',
      'result: look',
      'ended: completed',
    ]);
  });

  test('send each message and reply once, and use each tool once', () => {
    expect(play.result.messages).toEqual([
      'builder to #team,@tester (next-message): "review it"',
      'builder to @pat (on-idle): "Paid, as you wished.", to "it is fine"',
      'pat to #team (immediate): "stop, charge it"',
      'pat to #team (manual): "archive it"',
      'pat to #team (next-message): "take the small one"',
      'pat to #team (next-tool-call): "then pay"',
      'pat to #team (on-idle): "build"',
      'pat to #team (on-idle): "get a review"',
      'pat to #team (on-idle): "plan"',
      'pat to #team (on-idle): "ship it @tester"',
      'pat to @builder (immediate): "it is fine"',
      'tester to #team (on-idle): "Reviewed.", to "review it"',
      'tester to #team (on-idle): "Shipped.", to "ship it @tester"',
    ]);
    expect(play.result.effects).toEqual([
      'charge call_archive-builder',
      'charge call_archive-tester',
      'charge call_stop-builder',
      'charge call_stop-tester',
      'look call_pay-tester',
      'look call_plan-builder',
      'look call_plan-tester',
      'look call_review-tester',
      'look call_ship-tester',
      'pay call_pay-builder',
    ]);
  });
});
