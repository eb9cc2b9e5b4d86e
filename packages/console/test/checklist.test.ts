import type { Approval, Grant, Policy, Run } from '@relay/protocol/wire';
import { describe, expect, it } from 'vitest';
import { isStillOpen, stepsDone } from '../src/frame/checklist/steps.ts';

const outage = { from: Date.parse('2026-11-02T12:00:00Z'), to: Date.parse('2026-11-02T12:00:30Z') };

function run(createdAt: string, endedAt?: string, status: Run['status'] = 'completed'): Run {
  return { createdAt, endedAt, status } as Run;
}

function approval(type: 'key' | 'rule'): Approval {
  return { decidedBy: { type, id: 'id', name: 'name' } } as Approval;
}

describe('The first-run checklist', () => {
  it('has nothing done on a fresh server', () => {
    const policy = { version: 0 } as Policy;
    const models = [{ id: 'demo', provider: 'demo' }];
    const found = { runs: [], approved: [], grants: [], policy, models, credentials: 0, marks: [] };
    expect([...stepsDone(found)]).toEqual([]);
  });

  it('counts an approval by a person, and not one by a rule', () => {
    expect(stepsDone({ approved: [approval('rule')], marks: [] }).has('approve')).toBe(false);
    expect(stepsDone({ approved: [approval('key')], marks: [] }).has('approve')).toBe(true);
  });

  it('counts a run that was open when the connection was lost and has completed since', () => {
    const isDone = (each: Run) => stepsDone({ runs: [each], outage, marks: [] }).has('restart');
    expect(isDone(run('2026-11-02T11:59:00Z', '2026-11-02T12:01:00Z'))).toBe(true);
    expect(isDone(run('2026-11-02T11:59:00Z', '2026-11-02T11:59:30Z'))).toBe(false);
    expect(isDone(run('2026-11-02T12:01:00Z', '2026-11-02T12:02:00Z'))).toBe(false);
    expect(isDone(run('2026-11-02T11:59:00Z', '2026-11-02T12:01:00Z', 'failed'))).toBe(false);
    expect(isDone(run('2026-11-02T11:59:00Z', undefined, 'waiting'))).toBe(false);
    expect(isStillOpen([run('2026-11-02T11:59:00Z', undefined, 'waiting')], outage)).toBe(true);
    expect(stepsDone({ runs: [], marks: ['restart'] }).has('restart')).toBe(true);
  });

  it('counts a provider by its key or by its models, and a rule as a grant or in the policy', () => {
    const models = [{ id: 'gpt', provider: 'openai' }];
    expect(stepsDone({ models, marks: [] }).has('provider')).toBe(true);
    expect(stepsDone({ credentials: 1, marks: [] }).has('provider')).toBe(true);
    expect(stepsDone({ grants: [{} as Grant], marks: [] }).has('rule')).toBe(true);
    expect(stepsDone({ policy: { version: 1 } as Policy, marks: [] }).has('rule')).toBe(true);
  });
});
