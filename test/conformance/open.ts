import type { RequirementId } from './requirements.ts';

// What no test cites yet. Citing a requirement and taking it out of here go together.
export const open: readonly RequirementId[] = [
  // 000: the chat relay endpoint
  // 001: the chat runtime
  // 002: the permissions library
  // 003: the HTTP API
  // 004: session capabilities
];
