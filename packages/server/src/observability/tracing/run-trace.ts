/**
 * The spans of one run, told from its journal: the run, its agents, their model calls, tools and
 * waits for people. A span is told by the event that ends it.
 *
 * Only names, ids, codes, counts and times go in; what anybody has said does not.
 */
import { parseModelName } from '@relay/models';
import type { EventOf, Stored, StoredEvent, Usage } from '@relay/protocol';
import {
  type Attributes,
  madeAt,
  nameOrNothing,
  parseTraceparent,
  type Span,
  spanIdOf,
} from './span.ts';

interface KnownAgent {
  readonly name: string;
  readonly model: string;
  /** The call that it works for. */
  readonly toolCallId?: string;
}

interface OpenTurn {
  readonly startMs: number;
  readonly firstWordMs: number;
}

type Discarded = Stored<EventOf<'turn.discarded'>>;
type ApprovalEnd = Stored<EventOf<'approval.decided' | 'approval.expired' | 'approval.closed'>>;
type Settled = Stored<EventOf<'tool.completed' | 'tool.failed' | 'tool.denied'>>;

const providerCodes: ReadonlySet<string> = new Set([
  'provider_failed',
  'provider_rejected',
  'context_exceeded',
]);

export class RunTrace {
  readonly #runId: string;
  readonly #tenantId: string;
  readonly #agents = new Map<string, KnownAgent>();
  /** Since when an agent could ask its model: the journal hears of a turn with its first words. */
  readonly #askingSince = new Map<string, number>();
  readonly #turns = new Map<string, OpenTurn>();
  readonly #tools = new Map<string, number>();
  readonly #approvalKinds = new Map<string, string>();
  readonly #errors = new Map<string, string>();
  #created: Stored<EventOf<'run.created'>> | undefined;

  constructor(runId: string, tenantId: string) {
    this.#runId = runId;
    this.#tenantId = tenantId;
  }

  /** Somebody whose beginning another node, or an earlier stretch, has told. */
  know(agentId: string, agent: KnownAgent): void {
    if (!this.#agents.has(agentId)) this.#agents.set(agentId, agent);
  }

  /** A question that was asked before, and may be answered now. */
  knowApproval(approvalId: string, kind: string): void {
    this.#approvalKinds.set(approvalId, kind);
  }

  /** Takes an event in, and returns the spans that it ends. It may be one that was taken before. */
  take(event: StoredEvent): Span[] {
    const at = Date.parse(event.at);
    switch (event.type) {
      case 'run.created':
        this.#created = event;
        return [];
      case 'agent.started': {
        const { agentId, name, model, spawned } = event;
        this.#agents.set(agentId, {
          name,
          model,
          ...(spawned === undefined ? {} : { toolCallId: spawned.toolCallId }),
        });
        this.#askingSince.set(agentId, at);
        return [];
      }
      case 'agent.switched': {
        const { name, model } = event;
        this.#agents.set(event.agentId, { ...this.#agents.get(event.agentId), name, model });
        this.#askingSince.set(event.agentId, at);
        return [];
      }
      case 'run.resumed':
        for (const agentId of this.#agents.keys()) this.#askingSince.set(agentId, at);
        return [];
      case 'limit.reached':
        this.#askingSince.set(event.agentId, at);
        return [];
      case 'turn.started': {
        const startMs = this.#askingSince.get(event.agentId) ?? at;
        this.#turns.set(event.agentId, { startMs, firstWordMs: at });
        return [];
      }
      case 'turn.completed':
        return [
          this.#modelCall(event, event.usage, {
            'gen_ai.response.finish_reasons': [event.finishReason],
          }),
        ];
      case 'turn.discarded':
        return [this.#discarded(event)];
      case 'context.compacted':
        return [this.#modelCall(event, event.usage, { 'relay.compaction': true })];
      case 'tool.started':
        this.#tools.set(event.toolCallId, at);
        return [];
      case 'tool.completed':
      case 'tool.failed':
      case 'tool.denied':
        this.#askingSince.set(event.agentId, at);
        return [this.#toolCall(event)];
      case 'approval.requested':
        this.#approvalKinds.set(event.approvalId, event.kind);
        return [];
      case 'approval.decided':
      case 'approval.expired':
      case 'approval.closed':
        return [this.#wait(event)];
      case 'run.errored':
        if (event.agentId !== undefined) this.#errors.set(event.agentId, event.error.code);
        return [];
      case 'agent.ended':
        return this.#agentEnd(event);
      case 'run.ended':
        return [this.#run(event)];
      default:
        return [];
    }
  }

  #discarded(event: Discarded): Span {
    const span = this.#modelCall(event, event.usage, { 'relay.turn.discarded': event.reason });
    return { ...span, error: event.reason };
  }

  /** One call of a model: from when it could be asked to when its answer was stored. */
  #modelCall(
    event: StoredEvent & { readonly agentId: string },
    usage: Usage | undefined,
    more: Attributes,
  ): Span {
    const { agentId, seq } = event;
    const endMs = Date.parse(event.at);
    const turn = this.#turns.get(agentId);
    const { model, name } = this.#agents.get(agentId) ?? {};
    const startMs = turn?.startMs ?? this.#askingSince.get(agentId) ?? endMs;
    this.#turns.delete(agentId);
    this.#askingSince.set(agentId, endMs);
    return this.#span(`chat ${nameOrNothing(model) ?? ''}`.trim(), {
      id: spanIdOf(this.#runId, 'turn', seq),
      parentId: this.#idOfAgent(agentId),
      kind: 'client',
      startMs,
      endMs,
      attributes: {
        'gen_ai.operation.name': 'chat',
        ...modelAttributes(model),
        ...usageAttributes(usage),
        ...agentAttributes(agentId, name),
        'relay.first_token_ms': turn === undefined ? undefined : turn.firstWordMs - turn.startMs,
        ...more,
      },
    });
  }

  #toolCall(event: Settled): Span {
    const { agentId, toolCallId } = event;
    const endMs = Date.parse(event.at);
    const tool = nameOrNothing(event.name);
    const took = event.type === 'tool.denied' ? undefined : event.durationMs;
    const begun = this.#tools.get(toolCallId);
    this.#tools.delete(toolCallId);
    const outcome = event.type === 'tool.denied' ? event.status : event.type.slice('tool.'.length);
    return this.#span(`execute_tool ${tool ?? ''}`.trim(), {
      id: this.#idOfCall(toolCallId),
      parentId: this.#idOfAgent(agentId),
      startMs: took === undefined ? (begun ?? endMs) : endMs - took,
      endMs,
      attributes: {
        'gen_ai.operation.name': 'execute_tool',
        'gen_ai.tool.name': tool,
        'gen_ai.tool.call.id': nameOrNothing(toolCallId),
        'relay.tool.outcome': outcome,
        ...agentAttributes(agentId, this.#agents.get(agentId)?.name),
      },
      ...(event.type === 'tool.failed' ? { error: event.code } : {}),
    });
  }

  /** From the question to its answer, however many processes came and went meanwhile. */
  #wait(event: ApprovalEnd): Span {
    const { agentId, approvalId, toolCallId } = event;
    const kind = this.#approvalKinds.get(approvalId);
    this.#approvalKinds.delete(approvalId);
    return this.#span(`relay ${kind ?? ''}`.trim(), {
      id: spanIdOf(this.#runId, 'approval_requested', approvalId),
      parentId: this.#idOfAgent(agentId),
      startMs: madeAt(approvalId),
      endMs: Date.parse(event.at),
      attributes: {
        'relay.approval.id': approvalId,
        'relay.approval.kind': kind,
        'relay.approval.outcome': outcomeOf(event),
        'relay.approval.decided_by': event.type === 'approval.decided' ? event.by.type : undefined,
        'gen_ai.tool.call.id': nameOrNothing(toolCallId),
      },
    });
  }

  #agentEnd(event: Stored<EventOf<'agent.ended'>>): Span[] {
    const { agentId, reason, usage, parentId } = event;
    const agent = this.#agents.get(agentId);
    const code = event.error?.code ?? this.#errors.get(agentId);
    const isCut = this.#turns.has(agentId) || providerCodes.has(code ?? '');
    const cut = isCut ? [{ ...this.#modelCall(event, undefined, {}), error: code ?? reason }] : [];
    this.#agents.delete(agentId);
    this.#askingSince.delete(agentId);
    const span = this.#span(`invoke_agent ${nameOrNothing(agent?.name) ?? ''}`.trim(), {
      id: this.#idOfAgent(agentId),
      parentId: this.#parentOf(agent, parentId),
      startMs: madeAt(agentId),
      endMs: Date.parse(event.at),
      attributes: {
        'gen_ai.operation.name': 'invoke_agent',
        ...agentAttributes(agentId, agent?.name),
        ...modelAttributes(agent?.model),
        ...usageAttributes(usage),
        'relay.agent.end': reason,
        'relay.agent.iterations': event.iterations,
      },
      ...(reason === 'failed' ? { error: code ?? 'failed' } : {}),
    });
    return [...cut, span];
  }

  #run(event: Stored<EventOf<'run.ended'>>): Span {
    const { agent, surface, conversationId, traceparent, parentRunId } = this.#created ?? {};
    const link = parseTraceparent(traceparent);
    const { parentId: _, ...span } = this.#span(`run ${nameOrNothing(agent) ?? ''}`.trim(), {
      id: this.#rootId,
      parentId: '',
      kind: 'server',
      startMs: madeAt(this.#runId),
      endMs: Date.parse(event.at),
      attributes: {
        'relay.run.status': event.status,
        'relay.surface': surface,
        'relay.run.parent_id': parentRunId,
        'gen_ai.conversation.id': conversationId,
        'gen_ai.agent.name': nameOrNothing(agent),
        ...usageAttributes(event.usage),
        'relay.cost_usd': event.usage.costUsd,
      },
      ...(event.status === 'failed' ? { error: event.error?.code ?? 'failed' } : {}),
      ...(link === undefined ? {} : { link }),
    });
    return span;
  }

  #parentOf(agent: KnownAgent | undefined, parentId: string | undefined): string {
    if (agent?.toolCallId !== undefined) return this.#idOfCall(agent.toolCallId);
    return parentId === undefined ? this.#rootId : this.#idOfAgent(parentId);
  }

  get #rootId(): string {
    return spanIdOf(this.#runId, 'run');
  }

  #idOfAgent(agentId: string): string {
    return spanIdOf(this.#runId, 'agent', agentId);
  }

  #idOfCall(toolCallId: string): string {
    return spanIdOf(this.#runId, 'tool', toolCallId);
  }

  #span(
    name: string,
    rest: Omit<Span, 'runId' | 'name' | 'kind' | 'parentId'> & {
      kind?: Span['kind'];
      parentId: string;
    },
  ): Span {
    const { startMs, endMs, attributes } = rest;
    return {
      kind: 'internal',
      ...rest,
      name,
      runId: this.#runId,
      startMs: Math.min(startMs, endMs),
      attributes: {
        ...attributes,
        'relay.run.id': this.#runId,
        'relay.tenant.id': this.#tenantId,
      },
    };
  }
}

function outcomeOf(event: ApprovalEnd): string {
  if (event.type !== 'approval.decided') return event.type.slice('approval.'.length);
  return event.approved ? 'approved' : 'denied';
}

function modelAttributes(model: string | undefined): Attributes {
  if (model === undefined) return {};
  return {
    'gen_ai.request.model': nameOrNothing(model),
    'gen_ai.provider.name': nameOrNothing(parseModelName(model)?.provider ?? model),
  };
}

function usageAttributes(usage: Usage | undefined): Attributes {
  return {
    'gen_ai.usage.input_tokens': usage?.inputTokens,
    'gen_ai.usage.output_tokens': usage?.outputTokens,
  };
}

function agentAttributes(id: string, name: string | undefined): Attributes {
  return { 'gen_ai.agent.id': id, 'gen_ai.agent.name': nameOrNothing(name) };
}
