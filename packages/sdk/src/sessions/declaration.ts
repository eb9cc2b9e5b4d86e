/** What a program declares, derived from its handlers. What it declares itself must agree with them. */
import type {
  AgentSessionCapabilities,
  CapabilityPath,
  DeliveryMode,
  SessionIdentity,
} from '@relay/protocol/wire';
import { RelayApiError } from '../errors.ts';
import type { CallOptions } from '../http.ts';
import type { FollowOptions } from '../streaming/frames.ts';
import type { SessionHandlers } from './remote-session.ts';

export interface ServeOptions extends SessionHandlers, FollowOptions, CallOptions {
  readonly handle: string;
  /** Default: the handle as its name, and the kind `program`. */
  readonly identity?: Partial<Omit<SessionIdentity, 'handle'>>;
  /** Default: what the handlers implement. Refused if it says otherwise. */
  readonly capabilities?: DeclaredCapabilities;
  /** Of an earlier process, to continue its session. */
  readonly token?: string | undefined;
  /** Takes the handle over although another key attached it; requires the scope `admin`. */
  readonly takeover?: boolean;
  /** How long to wait for a handle that the same owner has just used. Default: 32 s; 0 to fail at once. */
  readonly handleTimeoutMs?: number | undefined;
  /** Called once when it waits for the handle. Default: `console.error`. */
  readonly onWaiting?: ((message: string) => void) | undefined;
}

/** The capabilities of a session, of which any part can be left out. */
export interface DeclaredCapabilities {
  readonly messaging?: Omit<AgentSessionCapabilities['messaging'], 'receive'> & {
    readonly receive?: true;
  };
  readonly delivery?: Partial<AgentSessionCapabilities['delivery']>;
  /** Default: `status.changed`, which is reported around the handlers. */
  readonly events?: AgentSessionCapabilities['events'];
  readonly actions?: AgentSessionCapabilities['actions'];
  readonly lifecycle?: Partial<AgentSessionCapabilities['lifecycle']>;
}

/** Throws `capability_missing` if what is declared is not implemented, or the other way round. */
export function capabilitiesOf(options: ServeOptions): AgentSessionCapabilities {
  const { capabilities: declared = {} } = options;
  return {
    messaging: { receive: true, send: true, ...declared.messaging },
    delivery: {
      modes: modesOf(options),
      queue: declared.delivery?.queue ?? true,
    },
    events: declared.events ?? { emits: ['status.changed'] },
    actions: { invoke: declared.actions?.invoke ?? true, expose: exposeOf(options) },
    lifecycle: {
      release: lifecycleOf(options, 'release', 'onRelease'),
      pause: lifecycleOf(options, 'pause', 'onPause'),
      resume: lifecycleOf(options, 'resume', 'onResume'),
      fork: lifecycleOf(options, 'fork', 'onFork'),
      snapshot: lifecycleOf(options, 'snapshot', 'onSnapshot'),
    },
  };
}

function lifecycleOf(
  options: ServeOptions,
  name: keyof AgentSessionCapabilities['lifecycle'],
  handler: keyof SessionHandlers,
): boolean {
  const isImplemented = options[handler] !== undefined;
  const isDeclared = options.capabilities?.lifecycle?.[name] ?? isImplemented;
  if (isDeclared === isImplemented) return isDeclared;
  throw disagreement(`lifecycle.${name}`, {
    handler,
    isDeclared,
    asked: isDeclared,
    offered: isImplemented,
  });
}

function exposeOf({ actions, capabilities }: ServeOptions): boolean {
  const offered = Object.keys(actions ?? {}).length > 0;
  const isDeclared = capabilities?.actions?.expose ?? offered;
  if (isDeclared === offered) return isDeclared;
  const found = { handler: 'actions', isDeclared, asked: isDeclared, offered } as const;
  throw disagreement('actions.expose', found);
}

function implementedModes({ identity, onInterrupt }: ServeOptions): DeliveryMode[] {
  // A person has no turns: whatever the mode, a message is shown when it comes.
  if (identity?.kind === 'human') {
    return ['on-idle', 'immediate', 'next-message', 'next-tool-call', 'manual'];
  }
  return onInterrupt === undefined ? ['on-idle', 'manual'] : ['on-idle', 'immediate', 'manual'];
}

function modesOf(options: ServeOptions): DeliveryMode[] {
  const { capabilities, onInterrupt } = options;
  const implemented = implementedModes(options);
  const declared = capabilities?.delivery?.modes ?? implemented;
  const missing = declared.find((mode) => !implemented.includes(mode));
  const offered = implemented;
  if (missing === 'immediate') {
    const handler = 'onInterrupt';
    throw disagreement('delivery.modes', { handler, isDeclared: true, asked: missing, offered });
  }
  if (missing !== undefined) {
    throw new RelayApiError(
      'capability_missing',
      `delivery.modes declares ${missing}, a boundary inside a turn that handlers do not have; there are ${offered.join(', ')}`,
      { details: { path: 'delivery.modes', asked: missing, offered } },
    );
  }
  if (onInterrupt !== undefined && !declared.includes('immediate')) {
    const handler = 'onInterrupt';
    const asked = 'immediate';
    throw disagreement('delivery.modes', { handler, isDeclared: false, asked, offered });
  }
  return [...declared];
}

function disagreement(
  path: CapabilityPath,
  found: {
    readonly handler: keyof SessionHandlers;
    readonly isDeclared: boolean;
    readonly asked: boolean | string;
    readonly offered: boolean | string[];
  },
): RelayApiError {
  const { handler, isDeclared, asked, offered } = found;
  const what = typeof asked === 'string' ? `${path} ${asked}` : path;
  const message = isDeclared
    ? `The capabilities declare ${what}, which has no handler: add ${handler}, or do not declare it`
    : `The capabilities do not declare ${what}, which ${handler} implements: declare it, or remove ${handler}`;
  return new RelayApiError('capability_missing', message, { details: { path, asked, offered } });
}
