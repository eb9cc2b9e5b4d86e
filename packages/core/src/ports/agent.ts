import type {
  AgentEnd,
  JsonSchema,
  MemoryUse,
  ReasoningEffort,
  RunError,
  Usage,
} from '@relay/protocol';

/** What a guardrail thinks of a text. */
export type GuardrailVerdict =
  | { readonly ok: true }
  | { readonly ok: false; readonly reason: string };

export interface GuardrailContext {
  readonly runId: string;
  readonly agentId: string;
  /** The agent whose input or answer it is, by name. */
  readonly agent: string;
  readonly signal: AbortSignal;
}

/** Looks at what goes in or comes out. One that throws refuses. */
export interface Guardrail {
  readonly name: string;
  check(text: string, context: GuardrailContext): GuardrailVerdict | Promise<GuardrailVerdict>;
}

export interface Guardrails {
  /** Before the first turn: the message that the agent is to work on. */
  readonly input?: readonly Guardrail[];
  /** Before an answer counts. */
  readonly output?: readonly Guardrail[];
}

/** An agent that others can spawn or hand off to by its name. */
export interface AgentDefinition {
  readonly name: string;
  /** What it is for, as other agents are told. */
  readonly description?: string;
  readonly instructions?: string;
  /** Left out: the model of whoever calls it. */
  readonly model?: string;
  /** Names of tools. Left out: those of whoever calls it. */
  readonly tools?: readonly string[];
  /** Names of agents that it may hand off to. */
  readonly handoffs?: readonly string[];
  readonly guardrails?: Guardrails;
  readonly maxIterations?: number;
  /** The JSON Schema that its last answer has to fit. */
  readonly outputSchema?: JsonSchema;
  /** How much its model is to think. */
  readonly reasoning?: ReasoningEffort;
  /** For runs that begin with it: whose memories it reads, and where it leaves its own. */
  readonly memory?: MemoryUse;
}

export interface AgentRegistry {
  find(name: string): AgentDefinition | undefined;
  list(): readonly AgentDefinition[];
}

/** What a sub-agent is to do. What is left out it has from the named agent, else from its parent. */
export interface Task {
  readonly prompt: string;
  readonly agent?: string;
  readonly model?: string;
  readonly instructions?: string;
  readonly tools?: readonly string[];
  readonly maxIterations?: number;
}

/** What a sub-agent brings back. */
export interface AgentReport {
  readonly agentId: string;
  readonly agent: string;
  readonly reason: AgentEnd;
  readonly output: string;
  readonly error?: RunError;
  readonly usage: Usage;
}
