import type { RequirementId } from './requirements.ts';

// What no test cites yet. Citing a requirement and taking it out of here go together.
export const open: readonly RequirementId[] = [
  // 000: the chat relay endpoint
  // 001: the chat runtime
  // 002: the permissions library
  // 003: the HTTP API
  // 004: session capabilities
  '004:lifecycle:fork',
  '004:lifecycle:snapshot',
  '004:negotiation:fork',
  '004:negotiation:snapshot',
];
