/**
 * Two agents and a person in one channel work through a task in which every delivery mode decides what is
 * read when. What the agents do is in `processes/team-script.ts`; the person is a client of the SDK, in the
 * process of the test, which is never killed. All of it is the same each time, whatever is killed meanwhile.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { createClient, type RelayClient, type RemoteSession } from '@relay/sdk';
import type { DeliveryMode, StoredEvent, StoredSessionEvent } from '@relay/protocol';
import type { Environment } from './environment.ts';
import { readLines, type ToolRan } from './record.ts';

const agents = ['builder', 'tester'] as const;
const members = [...agents, 'pat'];

export const teamSteps = [
  'plan',
  'build',
  'write to the busy agents',
  'interrupt',
  'write to the waiting agent',
  'approve',
  'review',
  'flush',
  'ship',
] as const;
export type TeamStep = (typeof teamSteps)[number];

export interface TeamOptions {
  readonly onStep?: (step: TeamStep) => void;
  /** The last step does not end before. */
  readonly untilQuiet?: () => Promise<void>;
}

/** What must be the same, whatever is killed. */
export interface TeamResult {
  /** What each member consumed, in order, as the journal of its session says. */
  readonly consumed: Readonly<Record<string, readonly string[]>>;
  /** What was in the context of each agent's model at the end, in order. */
  readonly read: Readonly<Record<string, readonly string[]>>;
  /** What the person was shown. */
  readonly shown: readonly string[];
  readonly messages: readonly string[];
  /** What the tools did. */
  readonly effects: readonly string[];
  readonly violations: readonly string[];
}

export interface TeamPlay {
  readonly result: TeamResult;
  /** By agent: the journal of the run that was interrupted. */
  readonly builds: Readonly<Record<string, readonly StoredEvent[]>>;
}

const timeoutMs = 40_000;

async function until<Value>(
  what: string,
  look: () => Promise<Value | undefined | false>,
): Promise<Value> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (Date.now() > deadline) throw new Error(`Timed out waiting for ${what}`);
    await pause(20);
  }
}

export async function playTeam(
  environment: Environment,
  { onStep = () => {}, untilQuiet = async () => {} }: TeamOptions = {},
): Promise<TeamPlay> {
  const client = createClient({
    baseUrl: 'http://relay.test',
    apiKey: environment.apiKey,
    maxRetries: 20,
    fetch: fetchFromAnyNode(environment),
  });
  await client.credentials.put('oracle', environment.credential as never);
  const sessions: Record<string, string> = {};
  for (const handle of agents) {
    const body = { harness: 'native', handle, model: `oracle:${handle}` };
    sessions[handle] = (await client.sessions.create(body)).id;
  }
  const shown: string[] = [];
  const pat = await client.sessions.serve({
    handle: 'pat',
    identity: { name: 'Pat', kind: 'human' },
    onMessage: ({ text }) => void shown.push(text),
  });
  sessions['pat'] = pat.id;
  await client.channels.put('team');
  for (const handle of members) await client.channels.addMember('team', handle);

  const outcomes = answerOutcomes(client, environment);
  try {
    const person = new Person(environment, client, { pat, sessions });
    const interrupted = await person.work({ onStep, untilQuiet });
    const builds: Record<string, readonly StoredEvent[]> = {};
    for (const [handle, runId] of interrupted) {
      builds[handle] = await all(client.runs.events(runId));
    }
    return { builds, result: await gather(environment, client, { sessions, shown }) };
  } finally {
    await outcomes.stop();
    await pat.close();
  }
}

interface Team {
  readonly pat: RemoteSession;
  readonly sessions: Readonly<Record<string, string>>;
}

class Person {
  readonly #environment: Environment;
  readonly #client: RelayClient;
  readonly #pat: RemoteSession;
  readonly #sessions: Readonly<Record<string, string>>;

  constructor(environment: Environment, client: RelayClient, { pat, sessions }: Team) {
    this.#environment = environment;
    this.#client = client;
    this.#pat = pat;
    this.#sessions = sessions;
  }

  async work({ onStep, untilQuiet }: Required<TeamOptions>): Promise<Map<string, string>> {
    onStep('plan');
    await this.#untilConsumed(await this.#write('plan'));
    await this.#untilIdle();

    onStep('build');
    await this.#write('build');
    await this.#untilHeld('builder never', 'tester never');
    const interrupted = new Map<string, string>();
    for (const handle of agents) {
      interrupted.set(handle, (await this.#session(handle)).activeRunId ?? '');
    }

    // In the opposite order to that in which they are read.
    onStep('write to the busy agents');
    const archive = await this.#write('archive it', 'manual');
    const review = await this.#write('get a review', 'on-idle');
    await this.#write('then pay', 'next-tool-call');
    await this.#write('take the small one', 'next-message');

    onStep('interrupt');
    await this.#write('stop, charge it', 'immediate');
    const approvalId = await until('the approval', async () => (await this.#pending())[0]);

    onStep('write to the waiting agent');
    const { id: fine } = await this.#pat.send({
      to: '@builder',
      text: 'it is fine',
      mode: 'immediate',
    });
    const [waiting] = await this.#client.messages.deliveries(fine);
    if (waiting?.status !== 'deferred' || waiting.reason !== 'approval open') {
      throw new Error(`The message does not wait for the approval: ${JSON.stringify(waiting)}`);
    }
    await this.#untilHeld('tester review');
    // The message has neither granted nor withdrawn it.
    if ((await this.#pending())[0] !== approvalId) throw new Error('The approval is not pending');

    onStep('approve');
    await this.#client.approvals.approve(approvalId);
    await this.#untilConsumed(fine);
    await this.#untilHeld('builder review');
    await this.#untilConsumed(review);

    onStep('review');
    await this.#open('builder review');
    await until('the message to the tester', async () => {
      const { items } = await this.#client.messages.list({ q: 'review it' }).page();
      return items.length > 0;
    });
    await this.#open('tester review');
    await this.#untilConsumed(
      await until('the reply of the tester', () => this.#messageOf('tester', 'Reviewed.')),
    );
    await this.#untilIdle();

    onStep('flush');
    const held = await this.#client.messages.deliveries(archive);
    if (held.some(({ status }) => status !== 'accepted')) {
      throw new Error(`A message did not wait for a flush: ${JSON.stringify(held)}`);
    }
    for (const handle of agents) await this.#client.sessions.flush(this.#idOf(handle));
    await this.#untilConsumed(archive);
    await this.#untilIdle();

    onStep('ship');
    const ship = await this.#write('ship it @tester');
    await this.#untilHeld('tester ship');
    await untilQuiet();
    await this.#open('tester ship');
    await this.#untilConsumed(ship);
    await this.#untilConsumed(
      await until('the reply of the tester', () => this.#messageOf('tester', 'Shipped.')),
    );
    await this.#untilIdle();
    return interrupted;
  }

  /** Writes to the channel. */
  async #write(text: string, mode?: DeliveryMode): Promise<string> {
    const body = mode === undefined ? { text } : { text, mode };
    return (await this.#pat.send({ to: '#team', ...body })).id;
  }

  #idOf(handle: string): string {
    return this.#sessions[handle] ?? '';
  }

  #session(handle: string) {
    return this.#client.sessions.get(this.#idOf(handle));
  }

  async #untilConsumed(messageId: string): Promise<void> {
    await until(`message ${messageId} to be consumed`, async () => {
      const query = { wait: 'consumed', waitMs: 1_000 } as const;
      const deliveries = await this.#client.messages.deliveries(messageId, query);
      return deliveries.every(({ status }) => status === 'consumed');
    });
  }

  async #untilIdle(): Promise<void> {
    for (const handle of agents) {
      await until(`${handle} to be idle`, async () => {
        const { status, activeRunId } = await this.#session(handle);
        return status === 'idle' && activeRunId === undefined;
      });
    }
  }

  async #untilHeld(...names: readonly string[]): Promise<void> {
    await until(names.join(' and '), async () => {
      const { held } = await modelServer(this.#environment);
      return names.every((name) => held.includes(name));
    });
  }

  async #open(name: string): Promise<void> {
    await modelServer(this.#environment, `/open/${encodeURIComponent(name)}`);
  }

  async #pending(): Promise<string[]> {
    const query = { status: 'pending', kind: 'permission' } as const;
    const { items } = await this.#client.approvals.list(query).page();
    return items.map(({ id }) => id);
  }

  async #messageOf(name: string, text: string): Promise<string | undefined> {
    const { items } = await this.#client.messages.list({ channel: 'team' }).page();
    return items.find((message) => message.from.name === name && message.text === text)?.id;
  }
}

async function modelServer(environment: Environment, path = '/') {
  const response = await fetch(`${environment.modelServer}${path}`);
  return (await response.json()) as {
    answering: number;
    held: string[];
    read: Record<string, string[]>;
  };
}

async function toolServer(environment: Environment, toolCallId: string) {
  const response = await fetch(`${environment.toolServer}/ran/${encodeURIComponent(toolCallId)}`);
  return (await response.json()) as { ran: boolean; working: number };
}

/** What the servers are waiting for at this moment: answers of models, and results of tools. */
export async function workOf(environment: Environment) {
  const [{ answering }, { working }] = await Promise.all([
    modelServer(environment),
    toolServer(environment, ''),
  ]);
  return { answering, working };
}

async function all<Item>(listing: AsyncIterable<Item>): Promise<Item[]> {
  const items: Item[] = [];
  for await (const item of listing) items.push(item);
  return items;
}

/** As through a load balancer: a request that a kill cut off is sent again. Its effect is the same. */
function fetchFromAnyNode(environment: Environment) {
  let place = 0;
  return async (url: string, init: RequestInit): Promise<Response> => {
    const { pathname, search } = new URL(url);
    for (;;) {
      try {
        const { urls } = environment;
        const response = await fetch(
          `${urls[(place += 1) % urls.length]}${pathname}${search}`,
          init,
        );
        const isStream = response.headers.get('content-type')?.startsWith('text/event-stream');
        if (isStream === true || response.status === 204) return response;
        // Read here, because the server may die before its response has arrived in full.
        const { status, headers } = response;
        return new Response(await response.text(), { status, headers });
      } catch (error) {
        if (init.signal?.aborted === true) throw error;
        await pause(20);
      }
    }
  };
}

/** The person is asked about a tool that was running when its server died, and looks it up. */
function answerOutcomes(client: RelayClient, environment: Environment) {
  const stopped = new AbortController();
  const work = (async () => {
    while (!stopped.signal.aborted) {
      const { items } = await client.approvals.list({ status: 'pending', kind: 'outcome' }).page();
      for (const { id, toolCallId = '' } of items) {
        // What was on its way when its sender died arrives, or never does.
        await pause(100);
        const { ran } = await toolServer(environment, toolCallId);
        await client.approvals.decide(
          id,
          ran ? { outcome: 'completed', output: { done: toolCallId } } : { outcome: 'rerun' },
        );
      }
      await pause(50);
    }
  })();
  work.catch(() => undefined);
  return {
    async stop(): Promise<void> {
      stopped.abort();
      await work;
    },
  };
}

async function gather(
  environment: Environment,
  client: RelayClient,
  { sessions, shown }: { sessions: Team['sessions']; shown: readonly string[] },
): Promise<TeamResult> {
  const messages = await all(client.messages.list());
  const textOf = (id: string | undefined) => messages.find((each) => each.id === id)?.text;
  const deliveries = await all(client.deliveries.list());
  const consumed: Record<string, string[]> = {};
  const violations: string[] = [];
  for (const handle of members) {
    const sessionId = sessions[handle] ?? '';
    const journal = await all(client.sessions.events(sessionId));
    consumed[handle] = journal.flatMap((event) =>
      event.type === 'message.received' ? (textOf(event.messageId) ?? event.messageId) : [],
    );
    const own = deliveries.filter((delivery) => delivery.sessionId === sessionId);
    violations.push(...withoutOneReceipt(handle, own, journal));
    if (journal.some(({ seq }, index) => seq !== index + 1)) {
      violations.push(`the journal of ${handle} has a gap`);
    }
  }
  const ran = readLines<ToolRan>(environment.callsFile);
  return {
    consumed,
    read: (await modelServer(environment)).read,
    shown,
    messages: messages
      .map(({ from, to, text, mode, replyTo }) => {
        const answered = replyTo === undefined ? '' : `, to "${textOf(replyTo)}"`;
        return `${from.name} to ${String(to)} (${mode}): "${text}"${answered}`;
      })
      .toSorted(),
    effects: effectsOf(ran).toSorted(),
    violations,
  };
}

/** Each delivery is accepted once, and ends once, as consumed. */
function withoutOneReceipt(
  handle: string,
  deliveries: readonly { readonly id: string; readonly status: string }[],
  journal: readonly StoredSessionEvent[],
): string[] {
  return deliveries.flatMap(({ id, status }) => {
    const types = journal.flatMap((event) =>
      'deliveryId' in event && event.deliveryId === id ? event.type : [],
    );
    const ends = types.filter((type) => type === 'message.received' || type === 'delivery.failed');
    const isSound =
      types[0] === 'delivery.accepted' &&
      types.lastIndexOf('delivery.accepted') === 0 &&
      ends.length === 1 &&
      types.at(-1) === 'message.received' &&
      status === 'consumed';
    return isSound ? [] : [`${id} for ${handle} is ${status}: ${types.join(', ')}`];
  });
}

/** A repetition of a call counts as one effect if its tool may repeat it by its key. */
function effectsOf(ran: readonly ToolRan[]): string[] {
  const calls = ran.map(({ tool, toolCallId, idempotencyKey }) =>
    tool === 'look' ? `${tool} ${toolCallId} ${idempotencyKey}` : `${tool} ${toolCallId}`,
  );
  const isRepeatable = (call: string) => call.startsWith('look ');
  return calls
    .filter((call, index) => !isRepeatable(call) || calls.indexOf(call) === index)
    .map((call) => call.split(' ').slice(0, 2).join(' '));
}
