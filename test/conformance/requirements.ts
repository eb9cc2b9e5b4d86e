import type { Requirement } from './requirement.ts';
import { chat } from './seeds/chat-000.ts';
import { library } from './seeds/library-002.ts';
import { runs } from './seeds/runs-003.ts';
import { runtime } from './seeds/runtime-001.ts';
import { session } from './seeds/session-004.ts';

/** Every sentence of the seeds that can be tested. */
export const requirements = [
  ...chat,
  ...runtime,
  ...library,
  ...runs,
  ...session,
] as const satisfies readonly Requirement[];

export type RequirementId = (typeof requirements)[number]['id'];
