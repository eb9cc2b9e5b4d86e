import type {
  AgentEnd,
  JsonSchema,
  MemoryUse,
  ReasoningEffort,
  RunError,
  Usage,
} from '@relay/protocol';

export type GuardrailVerdict =
  | { readonly ok: true }
  | { readonly ok: false; readonly reason: string };

export interface GuardrailContext {
  readonly runId: string;
  readonly agentId: string;
  /** The name of the agent whose input or answer is checked. */
  readonly agent: string;
  readonly signal: AbortSignal;
}

/** Checks an agent's input or answer. A guardrail that throws refuses the text. */
export interface Guardrail {
  readonly name: string;
  check(text: string, context: GuardrailContext): GuardrailVerdict | Promise<GuardrailVerdict>;
}

export interface Guardrails {
  /** Checks the message of the user, before the first turn. */
  readonly input?: readonly Guardrail[];
  /** Checks the final answer, before it is accepted. */
  readonly output?: readonly Guardrail[];
}

/** An agent that runs start with, and that other agents can spawn or hand off to by name. */
export interface AgentDefinition {
  readonly name: string;
  /** Shown to the models of other agents. */
  readonly description?: string;
  readonly instructions?: string;
  /** Default: the model of the calling agent. */
  readonly model?: string;
  /** Names of tools. Default: those of the calling agent. */
  readonly tools?: readonly string[];
  /** Names of agents that it may hand off to. */
  readonly handoffs?: readonly string[];
  readonly guardrails?: Guardrails;
  readonly maxIterations?: number;
  /** The JSON Schema of the final answer. */
  readonly outputSchema?: JsonSchema;
  readonly reasoning?: ReasoningEffort;
  /** The memory namespace of runs that start with this agent. */
  readonly memory?: MemoryUse;
}

export interface AgentRegistry {
  find(name: string): AgentDefinition | undefined;
  list(): readonly AgentDefinition[];
}

/** The work of a sub-agent. Defaults come from the named agent, then from the parent. */
export interface Task {
  readonly prompt: string;
  readonly agent?: string;
  readonly model?: string;
  readonly instructions?: string;
  readonly tools?: readonly string[];
  readonly maxIterations?: number;
}

/** The result of a sub-agent. */
export interface AgentReport {
  readonly agentId: string;
  readonly agent: string;
  readonly reason: AgentEnd;
  readonly output: string;
  readonly error?: RunError;
  readonly usage: Usage;
}
