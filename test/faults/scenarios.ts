import type { Model } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  type RecordingTool,
  text,
  toolCall,
} from '@relay/core/testing';

export interface Scenario {
  readonly name: string;
  readonly tools: readonly RecordingTool[];
  readonly model: Model;
}

/** The scenarios of the crash matrix, fresh for each crash point. */
export const scenarios: Readonly<Record<string, () => Scenario>> = {
  plain: () => ({
    name: 'plain',
    tools: [],
    model: createScriptedModel([[text('One '), text('two '), text('three.'), finish()]]),
  }),

  'idempotent tool': () => ({
    name: 'idempotent tool',
    tools: [createRecordingTool({ name: 'look', allowedByDefault: true, idempotent: true })],
    model: createScriptedModel([
      [text('Let me look. '), toolCall('call_1', 'look', { at: 'it' }), finish()],
      [text('Seen.'), finish()],
    ]),
  }),

  'tool that must not run twice': () => ({
    name: 'tool that must not run twice',
    tools: [createRecordingTool({ name: 'pay', allowedByDefault: true })],
    model: createScriptedModel([
      [toolCall('call_1', 'pay', { amount: 7 }), finish()],
      [text('Paid.'), finish()],
    ]),
  }),

  'two parallel approvals': () => ({
    name: 'two parallel approvals',
    tools: [createRecordingTool({ name: 'pay' })],
    model: createScriptedModel([
      [
        text('Two payments. '),
        toolCall('call_1', 'pay', { amount: 1 }),
        toolCall('call_2', 'pay', { amount: 2 }),
        finish(),
      ],
      [text('Both done.'), finish()],
    ]),
  }),

  'two turns with an approval each': () => ({
    name: 'two turns with an approval each',
    tools: [
      createRecordingTool({ name: 'pay' }),
      createRecordingTool({ name: 'look', allowedByDefault: true, idempotent: true }),
    ],
    model: createScriptedModel([
      [toolCall('call_1', 'pay', { amount: 1 }), toolCall('call_2', 'look', {}), finish()],
      [text('Again. '), toolCall('call_3', 'pay', { amount: 2 }), finish()],
      [text('Done.'), finish()],
    ]),
  }),
};
