/** The kernel's loop around one harness, on a store in memory that belongs to one run alone. */
import { createHash } from 'node:crypto';
import {
  type AgentRegistry,
  type CompactionSettings,
  type Control,
  defaultSettings,
  type Engine,
  type Log,
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

/** As good as never. */
export const aCenturyMs = 100 * 365 * 24 * 60 * 60 * 1000;
/** What a tool that does not listen to its signal may hold up the end of a canceled run. */
const graceMs = 1_000;

export function wireRun(wiring: Wiring): Control {
  const { harness, agents, rules, compaction, publish } = wiring;
  const models = modelsFor(wiring);
  const tools = toolsFor(wiring);
  const engine: Engine = {
    store: createMemoryStore(),
    transcripts: new TranscriptCache(),
    clock: systemClock,
    ids: { next: uuidv7 },
    digest: (text) => createHash('sha256').update(text).digest('hex'),
    publisher: { publish },
    log: silent,
    settings: {
      ...defaultSettings,
      node: 'program',
      // Nobody else could take the run over.
      leaseTtlMs: aCenturyMs,
      approvalTtlMs: patienceOf(harness),
      lateAnswerMs: 0,
      graceMs,
      compaction: { ...defaultSettings.compaction, ...compaction },
    },
    models: () => models,
    tools: () => tools,
    agents: () => agents,
    rules: () => rules,
  };
  return { engine, supervisor: new Supervisor(engine) };
}

/** A relay must have been shown before its time is over. What is no time at all is for ever. */
function patienceOf({ relayTimeoutMs = Infinity }: Harness): number {
  return Number.isFinite(relayTimeoutMs)
    ? Math.min(Math.max(1, relayTimeoutMs), aCenturyMs)
    : aCenturyMs;
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

/** Of a run that is canceled before it has begun: nobody is asked any more. */
const silentModel: Model = {
  async *stream(_request, signal) {
    if (!signal.aborted) {
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    }
    yield [];
  },
};

/** What a program hands along for its tools need not survive a store. */
function toolsFor({ tools, context }: Wiring): ToolRegistry {
  if (context === undefined) return tools;
  const withContext = (tool: Tool): Tool => {
    const execute: Tool['execute'] = (input, given) => tool.execute(input, { ...given, context });
    // It stays the same tool in all else, however it was made.
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

/** What goes wrong in a run is one of its events; a library does not write to the console. */
const silent: Log = { warn: () => undefined, error: () => undefined };
