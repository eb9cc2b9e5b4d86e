/**
 * Random trees of agents, each from a number alone: what every agent says and calls, what people
 * answer, what the run may use up, and when its process dies. The model follows its script by what
 * it is shown, so that it goes on where it was after any crash, compaction or limit.
 */
import {
  type AgentDefinition,
  type AgentReport,
  type Model,
  type ModelEvent,
  type ModelRequest,
  ProviderFailure,
  type Tool,
} from '@relay/core';
import {
  createRecordingTool,
  finish,
  type RecordingTool,
  text,
  toolCall,
} from '@relay/core/testing';
import { agentTool } from '@relay/tools';
import { isSummarizing } from '../loop/page-reader.ts';
import type { AskOptions } from '../support/kernel.ts';

/** A number between 0 and 1, the next in a row that the seed decides (mulberry32). */
export function createChance(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const disturbances = ['crash before', 'crash after', 'stop'] as const;

/** How a process ends before the run does: at which write, and how. */
export interface Disturbance {
  readonly atWrite: number;
  readonly kind: (typeof disturbances)[number];
}

export interface Plan {
  readonly seed: number;
  readonly model: Model;
  readonly tools: readonly RecordingTool[];
  readonly delegates: readonly Tool[];
  readonly agents: readonly AgentDefinition[];
  readonly request: AskOptions;
  readonly disturbances: readonly Disturbance[];
  /** The append at which the store fails, before or after it has stored what it was given. */
  readonly faultAt: number;
  /** The run is canceled when its journal has this length. */
  readonly cancelAt: number;
}

type Turn = readonly ModelEvent[] | Error;

const maxAgents = 7;
const deepest = 3;

export function createPlan(seed: number): Plan {
  const chance = createChance(seed);
  const scripts = new Map<string, readonly Turn[]>();
  const writer = new ScriptWriter(chance, scripts);
  writer.write('task:0', 0);
  const often = (part: number) => chance() < part;
  const below = (count: number) => Math.floor(chance() * count);
  return {
    seed,
    model: createModel(scripts, {
      contextTokens: often(0.3) ? 300 + below(600) : undefined,
      slow: often(0.4),
    }),
    tools: createTools(),
    delegates: [agentTool],
    agents: [{ name: 'expert', instructions: 'You are the expert.', handoffs: [] }],
    request: {
      messages: [{ role: 'user', content: 'task:0' }],
      handoffs: ['expert'],
      maxIterations: 1 + below(6),
      permissions: often(0.3) ? { allowOnce: [{ tool: 'asked' }] } : {},
      limits: {
        ...(often(0.2) ? { toolCalls: below(8) } : {}),
        ...(often(0.2) ? { subAgents: below(4) } : {}),
        ...(often(0.2) ? { depth: below(3) } : {}),
        ...(often(0.2) ? { tokens: 1 + below(60) } : {}),
        ...(often(0.3) ? { timeMs: 1 + below(40) } : {}),
      },
    },
    disturbances: Array.from({ length: below(4) }, () => ({
      atWrite: 1 + below(18),
      kind: disturbances[below(disturbances.length)] ?? 'stop',
    })),
    faultAt: often(0.2) ? 2 + below(20) : Infinity,
    cancelAt: often(0.25) ? 1 + below(60) : Infinity,
  };
}

class ScriptWriter {
  readonly #chance: () => number;
  readonly #scripts: Map<string, readonly Turn[]>;
  #agents = 0;

  constructor(chance: () => number, scripts: Map<string, readonly Turn[]>) {
    this.#chance = chance;
    this.#scripts = scripts;
  }

  write(task: string, depth: number): void {
    const turns = Array.from({ length: this.#below(3) }, () => this.#turn(depth));
    const fails = depth > 0 && this.#chance() < 0.1;
    const last = fails
      ? new ProviderFailure('Out of order', { retryable: false })
      : [text(`${task} is done.`), finish()];
    this.#scripts.set(task, [...turns, last]);
  }

  #below(count: number): number {
    return Math.floor(this.#chance() * count);
  }

  #turn(depth: number): Turn {
    const calls = Array.from({ length: 1 + this.#below(3) }, (_, n) => this.#call(n, depth));
    const words = this.#chance() < 0.5 ? [text('Let me see. ')] : [];
    return [...words, ...calls, finish({ inputTokens: 3, outputTokens: this.#below(5) })];
  }

  /** Ids are those that a careless provider gives: the same in every turn of every agent. */
  #call(n: number, depth: number): ModelEvent {
    const id = `call_${n}`;
    const kind = this.#below(10);
    if (kind < 3) return toolCall(id, 'agent', { prompt: this.#task(depth) });
    if (kind < 5) {
      const prompts = Array.from({ length: 1 + this.#below(2) }, () => this.#task(depth));
      return toolCall(id, kind === 3 ? 'team' : 'crew', { prompts, waits: this.#chance() < 0.8 });
    }
    if (kind === 5 && this.#chance() < 0.4) return toolCall(id, 'handoff', { agent: 'expert' });
    const names = ['asked', 'asked', 'free', 'failing', 'slow', 'deaf', 'again', 'missing'];
    return toolCall(id, names[this.#below(names.length)] ?? 'free', { n });
  }

  #task(depth: number): string {
    this.#agents += 1;
    const task = `task:${this.#agents}`;
    if (this.#agents < maxAgents && depth < deepest) this.write(task, depth + 1);
    else this.#scripts.set(task, [[text(`${task} was short.`), finish()]]);
    return task;
  }
}

function createModel(
  scripts: ReadonlyMap<string, readonly Turn[]>,
  { contextTokens, slow }: { contextTokens: number | undefined; slow: boolean },
): Model {
  return {
    ...(contextTokens === undefined ? {} : { contextTokens }),
    async *stream(request, signal) {
      const task = taskOf(request);
      if (isSummarizing(request)) {
        yield [text(`It works on ${task}`), finish()];
        return;
      }
      const taken = request.messages.filter(({ role }) => role === 'assistant').length;
      const turn = scripts.get(task)?.[taken] ?? [text('Nothing more.'), finish()];
      if (turn instanceof Error) throw turn;
      for (const event of turn) {
        if (slow) await pause(1);
        if (signal.aborted) throw new ProviderFailure('Aborted', { retryable: false });
        yield [event];
      }
    },
  };
}

/** The first that is named: a parent reads of its own task before it names others. */
function taskOf({ messages }: ModelRequest): string {
  return /task:\d+/.exec(JSON.stringify(messages))?.[0] ?? '';
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

function createTools(): RecordingTool[] {
  const free = { allowedByDefault: true };
  return [
    createRecordingTool({ name: 'asked' }),
    createRecordingTool({ name: 'free', ...free, onUnknown: 'fail' }),
    createRecordingTool({ name: 'again', ...free, idempotent: true }),
    createRecordingTool({
      name: 'failing',
      ...free,
      execute: () => Promise.reject(new Error('It failed')),
    }),
    createRecordingTool({
      name: 'slow',
      ...free,
      async execute(_input, { progress }) {
        progress('half');
        await pause(3);
        return { context: 'slowly' };
      },
    }),
    createRecordingTool({
      name: 'deaf',
      ...free,
      async execute() {
        await pause(25);
        return { context: 'at last' };
      },
    }),
    createSpawner('team', true),
    createSpawner('crew', false),
  ];
}

function createSpawner(name: string, idempotent: boolean): RecordingTool {
  return createRecordingTool({
    name,
    allowedByDefault: true,
    idempotent,
    async execute(input, { spawn }) {
      const { prompts, waits } = input as { prompts: string[]; waits: boolean };
      const work = prompts.map((prompt) => spawn({ prompt }));
      if (!waits) return { context: 'left alone' };
      const reports = await Promise.allSettled(work);
      return { context: reports.map(wordsOf).join(' ') };
    },
  });
}

function wordsOf(settled: PromiseSettledResult<AgentReport>): string {
  return settled.status === 'fulfilled' ? settled.value.output : String(settled.reason);
}
