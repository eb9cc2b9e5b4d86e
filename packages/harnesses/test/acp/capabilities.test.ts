/** What real agents answer to `initialize`, and what their sessions can do. */
import type { InitializeResponse } from '@agentclientprotocol/sdk';
import { capabilitiesSchema } from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import { capabilitiesOf, featuresOf } from '../../src/acp/capabilities.ts';

type Answer = Omit<InitializeResponse, 'agentCapabilities'> & {
  readonly agentCapabilities?: Record<string, unknown>;
};

const agents: Readonly<Record<string, Answer>> = {
  opencode: {
    protocolVersion: 1,
    agentCapabilities: {
      loadSession: true,
      mcpCapabilities: { http: true, sse: true },
      promptCapabilities: { embeddedContext: true, image: true },
      sessionCapabilities: { close: {}, fork: {}, list: {}, resume: {} },
    },
  },
  claude: {
    protocolVersion: 1,
    agentCapabilities: {
      _meta: { claudeCode: { promptQueueing: true }, authStatus: {} },
      promptCapabilities: { image: true, embeddedContext: true },
      mcpCapabilities: { http: true, sse: true },
      loadSession: true,
      sessionCapabilities: {
        additionalDirectories: {},
        close: {},
        delete: {},
        fork: {},
        list: {},
        resume: {},
      },
    },
    _meta: { steering: { supported: true } },
  },
  codex: {
    protocolVersion: 1,
    agentCapabilities: {
      loadSession: true,
      promptCapabilities: { embeddedContext: true, image: true },
      sessionCapabilities: { resume: {}, list: {}, close: {}, delete: {}, fork: {}, title: {} },
      mcpCapabilities: { acp: false, http: true, sse: false },
      _meta: { authStatus: {} },
    },
    _meta: { steering: { supported: true } },
  },
  gemini: {
    protocolVersion: 1,
    agentCapabilities: {
      loadSession: true,
      promptCapabilities: { image: true, audio: true, embeddedContext: true },
      mcpCapabilities: { http: true, sse: true },
    },
  },
  minimal: { protocolVersion: 1 },
  hostile: {
    protocolVersion: 1,
    agentCapabilities: {
      loadSession: 'yes',
      sessionCapabilities: { fork: null },
      promptCapabilities: { image: 1 },
    },
    _meta: { steering: { supported: 'true' } },
  },
};

describe('the capabilities of an agent', () => {
  const steered = ['on-idle', 'immediate', 'next-tool-call', 'manual'];
  const plain = ['on-idle', 'immediate', 'manual'];
  it.each([
    ['opencode', plain, ['text', 'image'], { release: true, fork: true }, { invoke: true }],
    ['claude', steered, ['text', 'image'], { release: true, fork: true }, { invoke: true }],
    ['codex', steered, ['text', 'image'], { release: true, fork: true }, { invoke: true }],
    ['gemini', plain, ['text', 'image'], { release: true }, { invoke: true }],
    ['minimal', plain, ['text'], { release: true }, undefined],
    ['hostile', plain, ['text'], { release: true }, undefined],
  ])('are what it says it offers: %s', (name, modes, attachments, lifecycle, actions) => {
    const features = featuresOf(agents[name] as InitializeResponse);
    const capabilities = capabilitiesOf(features);
    expect(capabilities.delivery).toEqual({ modes, queue: true });
    expect(capabilities.messaging).toEqual({ receive: true, send: true, attachments });
    expect(capabilities.lifecycle).toEqual(lifecycle);
    expect(capabilities.actions).toEqual(actions);
    expect(capabilitiesSchema.safeParse(capabilities).success).toBe(true);
  });

  it('tell how a conversation is continued', () => {
    const how = (name: string) => {
      const { resume, load, close } = featuresOf(agents[name] as InitializeResponse);
      return { resume, load, close };
    };
    expect(how('claude')).toEqual({ resume: true, load: true, close: true });
    expect(how('gemini')).toEqual({ resume: false, load: true, close: false });
    expect(how('minimal')).toEqual({ resume: false, load: false, close: false });
  });
});
