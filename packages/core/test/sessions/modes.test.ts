import {
  type AgentSessionCapabilities,
  type DeliveryMode,
  deliveryModes,
  type DeliveryStatus,
} from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import {
  boundaries,
  type Boundary,
  defaultMode,
  defaultSafeStates,
  entering,
  isStuck,
  type PendingDelivery,
  type Placement,
  placementOf,
  type Situation,
  stuckAfterMs,
  timesOut,
} from '../../src/sessions/modes.ts';

const now: Placement = { kind: 'now' };
const at = (boundary: Boundary): Placement => ({ kind: 'at', boundary });
const deferred = (reason: Extract<Placement, { kind: 'deferred' }>['reason']): Placement => ({
  kind: 'deferred',
  reason,
});

function situation(
  parts: Partial<Situation['parts']> = {},
  more: Partial<Omit<Situation, 'parts'>> = {},
): Situation {
  return {
    parts: { lifecycle: 'open', turn: 'none', connection: 'reachable', ...parts },
    safeStates: defaultSafeStates,
    isToolRunning: false,
    isApprovalOpen: false,
    ...more,
  };
}

const idle = situation();
const callingModel = situation({ turn: 'active' });
const runningTool = situation({ turn: 'active' }, { isToolRunning: true });
const asking = situation({ turn: 'waiting' }, { isApprovalOpen: true });
const askingOutcome = situation({ turn: 'blocked' }, { isApprovalOpen: true });
const blocked = situation({ turn: 'blocked' });
const paused = situation({ lifecycle: 'paused' });
const pausing = situation({ lifecycle: 'pausing', turn: 'active' });
const offline = situation({ connection: 'unreachable' });
const starting = situation({ lifecycle: 'starting' });
const released = situation({ lifecycle: 'released' });

const table: Record<DeliveryMode, readonly (readonly [string, Situation, Placement])[]> = {
  immediate: [
    ['idle', idle, now],
    ['calling its model', callingModel, now],
    ['running a tool', runningTool, deferred('tool running')],
    ['waiting for an approval', asking, deferred('approval open')],
    ['waiting for an outcome', askingOutcome, deferred('approval open')],
    ['blocked', blocked, deferred('blocked')],
    ['pausing', pausing, deferred('paused')],
    ['paused', paused, deferred('paused')],
    ['offline', offline, deferred('offline')],
    ['starting', starting, at('idle')],
    ['released', released, { kind: 'never' }],
  ],
  'next-message': [
    ['idle', idle, now],
    ['calling its model', callingModel, at('model-call')],
    ['running a tool', runningTool, at('model-call')],
    ['waiting for an approval', asking, at('model-call')],
    ['paused', paused, deferred('paused')],
    ['offline', offline, deferred('offline')],
  ],
  'next-tool-call': [
    ['idle', idle, now],
    ['calling its model', callingModel, at('tool-results')],
    ['running a tool', runningTool, at('tool-results')],
    ['waiting for an approval', asking, at('tool-results')],
    ['paused', paused, deferred('paused')],
    ['offline', offline, deferred('offline')],
  ],
  'on-idle': [
    ['idle', idle, now],
    ['calling its model', callingModel, at('idle')],
    ['running a tool', runningTool, at('idle')],
    ['waiting for an approval', asking, at('idle')],
    ['blocked', blocked, at('idle')],
    ['paused', paused, deferred('paused')],
    ['offline', offline, deferred('offline')],
    ['starting', starting, at('idle')],
    ['released', released, { kind: 'never' }],
  ],
  manual: [
    ['idle', idle, at('flush')],
    ['calling its model', callingModel, at('flush')],
    ['running a tool', runningTool, at('flush')],
    ['paused', paused, at('flush')],
    ['offline', offline, at('flush')],
    ['released', released, { kind: 'never' }],
  ],
};

describe.each(deliveryModes)('a message with the mode %s', (mode) => {
  it.each(table[mode])('to a session that is %s', (_status, each, placement) => {
    expect(placementOf({ mode, status: 'accepted' }, each)).toEqual(placement);
  });
});

describe('a message that was flushed', () => {
  it.each([
    ['idle', idle, now],
    ['calling its model', callingModel, at('idle')],
    ['paused', paused, deferred('paused')],
    ['offline', offline, deferred('offline')],
  ] as const)('is placed as on-idle in a session that is %s', (_status, each, placement) => {
    expect(placementOf({ mode: 'manual', status: 'deferred' }, each)).toEqual(placement);
    expect(placementOf({ mode: 'on-idle', status: 'accepted' }, each)).toEqual(placement);
  });
});

describe('the safe states of a harness', () => {
  it('are idle by default, and those that it names', () => {
    const on = (each: Situation, safeStates: Situation['safeStates']) =>
      placementOf({ mode: 'on-idle', status: 'accepted' }, { ...each, safeStates });
    expect(on(asking, ['idle'])).toEqual(at('idle'));
    expect(on(asking, ['idle', 'waiting'])).toEqual(now);
    expect(on(idle, ['waiting'])).toEqual(at('idle'));
    expect(on(callingModel, ['idle', 'active'])).toEqual(now);
  });

  it('do not count while the session is paused or cannot be reached', () => {
    const safeStates = ['idle', 'active', 'waiting', 'blocked'] as const;
    for (const each of [pausing, paused, offline, starting, released]) {
      const placed = placementOf({ mode: 'on-idle', status: 'accepted' }, { ...each, safeStates });
      expect(placed.kind).not.toBe('now');
    }
  });
});

describe('the default mode', () => {
  it.each([
    [['immediate', 'on-idle'], 'on-idle'],
    [['next-tool-call', 'immediate'], 'next-tool-call'],
    [['manual'], 'manual'],
  ] as const)('of a session with %j is %s', (modes, mode) => {
    const capabilities: AgentSessionCapabilities = {
      messaging: { receive: true },
      delivery: { modes: [...modes], queue: true },
      events: { emits: [] },
      lifecycle: { release: false },
    };
    expect(defaultMode(capabilities)).toBe(mode);
  });
});

describe('a boundary', () => {
  function pending(
    mode: DeliveryMode,
    position: number,
    status: DeliveryStatus = 'accepted',
  ): PendingDelivery {
    return { id: `${mode}-${position}`, mode, status, position };
  }

  const inbox = [
    pending('manual', 6, 'deferred'),
    pending('on-idle', 1),
    pending('immediate', 5),
    pending('manual', 2),
    pending('next-tool-call', 3, 'deferred'),
    pending('next-message', 4),
  ];

  it.each([
    ['model-call', [4, 5]],
    ['tool-results', [3, 4, 5]],
    ['idle', [1, 3, 4, 5, 6]],
    ['flush', [2]],
  ] as const)(
    '%s takes what waits for it, together, in the order of the inbox',
    (boundary, order) => {
      const taken = entering(inbox, boundary, 0);
      expect(taken.map(({ position }) => position)).toEqual(order);
    },
  );

  it('takes nothing that was delivered, has ended, or was deferred for longer', () => {
    const ended = (['delivered', 'consumed', 'failed'] as const).map((status, index) =>
      pending('on-idle', index, status),
    );
    const later = { ...pending('on-idle', 9, 'deferred'), availableAt: 100 };
    for (const boundary of boundaries) expect(entering(ended, boundary, 0)).toEqual([]);
    expect(entering([later], 'idle', 99)).toEqual([]);
    expect(entering([later], 'idle', 100)).toEqual([later]);
  });
});

describe('deliveries', () => {
  it('time out while the session is offline, and not while it is paused', () => {
    expect(timesOut(offline.parts)).toBe(true);
    for (const { parts } of [idle, callingModel, paused, pausing])
      expect(timesOut(parts)).toBe(false);
    expect(timesOut({ ...offline.parts, lifecycle: 'paused' })).toBe(false);
  });

  it('are stuck if they wait for a minute although the session could take them', () => {
    const age = stuckAfterMs + 1;
    const times = { oldestAt: 0, since: 0, now: age };
    expect(isStuck(idle, times)).toBe(true);
    expect(isStuck(idle, { ...times, now: stuckAfterMs })).toBe(false);
    expect(isStuck(idle, { ...times, oldestAt: null })).toBe(false);
    expect(isStuck(idle, { ...times, since: 1 })).toBe(false);
    for (const each of [callingModel, asking, paused, offline]) {
      expect(isStuck(each, times)).toBe(false);
    }
  });
});
