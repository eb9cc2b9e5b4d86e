/**
 * The spans of one run, derived from its journal: the run, its agents, their model calls, tool calls
 * and approvals. The event that ends a span produces it.
 *
 * Span ids derive from ids in the journal, and start times from those ids too (UUIDv7), so any node
 * can produce a whole span. Spans hold names, ids, codes, counts and times, never message content.
 */
import { createHash } from 'node:crypto';
import { parseModelName } from '@relay/models';
import type { EventOf, Stored, StoredEvent, Usage } from '@relay/protocol';

interface KnownAgent {
  readonly name: string;
  readonly model: string;
  readonly toolCallId: string | undefined;
}

interface OpenTurn {
  readonly startMs: number;
  readonly firstTokenMs: number;
}

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
  /** When an agent could call its model: the journal records a turn with its first token. */
  readonly #readySince = new Map<string, number>();
  readonly #turns = new Map<string, OpenTurn>();
  readonly #tools = new Map<string, number>();
  readonly #approvalKinds = new Map<string, string>();
  readonly #errors = new Map<string, string>();
  #created: Stored<EventOf<'run.created'>> | undefined;

  constructor(runId: string, tenantId: string) {
    this.#runId = runId;
    this.#tenantId = tenantId;
  }

  /** An agent that started on another node or before a restore. */
  addAgent(agentId: string, agent: KnownAgent): void {
    if (!this.#agents.has(agentId)) this.#agents.set(agentId, agent);
  }

  addApproval(approvalId: string, kind: string): void {
    this.#approvalKinds.set(approvalId, kind);
  }

  /** Returns the spans that the event ends. Applying an event twice is harmless. */
  apply(event: StoredEvent): Span[] {
    const at = Date.parse(event.at);
    switch (event.type) {
      case 'run.created':
        this.#created = event;
        return [];
      case 'agent.started': {
        const { agentId, name, model, spawned } = event;
        this.#agents.set(agentId, { name, model, toolCallId: spawned?.toolCallId });
        this.#readySince.set(agentId, at);
        return [];
      }
      case 'agent.switched': {
        const { agentId, name, model } = event;
        const toolCallId = this.#agents.get(agentId)?.toolCallId;
        this.#agents.set(agentId, { name, model, toolCallId });
        this.#readySince.set(agentId, at);
        return [];
      }
      case 'run.resumed':
        for (const agentId of this.#agents.keys()) this.#readySince.set(agentId, at);
        return [];
      case 'limit.reached':
        this.#readySince.set(event.agentId, at);
        return [];
      case 'turn.started': {
        const startMs = this.#readySince.get(event.agentId) ?? at;
        this.#turns.set(event.agentId, { startMs, firstTokenMs: at });
        return [];
      }
      case 'turn.completed':
        return [
          this.#modelCall(event, event.usage, {
            'gen_ai.response.finish_reasons': [event.finishReason],
            'gen_ai.response.model': safeName(event.responseModel),
          }),
        ];
      case 'turn.discarded':
        return [
          this.#modelCall(
            event,
            event.usage,
            { 'relay.turn.discarded': event.reason },
            event.code ?? event.reason,
          ),
        ];
      case 'context.compacted':
        return [this.#modelCall(event, event.usage, { 'relay.compaction': true })];
      case 'tool.started':
        this.#tools.set(event.toolCallId, at);
        return [];
      case 'tool.completed':
      case 'tool.failed':
      case 'tool.denied':
        this.#readySince.set(event.agentId, at);
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

  /** A model call: from when it could start to when its response was stored. */
  #modelCall(
    event: StoredEvent & { readonly agentId: string },
    usage: Usage | undefined,
    more: Attributes,
    error?: string,
  ): Span {
    const { agentId, seq } = event;
    const endMs = Date.parse(event.at);
    const turn = this.#turns.get(agentId);
    const { model, name } = this.#agents.get(agentId) ?? {};
    const startMs = turn?.startMs ?? this.#readySince.get(agentId) ?? endMs;
    this.#turns.delete(agentId);
    this.#readySince.set(agentId, endMs);
    return this.#span(event, 'chat', model, {
      id: spanIdOf(this.#runId, 'turn', seq),
      parentId: this.#agentSpanId(agentId),
      kind: 'client',
      startMs,
      error,
      attributes: {
        'gen_ai.operation.name': 'chat',
        ...modelAttributes(model),
        ...usageAttributes(usage),
        ...agentAttributes(agentId, name),
        'relay.first_token_ms': turn === undefined ? undefined : turn.firstTokenMs - turn.startMs,
        ...more,
      },
    });
  }

  #toolCall(event: Settled): Span {
    const { agentId, toolCallId } = event;
    const endMs = Date.parse(event.at);
    const durationMs = event.type === 'tool.denied' ? undefined : event.durationMs;
    const startedAt = this.#tools.get(toolCallId);
    this.#tools.delete(toolCallId);
    const outcome = event.type === 'tool.denied' ? event.status : event.type.slice('tool.'.length);
    return this.#span(event, 'execute_tool', event.name, {
      id: this.#callSpanId(toolCallId),
      parentId: this.#agentSpanId(agentId),
      startMs: durationMs === undefined ? (startedAt ?? endMs) : endMs - durationMs,
      error: event.type === 'tool.failed' ? event.code : undefined,
      attributes: {
        'gen_ai.operation.name': 'execute_tool',
        'gen_ai.tool.name': safeName(event.name),
        'gen_ai.tool.call.id': safeName(toolCallId),
        'relay.tool.outcome': outcome,
        ...agentAttributes(agentId, this.#agents.get(agentId)?.name),
      },
    });
  }

  /** From the request to the decision, also across restarts. */
  #wait(event: ApprovalEnd): Span {
    const { agentId, approvalId, toolCallId } = event;
    const kind = this.#approvalKinds.get(approvalId);
    this.#approvalKinds.delete(approvalId);
    return this.#span(event, 'approval', kind, {
      id: spanIdOf(this.#runId, 'approval', approvalId),
      parentId: this.#agentSpanId(agentId),
      startMs: timestampOf(approvalId),
      attributes: {
        'relay.approval.id': approvalId,
        'relay.approval.kind': kind,
        'relay.approval.outcome': outcomeOf(event),
        'relay.approval.decided_by': event.type === 'approval.decided' ? event.by.type : undefined,
        'gen_ai.tool.call.id': safeName(toolCallId),
      },
    });
  }

  #agentEnd(event: Stored<EventOf<'agent.ended'>>): Span[] {
    const { agentId, reason, usage, parentId } = event;
    const agent = this.#agents.get(agentId);
    const code = event.error?.code ?? this.#errors.get(agentId);
    const spans: Span[] = [];
    if (this.#turns.has(agentId) || providerCodes.has(code ?? '')) {
      spans.push(this.#modelCall(event, undefined, {}, code ?? reason));
    }
    this.#agents.delete(agentId);
    this.#readySince.delete(agentId);
    const span = this.#span(event, 'invoke_agent', agent?.name, {
      id: this.#agentSpanId(agentId),
      parentId: this.#parentOf(agent, parentId),
      startMs: timestampOf(agentId),
      error: reason === 'failed' ? (code ?? 'failed') : undefined,
      attributes: {
        'gen_ai.operation.name': 'invoke_agent',
        ...agentAttributes(agentId, agent?.name),
        ...modelAttributes(agent?.model),
        ...usageAttributes(usage),
        'relay.agent.end': reason,
        'relay.agent.iterations': event.iterations,
      },
    });
    return [...spans, span];
  }

  #run(event: Stored<EventOf<'run.ended'>>): Span {
    const { agent, surface, conversationId, traceparent, parentRunId } = this.#created ?? {};
    return this.#span(event, 'run', agent, {
      id: this.#rootSpanId,
      kind: 'server',
      startMs: timestampOf(this.#runId),
      error: event.status === 'failed' ? (event.error?.code ?? 'failed') : undefined,
      link: parseTraceparent(traceparent),
      attributes: {
        'relay.run.status': event.status,
        'relay.surface': surface,
        'relay.run.parent_id': parentRunId,
        'gen_ai.conversation.id': conversationId,
        'gen_ai.agent.name': safeName(agent),
        ...usageAttributes(event.usage),
        'relay.cost_usd': event.usage.costUsd,
      },
    });
  }

  #parentOf(agent: KnownAgent | undefined, parentId: string | undefined): string {
    if (agent?.toolCallId !== undefined) return this.#callSpanId(agent.toolCallId);
    return parentId === undefined ? this.#rootSpanId : this.#agentSpanId(parentId);
  }

  get #rootSpanId(): string {
    return spanIdOf(this.#runId, 'run');
  }

  #agentSpanId(agentId: string): string {
    return spanIdOf(this.#runId, 'agent', agentId);
  }

  #callSpanId(toolCallId: string): string {
    return spanIdOf(this.#runId, 'tool', toolCallId);
  }

  #span(
    { at }: StoredEvent,
    operation: string,
    subject: string | undefined,
    parts: Omit<Span, 'runId' | 'name' | 'kind' | 'endMs'> & { kind?: Span['kind'] },
  ): Span {
    const endMs = Date.parse(at);
    return {
      kind: 'internal',
      ...parts,
      name: `${operation} ${safeName(subject) ?? ''}`.trim(),
      runId: this.#runId,
      startMs: Math.min(parts.startMs, endMs),
      endMs,
      attributes: {
        ...parts.attributes,
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

/** Providers whose name in OpenTelemetry's conventions differs from ours. */
const providerNames: ReadonlyMap<string, string> = new Map([
  ['google', 'gcp.gemini'],
  ['gemini', 'gcp.gemini'],
  ['vertex', 'gcp.vertex_ai'],
  ['azure', 'azure.ai.openai'],
  ['bedrock', 'aws.bedrock'],
  ['mistral', 'mistral_ai'],
  ['xai', 'x_ai'],
]);

function modelAttributes(name: string | undefined): Attributes {
  if (name === undefined) return {};
  const unknown = { provider: name === 'demo' ? name : undefined, model: name };
  const { provider, model } = parseModelName(name) ?? unknown;
  return {
    'gen_ai.request.model': safeName(model),
    // A model without a prefix that we know comes from the configuration: its provider is unknown.
    'gen_ai.provider.name': safeName(providerNames.get(provider ?? '') ?? provider),
  };
}

function usageAttributes(usage: Usage | undefined): Attributes {
  return {
    'gen_ai.usage.input_tokens': usage?.inputTokens,
    'gen_ai.usage.output_tokens': usage?.outputTokens,
    'gen_ai.usage.cache_read.input_tokens': usage?.cachedInputTokens,
    'gen_ai.usage.cache_creation.input_tokens': usage?.cacheWriteTokens,
    'gen_ai.usage.reasoning.output_tokens': usage?.reasoningTokens,
  };
}

function agentAttributes(id: string, name: string | undefined): Attributes {
  return { 'gen_ai.agent.id': id, 'gen_ai.agent.name': safeName(name) };
}

type Value = string | number | boolean | readonly string[];
export type Attributes = Readonly<Record<string, Value | undefined>>;

export interface Span {
  readonly runId: string;
  readonly id: string;
  readonly parentId?: string | undefined;
  readonly name: string;
  readonly kind: 'internal' | 'server' | 'client';
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Attributes;
  /** An error code; never a message, which could repeat private content. */
  readonly error?: string | undefined;
  readonly link?: { readonly traceId: string; readonly spanId: string } | undefined;
}

/** A run has one trace, on all nodes and after every restart. */
export function traceIdOf(runId: string): string {
  return runId.replaceAll('-', '');
}

export function spanIdOf(...parts: readonly (string | number)[]): string {
  const digest = createHash('sha256').update(JSON.stringify(parts)).digest('hex');
  const id = digest.slice(0, 16);
  // All zeros is not a valid id.
  return /[^0]/.test(id) ? id : digest.slice(16, 32);
}

/** The timestamp in a UUIDv7. */
export function timestampOf(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}

/** Undefined unless it looks like a name or an id: a model can call a tool by a sentence. */
function safeName(text: string | undefined): string | undefined {
  return text !== undefined && /^[\w.:~/@+-]{1,128}$/.test(text) ? text : undefined;
}

const form = /^00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$/;

/** Parses a W3C `traceparent` header; undefined if it is invalid. */
export function parseTraceparent(
  header: string | readonly string[] | undefined,
): { traceId: string; spanId: string } | undefined {
  const [, traceId = '', spanId = ''] = typeof header === 'string' ? (form.exec(header) ?? []) : [];
  return /[^0]/.test(traceId) && /[^0]/.test(spanId) ? { traceId, spanId } : undefined;
}
