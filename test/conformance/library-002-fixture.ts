/** Fixtures that the examples of 002 need: messages, a tool and scripted answers of a user. */
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

/** Runs after each example. */
export function reset(): void {
  ran.length = 0;
  questions.length = 0;
  unregisterModel('glm-4.7');
}

export function bash(id: string, command: string): ScriptedEvent {
  return { type: 'tool_call', id, name: 'bash', input: { command } };
}

/** A model that makes these calls, one per turn. */
export function scripted(...calls: readonly ScriptedEvent[]) {
  const responses = calls.map((call) => ({ events: [call] }));
  return createDeterministicHarness({ responses }, { relayTimeoutMs: Infinity });
}

export function agentFor(...calls: readonly ScriptedEvent[]) {
  return createAgentHarness({ harness: scripted(...calls) });
}

/** A user who gives these answers in order. */
export function scriptedAnswers<Answer>(answers: readonly Answer[]) {
  return async (question: string): Promise<Answer> => {
    const answer = answers[questions.push(question) - 1];
    assert(answer !== undefined, `Unexpected question: ${question}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
    return answer;
  };
}
