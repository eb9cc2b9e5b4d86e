/**
 * Messages to sessions: how many per second, how fast each, whether that depends on what there was before,
 * and what idle sessions cost. The limit is a bare server that relays messages, with one commit per step
 * (`processes/sessions-limit.ts`).
 */
import { setTimeout as pause } from 'node:timers/promises';
import { type Address, agent, ask, exchange, repeat } from './client.ts';
import {
  type BenchOptions,
  compare,
  comparison,
  type Contender,
  interleave,
  quantile,
  selectRows,
  show,
} from './measure.ts';
import { inTime } from './processes/in-time.ts';
import { type BenchProcess, Processes } from './processes/start.ts';

const sessions = 1_000;
const atOnce = 16;
const messagesPerRound = 500;
const latenciesPerRound = 100;
/** Long enough for two heartbeats. */
const idleMs = 30_000;

interface SessionFrame {
  readonly type: string;
  readonly deliveryId?: string;
  readonly status?: string;
}

/** A message on its way: when it has come, and when nothing of it is left to do. */
interface Arrival {
  readonly came: PromiseWithResolvers<number>;
  readonly settled: PromiseWithResolvers<void>;
}

/** A session and its open stream. */
class Recipient {
  readonly handle: string;
  #arrival: Arrival | undefined;
  settled = 0;

  constructor(handle: string) {
    this.handle = handle;
  }

  /** Of the next message. */
  expect(): Arrival {
    this.#arrival = { came: Promise.withResolvers(), settled: Promise.withResolvers() };
    return this.#arrival;
  }

  hasCome(): void {
    this.#arrival?.came.resolve(performance.now());
  }

  hasSettled(): void {
    this.settled += 1;
    this.#arrival?.settled.resolve();
  }

  async hasSettledAll(count: number): Promise<void> {
    while (this.settled < count) await pause(20);
  }
}

function follow(server: Address, path: string, read: (frame: SessionFrame) => void): Promise<void> {
  let text = '';
  const { opened, ended } = exchange(server, path, undefined, (chunk) => {
    text += chunk;
    for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
      const [, data] = /^data: ?(.*)$/m.exec(text.slice(0, end)) ?? [];
      text = text.slice(end + 2);
      if (data !== undefined) read(JSON.parse(data) as SessionFrame);
    }
  });
  // A stream that is refused; those that are open end with the benchmark.
  return Promise.race([opened, ended]);
}

const capabilities = {
  messaging: { receive: true, send: true },
  delivery: { modes: ['immediate', 'on-idle'], queue: true },
  events: { emits: ['status.changed'] },
  lifecycle: { release: false },
};

interface Attached {
  readonly session: { readonly id: string };
  readonly token: string;
}

async function attach(server: Address, handle: string): Promise<Attached> {
  const identity = { name: handle, kind: 'program' };
  const body = { handle, identity, capabilities };
  return (await ask(server, '/v1/sessions/attach', body)) as Attached;
}

/** A program that consumes what it gets. */
async function openRemote({ port, ...server }: Address, handle: string): Promise<Recipient> {
  const recipient = new Recipient(handle);
  const { session, token } = await attach({ port, ...server }, handle);
  const own = { port, apiKey: token };
  const path = `/v1/sessions/${session.id}/deliveries`;
  await follow(own, `${path}/stream`, ({ deliveryId }) => {
    recipient.hasCome();
    const receipt = ask(own, `${path}/${deliveryId}/receipt`, { status: 'consumed' });
    void receipt.then(() => recipient.hasSettled());
  });
  return recipient;
}

async function create(server: Address, handle: string): Promise<string> {
  const body = { harness: 'native', handle, model: 'reply' };
  const { id, lastSeq = 0 } = (await ask(server, '/v1/sessions', body)) as {
    readonly id: string;
    readonly lastSeq?: number;
  };
  return `/v1/sessions/${id}/stream?after=${lastSeq}`;
}

/** An agent whose events are followed. */
async function openNative(server: Address, handle: string): Promise<Recipient> {
  const recipient = new Recipient(handle);
  await follow(server, await create(server, handle), ({ type, status }) => {
    if (type === 'message.received') recipient.hasCome();
    if (type === 'status.changed' && status === 'idle') recipient.hasSettled();
  });
  return recipient;
}

type Open = (server: Address, handle: string) => Promise<Recipient>;

function openAll(server: Address, open: Open, count = sessions): Promise<Recipient[]> {
  let next = 0;
  return repeat(count, 10, () => open(server, `session-${(next += 1)}`));
}

function post(server: Address, { handle }: Recipient, mode?: string): Promise<unknown> {
  return ask(server, '/v1/messages', { to: `@${handle}`, text: 'How far are you?', mode });
}

/** From before the request until the recipient has the message, in ms. */
async function send(server: Address, recipient: Recipient): Promise<number> {
  const { came, settled } = recipient.expect();
  const began = performance.now();
  const sent = post(server, recipient);
  const arrival = Promise.all([came.promise, sent, settled.promise]);
  const [cameAt] = await inTime('The arrival of a message', arrival);
  return cameAt - began;
}

class Target {
  readonly name: string;
  readonly #server: BenchProcess;
  readonly #recipients: readonly Recipient[];
  #next = 0;

  constructor(name: string, server: BenchProcess, recipients: readonly Recipient[]) {
    this.name = name;
    this.#server = server;
    this.#recipients = recipients;
  }

  /** To each session in turn. */
  #send(): Promise<number> {
    const recipient = this.#recipients[this.#next % this.#recipients.length];
    if (recipient === undefined) throw new Error('There are no sessions');
    this.#next += 1;
    return send(this.#server, recipient);
  }

  /** Messages per second. */
  async rate(): Promise<number> {
    const began = performance.now();
    await repeat(messagesPerRound, atOnce, () => this.#send());
    return messagesPerRound / ((performance.now() - began) / 1000);
  }

  latencies(): Promise<number[]> {
    return repeat(latenciesPerRound, 1, () => this.#send());
  }

  async cpuPerMessage(): Promise<number> {
    const before = await this.#server.cpuMs();
    await repeat(messagesPerRound, atOnce, () => this.#send());
    return ((await this.#server.cpuMs()) - before) / messagesPerRound;
  }
}

async function showLatencies(
  title: string,
  targets: readonly Target[],
  rounds: number,
): Promise<void> {
  const contenders: Contender<number[]>[] = targets.map((target) => ({
    name: target.name,
    run: () => target.latencies(),
  }));
  const results = (await interleave(contenders, rounds)).map((delays) => delays.flat());
  for (const q of [0.5, 0.99]) {
    const figures = results.map((delays) => [quantile(delays, q)]);
    show(`${title}, p${q * 100}`, comparison(contenders, figures), 'ms');
  }
}

interface Kind {
  readonly name: string;
  readonly open: Open;
  readonly end: string;
}

const remoteKind: Kind = { name: 'remote programs', open: openRemote, end: 'frame' };
const nativeKind: Kind = { name: 'native sessions', open: openNative, end: 'consumed' };

async function deliveries(processes: Processes, rounds: number, kind: Kind): Promise<void> {
  const bare = await processes.start('sessions-limit.ts');
  const relay = await processes.relay();
  const targets = [
    new Target('bare, one commit per step', bare, await openAll(bare, kind.open)),
    new Target('Relay', relay, await openAll(relay, kind.open)),
  ];
  const of = (run: (target: Target) => Promise<number>) =>
    targets.map((target) => ({ name: target.name, run: () => run(target) }));
  const rate = of((target) => target.rate());
  await interleave(rate, 1);
  const title = `Messages to ${sessions.toLocaleString('en')} ${kind.name}, ${atOnce} at once`;
  show(title, await compare(rate, rounds), '/s');
  const cpu = of((target) => target.cpuPerMessage());
  show(`${title}: CPU per message`, await compare(cpu, rounds), 'ms');
  await showLatencies(`Sent → ${kind.end}, one at a time, ${kind.name}`, targets, rounds);
}

const historySizes = { few: 10, many: 10_000 } as const;

async function fillRemote(server: Address, recipient: Recipient, count: number): Promise<void> {
  const before = recipient.settled;
  await repeat(count, 8, () => post(server, recipient));
  await inTime('Earlier messages', recipient.hasSettledAll(before + count));
}

/** As few turns with many messages each. */
async function fillNative(server: Address, recipient: Recipient, count: number): Promise<void> {
  const perTurn = 500;
  for (let left = count; left > 0; left -= perTurn) {
    const { settled } = recipient.expect();
    await repeat(Math.min(left, perTurn), 8, () => post(server, recipient, 'manual'));
    const { id } = await sessionOf(server, recipient);
    await ask(server, `/v1/sessions/${id}/flush`, {});
    await inTime('A turn with earlier messages', settled.promise);
  }
}

async function sessionOf(server: Address, { handle }: Recipient): Promise<{ id: string }> {
  const list = (await ask(server, '/v1/sessions?limit=200')) as {
    readonly sessions: readonly { readonly id: string; readonly identity: { handle: string } }[];
  };
  const found = list.sessions.find(({ identity }) => identity.handle === handle);
  if (found === undefined) throw new Error(`No session @${handle}`);
  return found;
}

async function history(processes: Processes, rounds: number): Promise<void> {
  for (const { name, open, end } of [remoteKind, nativeKind]) {
    const fill = open === openRemote ? fillRemote : fillNative;
    const alone = await processes.relay();
    const among = await processes.relay();
    const first = await open(alone, 'first');
    await openAll(among, open, sessions - 2);
    const [short, long] = [await open(among, 'short'), await open(among, 'long')];
    const { few, many } = historySizes;
    await fill(alone, first, few);
    await fill(among, short, few);
    await fill(among, long, many);
    const targets = [
      new Target('1 session, 10 messages before', alone, [first]),
      new Target('1,000 sessions, 10 before', among, [short]),
      new Target('1,000 sessions, 10,000 before', among, [long]),
    ];
    for (const target of targets) await target.latencies();
    await showLatencies(`Sent → ${end}, ${name}`, targets, rounds);
    await alone.stop();
    await among.stop();
  }
}

/** In KiB. */
async function heapPerSession(
  server: BenchProcess,
  open: (server: Address, handle: string) => Promise<unknown>,
): Promise<number> {
  // The first ones also fill caches and compile code.
  await repeat(100, 10, nextOf(server, open, 'first'));
  const before = await server.heapBytes();
  await repeat(sessions, 10, nextOf(server, open, 'session'));
  return ((await server.heapBytes()) - before) / sessions / 1024;
}

function nextOf(
  server: Address,
  open: (server: Address, handle: string) => Promise<unknown>,
  name: string,
) {
  let next = 0;
  return () => open(server, `${name}-${(next += 1)}`);
}

/** Open streams cannot be closed and opened again without a trace, so there is one round. */
async function idle(processes: Processes): Promise<void> {
  const execArgv = ['--expose-gc'];
  const kinds = [
    { name: 'remote with an open stream', open: openRemote },
    { name: 'native', open: create },
    { name: 'remote without a stream', open: attach },
  ];
  const servers: { name: string; server: BenchProcess }[] = [
    { name: 'Relay without sessions', server: await processes.relay() },
  ];
  for (const { name, open } of kinds) {
    const bare = await processes.start('sessions-limit.ts', { execArgv });
    const relay = await processes.relay({ execArgv });
    const heap = [await heapPerSession(bare, open), await heapPerSession(relay, open)];
    const contenders = [{ name: 'bare' }, { name: 'Relay' }];
    const figures = heap.map((each) => [each]);
    show(`Live heap per idle session, ${name}`, comparison(contenders, figures), 'KiB');
    servers.push({ name: `1,000 ${name}`, server: relay });
    await bare.stop();
  }
  // Programs without a stream are offline by then.
  await pause(idleMs);
  const cpu = () => Promise.all(servers.map(({ server }) => server.cpuMs()));
  const before = await cpu();
  await pause(idleMs);
  const used = (await cpu()).map((after, index) => [
    ((after - (before[index] ?? 0)) / idleMs) * 100,
  ]);
  show('CPU with idle sessions', comparison(servers, used), '% of a core');
}

const rows = {
  remote: (processes: Processes, rounds: number) => deliveries(processes, rounds, remoteKind),
  native: (processes: Processes, rounds: number) => deliveries(processes, rounds, nativeKind),
  idle,
  history,
} as const;

export async function benchSessions(
  rounds: number,
  { only, profile }: BenchOptions = {},
): Promise<void> {
  for (const row of selectRows('sessions', rows, only)) {
    await Processes.use(profile, (processes) => row(processes, rounds));
    agent.destroy();
  }
}
