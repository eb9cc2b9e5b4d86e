/** The columns of the board. */
import type { AgentStatus } from '@relay/sdk';

export type Column = 'input' | 'working' | 'idle' | 'offline' | 'ended';

export const columns: readonly { readonly column: Column; readonly title: string }[] = [
  { column: 'input', title: 'Needs input' },
  { column: 'working', title: 'Working' },
  { column: 'idle', title: 'Idle' },
  { column: 'offline', title: 'Offline' },
  { column: 'ended', title: 'Ended' },
];

/** `failed` is beside `offline`: neither can be reached, and both stay until they are released. */
const columnOfStatus: Readonly<Record<AgentStatus, Column>> = {
  waiting: 'input',
  blocked: 'input',
  starting: 'working',
  active: 'working',
  releasing: 'working',
  idle: 'idle',
  paused: 'idle',
  offline: 'offline',
  failed: 'offline',
  released: 'ended',
};

export const sessionStatuses = Object.keys(columnOfStatus) as readonly AgentStatus[];

export function columnOf(status: AgentStatus): Column {
  return columnOfStatus[status];
}
