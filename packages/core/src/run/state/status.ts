/** What a run can be told in each status. The table is total: whatever it refuses changes nothing. */
import type { RunStatus } from '@relay/protocol';

export const commands = ['start', 'suspend', 'resume', 'complete', 'fail', 'cancel'] as const;
export type CommandName = (typeof commands)[number];

export const runTable: Record<RunStatus, Record<CommandName, RunStatus | 'refused'>> = {
  queued: {
    start: 'running',
    suspend: 'refused',
    resume: 'refused',
    complete: 'refused',
    fail: 'failed',
    cancel: 'canceled',
  },
  running: {
    start: 'refused',
    suspend: 'waiting',
    resume: 'refused',
    complete: 'completed',
    fail: 'failed',
    cancel: 'canceled',
  },
  waiting: {
    start: 'refused',
    suspend: 'refused',
    resume: 'running',
    complete: 'refused',
    fail: 'failed',
    cancel: 'canceled',
  },
  completed: refuseAll(),
  failed: refuseAll(),
  canceled: refuseAll(),
};

function refuseAll(): Record<CommandName, 'refused'> {
  return {
    start: 'refused',
    suspend: 'refused',
    resume: 'refused',
    complete: 'refused',
    fail: 'refused',
    cancel: 'refused',
  };
}
