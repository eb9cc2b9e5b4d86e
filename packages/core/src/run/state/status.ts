/** The commands that a run accepts in each status. The table is total; a refused command changes nothing. */
import type { RunStatus } from '@relay/protocol';

export const commands = [
  'start',
  'message',
  'suspend',
  'resume',
  'complete',
  'fail',
  'cancel',
] as const;
export type CommandName = (typeof commands)[number];

const allRefused = {
  start: 'refused',
  message: 'refused',
  suspend: 'refused',
  resume: 'refused',
  complete: 'refused',
  fail: 'refused',
  cancel: 'refused',
} as const;

export const runTable: Record<RunStatus, Record<CommandName, RunStatus | 'refused'>> = {
  queued: {
    ...allRefused,
    start: 'running',
    fail: 'failed',
    cancel: 'canceled',
  },
  running: {
    ...allRefused,
    message: 'running',
    suspend: 'waiting',
    complete: 'completed',
    fail: 'failed',
    cancel: 'canceled',
  },
  waiting: { ...allRefused, resume: 'running', fail: 'failed', cancel: 'canceled' },
  completed: allRefused,
  failed: allRefused,
  canceled: allRefused,
};
