/** Connects the core's run loop to one harness, with an in-memory store for one run. */
import { createHash } from 'node:crypto';
import {
  type AgentRegistry,
  type CompactionSettings,
  type RunControl,
  defaultSettings,
  type Engine,
  type Log,
  MemoryBudget,
  type Model,
  type ModelRegistry,
  type Publisher,
  Supervisor,
  systemClock,
  type Tool,
  type ToolRegistry,
  TranscriptCache,
} from '@relay/core';
import { createMemoryStore } from '@relay/store';
import { uuidv7 } from 'uuidv7';
import { type Harness, modelOf } from './models.ts';
import type { AgentRules } from './rules.ts';

export type CompactionOptions = Partial<CompactionSettings>;

export interface Wiring {
  readonly harness: Harness;
  readonly agents: AgentRegistry;
  readonly tools: ToolRegistry;
  readonly rules: AgentRules;
  readonly compaction: CompactionOptions;
  readonly context?: Readonly<Record<string, unknown>> | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly publish: Publisher['publish'];
}

/** Practically forever. */
export const noExpiryMs = 100 * 365 * 24 * 60 * 60 * 1000;
/** How long a canceled run waits for a tool that ignores its signal. */
const graceMs = 1_000;

export function wireRun(wiring: Wiring): RunControl {
  const { harness, agents, rules, compaction, publish } = wiring;
  const models = modelsFor(wiring);
  const tools = toolsFor(wiring);
  const engine: Engine = {
    store: createMemoryStore(),
    transcripts: new TranscriptCache(),
    // The engine drives this run alone.
    memory: new MemoryBudget(Infinity),
    clock: systemClock,
    ids: { next: uuidv7 },
    digest: (text) => createHash('sha256').update(text).digest('hex'),
    publisher: { publish },
    log: silent,
    settings: {
      ...defaultSettings,
      node: 'program',
      // There is no other node to take over the run.
      leaseTtlMs: noExpiryMs,
      approvalTtlMs: relayTtlMs(harness),
      lateAnswerMs: 0,
      graceMs,
      maxAnswerChars: harness.maxAnswerChars ?? defaultSettings.maxAnswerChars,
      compaction: { ...defaultSettings.compaction, ...compaction },
    },
    models: () => models,
    tools: () => tools,
    agents: () => agents,
    rules: () => rules,
  };
  return { engine, supervisor: new Supervisor(engine) };
}

/** At least 1 ms, so that a relay is published before it expires. Not finite means forever. */
function relayTtlMs({ relayTimeoutMs = Infinity }: Harness): number {
  return Number.isFinite(relayTimeoutMs)
    ? Math.min(Math.max(1, relayTimeoutMs), noExpiryMs)
    : noExpiryMs;
}

function modelsFor({ harness, signal }: Wiring): ModelRegistry {
  return {
    resolve: (name) => {
      const model = modelOf(harness, name);
      return signal?.aborted === true && model !== undefined ? silentModel : model;
    },
    list: () => [],
    price: (name) => harness.price?.(name),
  };
}

/** For a run that is canceled before it starts: the real model is not called. */
const silentModel: Model = {
  async *stream(_request, signal) {
    if (!signal.aborted) {
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    }
    yield [];
  },
};

/** The program's context goes to tools directly, because it may not be serializable. */
function toolsFor({ tools, context }: Wiring): ToolRegistry {
  if (context === undefined) return tools;
  const withContext = (tool: Tool): Tool => {
    const execute: Tool['execute'] = (input, own) => tool.execute(input, { ...own, context });
    // Keeps everything else of the tool, also if it is an instance of a class.
    return Object.create(tool, { execute: { value: execute } }) as Tool;
  };
  return {
    find: (name) => {
      const tool = tools.find(name);
      return tool === undefined ? undefined : withContext(tool);
    },
    list: () => tools.list().map(withContext),
  };
}

/** Errors of a run are events; a library does not write to the console. */
const silent: Log = { warn: () => undefined, error: () => undefined };
