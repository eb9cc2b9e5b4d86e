/**
 * Tokens from a scripted provider to a client, through Relay and through a bare `node:http`
 * pass-through. Every token that Relay shows is stored before, with synchronous=FULL.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { Agent, request } from 'node:http';
import { fileURLToPath } from 'node:url';
import { type Comparison, compare, median, quantile, show } from './measure.ts';

const tokens = 200;
const concurrency = 16;
const runsPerRound = 320;
const alone = 100;

const agent = new Agent({ keepAlive: true, maxSockets: concurrency });

interface Target {
  readonly child: ChildProcess;
  readonly port: number;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** What a client waits to see. */
  readonly firstToken: string;
}

function started(name: string, env: Readonly<Record<string, string>> = {}) {
  const file = fileURLToPath(new URL(`processes/${name}.ts`, import.meta.url));
  const child = fork(file, { env: { ...process.env, BENCH_TOKENS: String(tokens), ...env } });
  const told: { port?: number; apiKey?: string } = {};
  return new Promise<{ child: ChildProcess; port: number; apiKey: string }>((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`${name} ended with ${code}`)));
    child.on('message', (message: { port?: number; apiKey?: string }) => {
      Object.assign(told, message);
      if (told.port !== undefined) {
        resolve({ child, port: told.port, apiKey: told.apiKey ?? '' });
      }
    });
  });
}

function cpuMs(child: ChildProcess): Promise<number> {
  return new Promise((resolve) => {
    const told = (message: { cpuMs?: number }) => {
      if (message.cpuMs === undefined) return;
      child.off('message', told);
      resolve(message.cpuMs);
    };
    child.on('message', told);
    child.send('cpu');
  });
}

/** One run from request to end; resolves with the milliseconds to the first token. */
function once(target: Target): Promise<number> {
  return new Promise((resolve, reject) => {
    const began = performance.now();
    let first: number | undefined;
    let text = '';
    const sent = request(
      {
        host: '127.0.0.1',
        port: target.port,
        path: target.path,
        method: 'POST',
        agent,
        headers: { 'content-type': 'application/json', ...target.headers },
      },
      (response) => {
        response.setEncoding('latin1');
        response.on('data', (chunk: string) => {
          if (first === undefined && chunk.includes(target.firstToken)) {
            first = performance.now() - began;
          }
          text += chunk;
        });
        response.once('end', () => {
          const complete = text.includes(` word${(tokens - 1) % 97}"`);
          if (first === undefined || !complete)
            reject(new Error(`Incomplete: ${text.slice(-300)}`));
          else resolve(first);
        });
      },
    );
    sent.once('error', reject);
    sent.end(target.body);
  });
}

async function manyAtOnce(target: Target): Promise<number> {
  const began = performance.now();
  let left = runsPerRound;
  await Promise.all(
    Array.from({ length: concurrency }, async () => {
      while (left-- > 0) await once(target);
    }),
  );
  return (runsPerRound * tokens) / ((performance.now() - began) / 1000);
}

async function cpuPerRun(target: Target): Promise<number> {
  const before = await cpuMs(target.child);
  await manyAtOnce(target);
  return ((await cpuMs(target.child)) - before) / runsPerRound;
}

export async function benchStream(rounds: number): Promise<void> {
  const provider = await started('provider');
  const env = { BENCH_PROVIDER_PORT: String(provider.port) };
  const [proxy, relay] = await Promise.all([started('proxy', env), started('relay', env)]);
  const messages = [{ role: 'user', content: 'Say something' }];
  const bare: Target = {
    ...proxy,
    path: '/v1/chat/completions',
    headers: {},
    body: JSON.stringify({ model: 'bench', stream: true, messages }),
    firstToken: ' word0',
  };
  const ours: Target = {
    ...relay,
    path: '/v1/runs',
    headers: { authorization: `Bearer ${relay.apiKey}` },
    body: JSON.stringify({ model: 'bench', input: 'Say something' }),
    firstToken: ' word0',
  };
  try {
    await manyAtOnce(bare);
    await manyAtOnce(ours);
    const both = (measure: (target: Target) => Promise<number>) => [
      { name: 'bare proxy', run: () => measure(bare) },
      { name: 'Relay, durable', run: () => measure(ours) },
    ];
    show(
      `Stream: ${tokens} tokens a run, provider unpaced, ${concurrency} at once`,
      await compare(both(manyAtOnce), rounds),
      'tokens/s',
    );
    show('Stream: CPU of the server a run', await compare(both(cpuPerRun), rounds), 'ms');
    showFirstTokens(await firstTokens(bare), await firstTokens(ours));
  } finally {
    agent.destroy();
    for (const { child } of [provider, proxy, relay]) child.disconnect();
  }
}

async function firstTokens(target: Target): Promise<number[]> {
  const times: number[] = [];
  for (let n = 0; n < alone; n += 1) times.push(await once(target));
  return times;
}

function showFirstTokens(bare: readonly number[], ours: readonly number[]): void {
  const baseline = median(bare);
  const row = (name: string, times: readonly number[]): Comparison => ({
    name,
    median: median(times),
    ratio: median(times) / baseline,
  });
  show(
    'Stream: time to the first token, one at a time, p50',
    [row('bare proxy', bare), row('Relay, durable', ours)],
    'ms',
  );
  console.log(
    `  p99: ${quantile(bare, 0.99).toFixed(2)} and ${quantile(ours, 0.99).toFixed(2)} ms`,
  );
}
