import type { Control } from '@relay/core';
import type { AuthContext } from './auth.ts';
import type { Hub } from './hub.ts';

/** What every handler can reach. */
export interface ServerContext extends AuthContext {
  readonly control: Control;
  readonly hub: Hub;
  readonly version: string;
  readonly isStopping: () => boolean;
}
