/** What a session with an agent can do, negotiated from its answer to `initialize` and never from its name. */
import type { InitializeResponse } from '@agentclientprotocol/sdk';
import type { AgentSessionCapabilities, DeliveryMode } from '@relay/protocol';

/** What the agent offers, as far as a session uses it. */
export interface AgentFeatures {
  /** `_session/steering`: a message enters the running turn, and stops the running call of the model. */
  readonly steering: boolean;
  readonly resume: boolean;
  readonly load: boolean;
  readonly close: boolean;
  readonly fork: boolean;
  readonly images: boolean;
  /** MCP servers over HTTP, such as Relay's own. */
  readonly mcp: boolean;
}

export function featuresOf({ agentCapabilities, _meta }: InitializeResponse): AgentFeatures {
  const { loadSession, promptCapabilities, mcpCapabilities } = agentCapabilities ?? {};
  // `fork` is not part of the stable protocol; agents offer it all the same.
  const session = (agentCapabilities?.sessionCapabilities ?? {}) as Record<string, unknown>;
  const steering = (_meta?.['steering'] ?? agentCapabilities?._meta?.['steering']) as
    | { readonly supported?: unknown }
    | null
    | undefined;
  const has = (name: string) => session[name] !== undefined && session[name] !== null;
  return {
    steering: steering?.supported === true,
    resume: has('resume'),
    load: loadSession === true,
    close: has('close'),
    fork: has('fork'),
    images: promptCapabilities?.image === true,
    mcp: mcpCapabilities?.http === true,
  };
}

/**
 * - `on-idle` is a prompt when no other is open, and `manual` waits for its flush in Relay.
 * - `immediate` is steering, which stops the running call of the model; without it, the turn is cancelled and
 *   goes on with the message. Either waits while a tool call or an approval is open. A tool that begins at the
 *   same moment is one that the agent does not ask for, because a request for permission would be open.
 * - `next-tool-call` needs steering, after the results of a tool. Without it, the message would end the turn.
 * - `next-message` is not offered: steering stops the running call of the model, which this mode does not.
 */
export function capabilitiesOf(features: AgentFeatures): AgentSessionCapabilities {
  const steered: DeliveryMode[] = features.steering ? ['next-tool-call'] : [];
  return {
    messaging: {
      receive: true,
      send: true,
      attachments: features.images ? ['text', 'image'] : ['text'],
    },
    delivery: { modes: ['on-idle', 'immediate', ...steered, 'manual'], queue: true },
    events: {
      emits: [
        'status.changed',
        'transcript.chunk',
        'tool.called',
        'tool.completed',
        'tool.failed',
        'file.changed',
        'command.started',
        'command.completed',
        'command.failed',
        'usage.updated',
        'log',
        'error',
      ],
    },
    // By the tools of Relay's MCP server.
    ...(features.mcp ? { actions: { invoke: true } } : {}),
    lifecycle: features.fork ? { release: true, fork: true } : { release: true },
  };
}
