import { noUsage } from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import { closingInstruction, endReason, isLastTurn } from './limits.ts';
import type { AgentState } from './state.ts';

function after(iterations: number): AgentState {
  return {
    id: 'root',
    parentId: null,
    name: 'assistant',
    model: 'demo',
    iterations,
    usage: noUsage,
    turn: null,
    ended: false,
  };
}

describe('the limit of turns', () => {
  const spec = { maxIterations: 3 };

  it('allows as many turns with tools as the caller said, and then one without', () => {
    expect([0, 1, 2, 3, 4].map((turns) => isLastTurn(after(turns), spec))).toEqual([
      false,
      false,
      false,
      true,
      true,
    ]);
  });

  it('is not what ended a run that answered within its turns', () => {
    expect(endReason(after(1), spec)).toBe('completed');
    expect(endReason(after(3), spec)).toBe('completed');
  });

  it('is what ended a run that needed the closing turn', () => {
    expect(endReason(after(4), spec)).toBe('limit');
  });

  it('tells the model that no tool can be called any more', () => {
    expect(closingInstruction.role).toBe('system');
    expect(closingInstruction.content).toMatch(/no tool can be called/);
  });
});
