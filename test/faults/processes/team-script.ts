/**
 * What the agents of the team task do with each message. A message that enters a turn takes it over, so
 * the order in which messages are read decides what is done.
 *
 * A crash repeats a model call, before which messages may enter that would have come later without it. So
 * no script does anything after an answer that it holds for messages to come.
 */
import type { Part } from './model-server.ts';

type Script = readonly (readonly Part[])[];

const never: Part = { hold: 'never' };

function use(name: string, tag: string): Part {
  return { call: `call_${tag}`, name, args: { tag, n: 1 } };
}

const both = (agent: string): Readonly<Record<string, Script>> => ({
  plan: [['Looking. ', use('look', `plan-${agent}`)], ['Planned.']],
  // Only an interruption ends these.
  build: [['Building … ', never]],
  'take the small one': [['Building the small one … ', never]],
  'stop, charge it': [['Charging. ', use('charge', `stop-${agent}`)], ['Charged.']],
  'archive it': [['Charging. ', use('charge', `archive-${agent}`)], ['Archived.']],
});

export const teamScripts: Readonly<Record<string, Readonly<Record<string, Script>>>> = {
  builder: {
    ...both('builder'),
    'then pay': [['May I? ', use('pay', 'pay-builder')], ['Paid.']],
    'it is fine': [['Paid, as you wished.']],
    'get a review': [
      [
        'Asking … ',
        { hold: 'review' },
        {
          call: 'call_review',
          name: 'send_message',
          args: { to: ['#team', '@tester'], text: 'review it', mode: 'next-message' },
        },
      ],
    ],
  },
  tester: {
    ...both('tester'),
    'then pay': [['Looking. ', use('look', 'pay-tester')], ['Looked.']],
    'get a review': [['Waiting … ', { hold: 'review' }, 'Here.']],
    'review it': [[use('look', 'review-tester')], ['Reviewed.']],
    'ship it @tester': [
      ['Shipping … ', { hold: 'ship' }, use('look', 'ship-tester')],
      ['Shipped.'],
    ],
  },
};
