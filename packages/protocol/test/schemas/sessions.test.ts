import { describe, expect, it } from 'vitest';
import {
  agentSessionEventTypes,
  type AgentSessionCapabilities,
  capabilitiesSchema,
  capabilityPaths,
  handleSchema,
} from '../../src/schemas/sessions.ts';
import { deliveryModes } from '../../src/schemas/names.ts';

const capabilities = {
  messaging: { receive: true, send: true, attachments: ['text', 'image'] },
  delivery: { modes: [...deliveryModes], queue: true },
  events: { emits: [...agentSessionEventTypes] },
  actions: { invoke: true, expose: true },
  lifecycle: { release: true, pause: true, resume: true, fork: true, snapshot: true },
} satisfies AgentSessionCapabilities;

describe('capabilities', () => {
  it.each([undefined, false])('refuse the mode manual with queue: %s', (queue) => {
    const delivery = queue === undefined ? { modes: ['manual'] } : { modes: ['manual'], queue };
    const result = capabilitiesSchema.safeParse({ ...capabilities, delivery });
    expect(result.error?.issues.map(({ path }) => path)).toEqual([['delivery', 'queue']]);
  });

  it('each have a path', () => {
    const paths = Object.entries(capabilities).flatMap(([group, names]) =>
      Object.keys(names).map((name) => `${group}.${name}`),
    );
    expect(paths).toEqual([...capabilityPaths]);
  });
});

describe('handles', () => {
  it.each(['a', '7', 'ada', 'code-reviewer.2', 'a_b', 'a'.repeat(64)])('can be %s', (handle) => {
    expect(handleSchema.parse(handle)).toBe(handle);
  });

  it.each(['', 'Ada', '-a', '.a', '@ada', 'a b', 'a/b', 'é', 'a\n', 'a'.repeat(65)])(
    'cannot be %j',
    (handle) => {
      expect(handleSchema.safeParse(handle).success).toBe(false);
    },
  );
});
