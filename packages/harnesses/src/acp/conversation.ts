/** The ACP session of a session: how it is opened, continued in another process, and forked. */
import {
  type ClientContext,
  type McpServer,
  type NewSessionRequest,
  RequestError,
} from '@agentclientprotocol/sdk';
import type { HarnessProcess } from '@relay/core';
import { defined } from '@relay/protocol';
import { type AgentFeatures, featuresOf } from './capabilities.ts';
import type { AgentConnection } from './connection.ts';

export interface SavedConversation {
  readonly acpSessionId: string;
  readonly hasBegun: boolean;
}

export interface ConversationOptions {
  readonly process: Pick<HarnessProcess, 'workspace' | 'home' | 'mcp'>;
  /** `_meta` of the requests that open an ACP session, for settings that an agent has only there. */
  readonly meta?: Readonly<Record<string, unknown>>;
  /** What an earlier process, or the parent of a fork, has left. */
  readonly saved: SavedConversation | undefined;
}

export class Conversation {
  readonly #options: ConversationOptions;
  /** As the process that is running has said. */
  features: AgentFeatures | undefined;
  id: string | undefined;
  /** It has a prompt. */
  hasBegun: boolean;
  /** The updates of the agent repeat what was reported before. */
  isReplaying = false;

  constructor(options: ConversationOptions) {
    this.#options = options;
    this.id = options.saved?.acpSessionId;
    this.hasBegun = options.saved?.hasBegun ?? false;
  }

  /** Whether it survives the process of the agent. One that has not begun does: nothing is lost. */
  get canContinue(): boolean {
    const { resume, load } = this.features ?? {};
    return resume === true || load === true || !this.hasBegun;
  }

  /** On each new connection. The problem, if the conversation that was there could not be continued. */
  async open({ agent, initialized }: AgentConnection): Promise<string | undefined> {
    this.features = featuresOf(initialized);
    const known = this.id;
    const problem = known === undefined ? undefined : await this.#continue(agent, known);
    if (known !== undefined && problem === undefined) return undefined;
    this.id = undefined;
    this.id = (await agent.request('session/new', this.#place())).sessionId;
    // Agents do not keep a conversation that has not begun.
    const isLost = this.hasBegun;
    this.hasBegun = false;
    return isLost ? `${problem} (${known})` : undefined;
  }

  async #continue(agent: ClientContext, sessionId: string): Promise<string | undefined> {
    const { resume, load } = this.features ?? {};
    const params = { sessionId, ...this.#place() };
    const methods = [
      ...(resume === true ? (['session/resume'] as const) : []),
      ...(load === true ? (['session/load'] as const) : []),
    ];
    let problem = 'it can neither resume nor load one';
    for (const method of methods) {
      this.isReplaying = method === 'session/load';
      try {
        await agent.request(method, params);
        return undefined;
      } catch (error) {
        if (!(error instanceof RequestError)) throw error;
        problem = `${method}: ${error.message}`;
      } finally {
        this.isReplaying = false;
      }
    }
    return problem;
  }

  #place(): NewSessionRequest {
    const { process, meta } = this.#options;
    const { workspace: cwd, mcp } = process;
    const headers = [{ name: 'Authorization', value: `Bearer ${mcp.token}` }];
    const relay: McpServer = { type: 'http', name: 'relay', url: mcp.url, headers };
    const mcpServers = this.features?.mcp === true ? [relay] : [];
    return { cwd, mcpServers, ...defined({ _meta: meta }) };
  }

  /** What another session continues with. Agents know no other position than the end. */
  async fork({ agent }: AgentConnection): Promise<SavedConversation & { readonly home: string }> {
    if (!this.hasBegun) throw new Error('There is no conversation to fork: send a message first');
    // Without the token of this session: the fork has its own process, which connects with its own.
    const params = { sessionId: this.id, ...this.#place(), mcpServers: [] };
    const forked = await agent.request<{ readonly sessionId: string }>('session/fork', params);
    await this.close(agent, forked.sessionId);
    const { home } = this.#options.process;
    return { acpSessionId: forked.sessionId, hasBegun: true, home };
  }

  /** The agent keeps it, and can continue it. */
  async close(agent: ClientContext, sessionId = this.id): Promise<void> {
    if (this.features?.close !== true || sessionId === undefined) return;
    await agent.request('session/close', { sessionId });
  }
}

export function savedConversation(state: unknown): SavedConversation | undefined {
  const { acpSessionId, hasBegun } = (state ?? {}) as Partial<Record<string, unknown>>;
  if (typeof acpSessionId !== 'string') return undefined;
  return { acpSessionId, hasBegun: hasBegun === true };
}
