import type { AgentReport } from '@relay/core';
import {
  createRecordingTool,
  createScriptedModel,
  finish,
  type RecordingTool,
  text,
  toolCall,
} from '@relay/core/testing';
import { agentTool } from '@relay/tools';
import { createScriptedAgents, delegate, says } from '../loop/scripted-agents.ts';
import { createPages, createPageReader } from '../loop/page-reader.ts';
import type { Scenario } from './scenarios.ts';

/** Scenarios of the crash matrix with more than one agent, or more than a window takes. */
export const treeScenarios: Readonly<Record<string, () => Scenario>> = {
  'agents three deep with an approval': () => ({
    name: 'agents three deep with an approval',
    tools: [
      createRecordingTool({ name: 'pay' }),
      createRecordingTool({ name: 'look', allowedByDefault: true, idempotent: true }),
    ],
    delegates: [agentTool],
    model: createScriptedAgents({
      Begin: [[text('I ask. '), delegate('call_1', 'Middle'), finish()], says('All done.')],
      Middle: [
        [delegate('call_2', 'Deep'), toolCall('call_3', 'look', {}), finish()],
        says('Managed.'),
      ],
      Deep: [[text('I pay. '), toolCall('call_4', 'pay', { amount: 7 }), finish()], says('Paid.')],
    }),
  }),

  'two agents side by side': () => ({
    name: 'two agents side by side',
    tools: [createRecordingTool({ name: 'pay' })],
    delegates: [agentTool],
    model: createScriptedAgents({
      Begin: [[delegate('call_1', 'One'), delegate('call_2', 'Two'), finish()], says('Both.')],
      One: [[toolCall('pay_1', 'pay', { amount: 1 }), finish()], says('One.')],
      Two: [says('Two.')],
    }),
  }),

  'ctx.spawn in an idempotent tool': () => ({
    name: 'ctx.spawn in an idempotent tool',
    tools: [createSpawningTool(['One', 'Two']), createRecordingTool({ name: 'pay' })],
    model: createScriptedAgents({
      Begin: [[toolCall('call_1', 'team', {}), finish()], says('Done.')],
      One: [says('One.')],
      Two: [[toolCall('call_2', 'pay', { amount: 1 }), finish()], says('Two.')],
    }),
  }),

  handoff: () => {
    const big = createScriptedModel([
      [],
      [toolCall('call_3', 'look', {}), finish()],
      says('The expert is done.'),
    ]);
    return {
      name: 'handoff',
      tools: [
        createRecordingTool({ name: 'pay' }),
        createRecordingTool({ name: 'look', allowedByDefault: true, idempotent: true }),
      ],
      model: createScriptedModel([
        [
          toolCall('call_1', 'handoff', { agent: 'expert' }),
          toolCall('call_2', 'pay', { amount: 1 }),
          finish(),
        ],
      ]),
      options: { models: { big }, agents: [{ name: 'expert', model: 'big', tools: ['look'] }] },
      request: { handoffs: ['expert'] },
      shows: 'agent.switched',
    };
  },

  compaction: () => ({
    name: 'compaction',
    tools: [createPages(100)],
    model: createPageReader({ pages: 5, contextTokens: 700 }),
    request: { maxIterations: 20 },
    shows: 'context.compacted',
  }),

  'a limit of calls': () => ({
    name: 'a limit of calls',
    tools: [createRecordingTool({ name: 'pay' })],
    delegates: [agentTool],
    model: createScriptedAgents({
      Begin: [[delegate('call_1', 'One'), finish()], says('Enough.')],
      One: [
        [
          toolCall('pay_1', 'pay', { amount: 1 }),
          toolCall('pay_2', 'pay', { amount: 2 }),
          finish(),
        ],
        says('No more.'),
      ],
    }),
    request: { limits: { toolCalls: 2 } },
    shows: 'limit.reached',
  }),
};

/** Lets agents work one after the other, and finds them again after a crash. */
function createSpawningTool(prompts: readonly string[]): RecordingTool {
  return createRecordingTool({
    name: 'team',
    allowedByDefault: true,
    idempotent: true,
    async execute(_input, { spawn }) {
      const reports: AgentReport[] = [];
      for (const prompt of prompts) reports.push(await spawn({ prompt }));
      return { context: reports.map(({ output }) => output).join(' ') };
    },
  });
}
