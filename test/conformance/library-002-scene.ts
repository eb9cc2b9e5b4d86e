/** What the examples of 002 leave open: the messages, a tool, and whom `askUser` asks. */
import assert from 'node:assert';
import {
  createAgentHarness,
  createDeterministicHarness,
  type ScriptedEvent,
  type ToolDefinition,
  unregisterModel,
} from '@relay/agents';
import { z } from 'zod';

export const messages = [{ role: 'user', content: 'Begin' }];
export const ran: string[] = [];
export const questions: string[] = [];

export const bashTool: ToolDefinition = {
  name: 'bash',
  description: 'Run a command',
  schema: z.object({ command: z.string() }),
  execute: async ({ command }) => {
    ran.push(command);
    return { context: `$ ${command}` };
  },
};

/** Before the next example. */
export function forget(): void {
  ran.length = 0;
  questions.length = 0;
  unregisterModel('glm-4.7');
}

export function bash(id: string, command: string): ScriptedEvent {
  return { type: 'tool_call', id, name: 'bash', input: { command } };
}

/** A model that makes these calls, a turn each. */
export function scripted(...calls: readonly ScriptedEvent[]) {
  const responses = calls.map((call) => ({ events: [call] }));
  return createDeterministicHarness({ responses }, { relayTimeoutMs: Infinity });
}

export function agentFor(...calls: readonly ScriptedEvent[]) {
  return createAgentHarness({ harness: scripted(...calls) });
}

/** Asks somebody who has thought about it before. */
export function asking<Answer>(answers: readonly Answer[]) {
  return async (question: string): Promise<Answer> => {
    const answer = answers[questions.push(question) - 1];
    assert(answer !== undefined, `Nobody expected the question ${question}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
    return answer;
  };
}
