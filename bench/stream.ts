/**
 * Tokens from a scripted provider to a client, through Relay and through a bare `node:http`
 * pass-through. Every token that Relay shows is stored before, with synchronous=FULL.
 */
import { existsSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { agent, exchange, repeat } from './client.ts';
import {
  type BenchOptions,
  comparison,
  type Contender,
  interleave,
  quantile,
  selectRows,
  show,
} from './measure.ts';
import { scripts } from './processes/scripts.ts';
import { type BenchProcess, Processes } from './processes/start.ts';

const concurrency = 16;
const runsAtOnce = 320;
const runsAlone = 100;
const pacedStreams = 64;
/** A paced token is on time if it arrives at most this late, counted from the request. */
const lateMs = 5 * scripts.paced.everyMs;

type Model = keyof typeof scripts;

interface Workload {
  readonly model: Model;
  readonly tool?: true;
}

interface Target {
  readonly name: string;
  readonly server: BenchProcess;
  readonly post: (work: Workload) => { readonly path: string; readonly body: object };
  /** What comes after the last token. */
  readonly end: string;
}

interface Run {
  readonly firstTokenMs: number;
  /** How many tokens were on time, for a paced provider. */
  readonly onTime: number;
}

interface Round {
  /** Of all runs of the round. */
  readonly runs: readonly Run[];
  readonly runsPerSecond: number;
  readonly cpuMsPerRun: number;
}

const question = 'Say something';
const lookup = { name: 'lookup', description: 'Looks up a value' };
const parameters = {
  type: 'object',
  properties: { key: { type: 'string' } },
  required: ['key'],
};

/** A client's request to the pass-through is the one that Relay sends to the provider. */
function bareProxy(server: BenchProcess): Target {
  return {
    name: 'bare proxy',
    server,
    post: ({ model, tool }) => ({
      path: tool ? '/tool' : '/v1/chat/completions',
      body: {
        model,
        stream: true,
        messages: [{ role: 'user', content: question }],
        ...(tool ? { tools: [{ type: 'function', function: { ...lookup, parameters } }] } : {}),
      },
    }),
    end: '[DONE]',
  };
}

function relay(server: BenchProcess): Target {
  return {
    name: 'Relay, durable',
    server,
    post: ({ model, tool }) => ({
      path: '/v1/runs',
      body: {
        model,
        input: question,
        tools: tool ? [{ name: lookup.name, kind: 'builtin' }] : [],
      },
    }),
    end: '"type":"done","status":"completed"',
  };
}

function openaiAgents(server: BenchProcess): Target {
  return {
    name: 'OpenAI Agents SDK, stores nothing',
    server,
    post: (work) => ({ path: '/', body: { ...work, input: question } }),
    end: '[DONE]',
  };
}

/** One run, from the request to its end. */
async function run({ server, end, post }: Target, work: Workload): Promise<Run> {
  const { path, body } = post(work);
  const { tokens, everyMs } = scripts[work.model];
  const began = performance.now();
  let firstTokenMs = Number.NaN;
  let received = 0;
  let onTime = 0;
  let isEnded = false;
  /** What may be the beginning of a token or of the end. */
  let rest = '';
  await exchange(server, path, body, (chunk) => {
    if (isEnded) return;
    const text = rest + chunk;
    const now = performance.now() - began;
    const endAt = text.indexOf(end);
    isEnded = endAt !== -1;
    const until = isEnded ? endAt : text.length;
    let from = 0;
    for (
      let at = text.indexOf(' word');
      at !== -1 && at < until;
      at = text.indexOf(' word', from)
    ) {
      if (received === 0) firstTokenMs = now;
      if (now - received * everyMs <= lateMs) onTime += 1;
      received += 1;
      from = at + 1;
    }
    rest = text.slice(Math.max(from, text.length - end.length));
  }).ended;
  if (isEnded && received === tokens) return { firstTokenMs, onTime };
  throw new Error(`${received} of ${tokens} tokens; the end was ${rest}`);
}

async function measured(target: Target, work: () => Promise<Run[]>): Promise<Round> {
  const cpuBefore = await target.server.cpuMs();
  const began = performance.now();
  const runs = await work();
  const seconds = (performance.now() - began) / 1000;
  const cpuMs = (await target.server.cpuMs()) - cpuBefore;
  return { runs, runsPerSecond: runs.length / seconds, cpuMsPerRun: cpuMs / runs.length };
}

function manyAtOnce(target: Target, work: Workload, atOnce: number, count: number): Promise<Round> {
  return measured(target, () => repeat(count, atOnce, () => run(target, work)));
}

/** They start one after the other, since starts that coincide are not what is measured. */
function paced(target: Target): Promise<Round> {
  return measured(target, () =>
    Promise.all(
      Array.from({ length: pacedStreams }, async (_, index) => {
        await pause(index * scripts.paced.everyMs);
        return run(target, { model: 'paced' });
      }),
    ),
  );
}

type Measure = (round: (target: Target) => Promise<Round>) => Promise<Measured>;

interface Measured {
  show(title: string, unit: string, figure: (round: Round) => number): void;
}

const writes = {
  'small-writes': 'one token per write',
  'large-writes': '10 tokens per write',
} as const;
const unpaced = ['small-writes', 'large-writes'] as const;

/** The rows, by the name that `--only` takes. */
const rows = {
  async many(measure: Measure) {
    for (const model of unpaced) {
      const result = await measure((target) =>
        manyAtOnce(target, { model }, concurrency, runsAtOnce),
      );
      const title = `Stream: 200 tokens per run, ${writes[model]}, ${concurrency} at once`;
      result.show(title, 'runs/s', (round) => round.runsPerSecond);
      result.show('  CPU of the server per run', 'ms', (round) => round.cpuMsPerRun);
    }
  },
  async alone(measure: Measure) {
    for (const model of unpaced) {
      const result = await measure((target) => manyAtOnce(target, { model }, 1, runsAlone));
      const title = `Stream: 200 tokens per run, ${writes[model]}, one at a time`;
      result.show(title, 'runs/s', (round) => round.runsPerSecond);
      for (const q of [0.5, 0.99]) {
        result.show(`  time to first token, p${q * 100}`, 'ms', ({ runs }) =>
          quantile(
            runs.map((run) => run.firstTokenMs),
            q,
          ),
        );
      }
    }
  },
  async paced(measure: Measure) {
    const result = await measure(paced);
    const all = pacedStreams * scripts.paced.tokens;
    result.show(
      `Stream: ${pacedStreams} streams paced at 100 tokens/s, at most ${lateMs} ms late`,
      '% of the tokens',
      ({ runs }) => (runs.reduce((sum, { onTime }) => sum + onTime, 0) / all) * 100,
    );
    result.show(
      '  CPU of the server per token',
      'µs',
      ({ cpuMsPerRun }) => (cpuMsPerRun / scripts.paced.tokens) * 1000,
    );
  },
  async tool(measure: Measure) {
    const work: Workload = { model: 'tool', tool: true };
    for (const [title, atOnce, count] of [
      [`${concurrency} at once`, concurrency, runsAtOnce],
      ['one at a time', 1, runsAlone],
    ] as const) {
      const result = await measure((target) => manyAtOnce(target, work, atOnce, count));
      result.show(`Stream: one server-side tool, ${title}`, 'runs/s', (r) => r.runsPerSecond);
      result.show('  CPU of the server per run', 'ms', (round) => round.cpuMsPerRun);
    }
  },
} as const;

export async function benchStream(
  rounds: number,
  { only, profile, peer = false }: BenchOptions = {},
): Promise<void> {
  const chosen = selectRows('stream', rows, only);
  await Processes.use(profile, async (processes) => {
    const targets = [bareProxy(await processes.start('proxy.ts')), relay(await processes.relay())];
    if (peer) targets.push(openaiAgents(await startPeer(processes)));
    for (const row of chosen) await row(measureWith(targets, rounds));
  });
  agent.destroy();
}

function startPeer(processes: Processes): Promise<BenchProcess> {
  if (!existsSync(new URL('peers/node_modules', import.meta.url))) {
    throw new Error('--peer requires: npm --prefix bench/peers install --no-package-lock');
  }
  return processes.start('../peers/openai-agents.mjs');
}

function measureWith(targets: readonly Target[], rounds: number): Measure {
  return async (round) => {
    const contenders = targets.map((target): Contender<Round> => ({
      name: target.name,
      run: () => round(target),
    }));
    await interleave(contenders, 1);
    const results = await interleave(contenders, rounds);
    return {
      show: (title, unit, figure) =>
        show(
          title,
          comparison(
            contenders,
            results.map((own) => own.map(figure)),
          ),
          unit,
        ),
    };
  };
}
