/** A session with the scripted agent in the process of a test, and Relay as the test sees it. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable, Writable } from 'node:stream';
import { ndJsonStream, type SessionUpdate } from '@agentclientprotocol/sdk';
import {
  type HarnessContext,
  type HarnessMessage,
  type HarnessSession,
  type Receipt,
  systemClock,
} from '@relay/core';
import type { AgentSessionEvent, DeliveryMode } from '@relay/protocol';
import { type AgentProgram, connectAgent } from '../../src/acp/connection.ts';
import { openAcpSession } from '../../src/acp/session.ts';
import { AgentSupervisor } from '../../src/acp/supervisor.ts';
import {
  type Conversations,
  inMemory,
  type Logged,
  scriptedAgent,
  type ScriptedOptions,
} from './scripted-agent.ts';

/** Polls until `read` returns a value; fails after 10 s with what was expected. */
export async function until<Value>(
  read: () => Value | undefined | false,
  what: string,
): Promise<Value> {
  const deadline = Date.now() + 10_000;
  for (;;) {
    const found = read();
    if (found !== undefined && found !== false) return found;
    if (Date.now() > deadline) throw new Error(`Timed out waiting for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

type PermissionRequest = Parameters<HarnessContext['requestPermission']>[0];
type PermissionAnswer = Awaited<ReturnType<HarnessContext['requestPermission']>>;

interface AskedPermission extends PermissionRequest {
  answer(answer: PermissionAnswer): void;
  isClosed: boolean;
}

export interface FixtureOptions extends ScriptedOptions {
  readonly state?: unknown;
  readonly from?: unknown;
  readonly conversations?: Conversations;
  /** Answers at once; undefined waits for the test. */
  readonly permit?: (request: PermissionRequest) => PermissionAnswer | undefined;
}

export class SessionFixture {
  readonly events: AgentSessionEvent[] = [];
  readonly receipts: { deliveryId: string; receipt: Receipt }[] = [];
  readonly asked: AskedPermission[] = [];
  readonly questions: {
    message: string;
    schema?: unknown;
    answer(answer: Awaited<ReturnType<HarnessContext['ask']>>): void;
  }[] = [];
  readonly replies: { text: string; messageIds: readonly string[] }[] = [];
  readonly saved: unknown[] = [];
  readonly conversations: Conversations;
  readonly workspace = mkdtempSync(join(tmpdir(), 'relay-acp-'));
  readonly home = mkdtempSync(join(tmpdir(), 'relay-acp-home-'));
  readonly #options: FixtureOptions;
  readonly #stopping = new AbortController();
  #logs: Logged[][] = [];
  #program: AgentProgram | undefined;
  #output: { write(text: string): unknown } | undefined;
  #messages = 0;
  /** Awaited by each event. */
  gate: Promise<void> = Promise.resolve();
  /** Awaited whenever the state is saved. */
  saving: Promise<void> = Promise.resolve();
  session!: HarnessSession;

  constructor(options: FixtureOptions) {
    this.#options = options;
    this.conversations = options.conversations ?? inMemory();
  }

  static async open(options: FixtureOptions = {}): Promise<SessionFixture> {
    const fixture = new SessionFixture(options);
    await fixture.start();
    fixture.subscribe();
    await fixture.isStatus('idle');
    return fixture;
  }

  async start(): Promise<void> {
    const { state, from } = this.#options;
    const process = {
      tenantId: 't',
      isDefaultTenant: true,
      workspace: this.workspace,
      home: this.home,
      hidden: () => [],
      mcp: { url: 'http://relay.test/mcp', token: 'relay_sess_secret' },
      credential: () => Promise.resolve(undefined),
    };
    this.session = await openAcpSession({
      harness: 'scripted',
      name: 'Scripted',
      input: { sessionId: 's', handle: 'coder', labels: {}, from, process },
      process,
      context: this.context,
      clock: systemClock,
      ...(state === undefined ? {} : { state }),
      supervise: (hooks) =>
        new AgentSupervisor({
          ...hooks,
          clock: systemClock,
          connect: (client) => connectAgent(this.#spawn(), client, { clock: systemClock }),
        }),
    });
  }

  subscribe(): void {
    this.session.onEvent(async (event) => {
      this.events.push(event);
      await this.gate;
    });
  }

  #spawn(): AgentProgram {
    const { app, log, stop } = scriptedAgent(this.#options, this.conversations);
    this.#logs.push(log);
    const [input, output] = [new PassThrough(), new PassThrough()];
    const { promise: ended, resolve } = Promise.withResolvers<{ reason: string }>();
    const connection = app.connect(
      ndJsonStream(
        Writable.toWeb(output) as WritableStream<Uint8Array>,
        Readable.toWeb(input) as ReadableStream<Uint8Array>,
      ),
    );
    const end = async (reason: string) => {
      stop();
      connection.close();
      input.destroy();
      output.destroy();
      resolve({ reason });
    };
    this.#output = output;
    this.#program = { input, output, ended, end, kill: end };
    return this.#program;
  }

  readonly context: HarnessContext = {
    signal: this.#stopping.signal,
    receipt: (deliveryId, receipt) => {
      this.receipts.push({ deliveryId, receipt });
      return Promise.resolve();
    },
    requestPermission: (request) => {
      const { promise, resolve } = Promise.withResolvers<PermissionAnswer>();
      let isAnswered = false;
      const answer = (given: PermissionAnswer) => {
        isAnswered = true;
        resolve(given);
      };
      const asked: AskedPermission = { ...request, answer, isClosed: false };
      this.asked.push(asked);
      request.signal?.addEventListener('abort', () => {
        asked.isClosed = !isAnswered;
        resolve({ allowed: false, reason: 'closed', by: 'closed' });
      });
      const given = this.#options.permit?.(request);
      if (given !== undefined) answer(given);
      return promise;
    },
    ask: (question) => {
      const { promise, resolve } =
        Promise.withResolvers<Awaited<ReturnType<HarnessContext['ask']>>>();
      this.questions.push({ ...question, answer: resolve });
      return promise;
    },
    send: () => Promise.resolve({ id: 'sent' }),
    reply: (answer) => {
      this.replies.push(answer);
      return Promise.resolve();
    },
    reportBreach: ({ error }) => {
      this.events.push({ type: 'error', error, code: 'call_breached' });
      return Promise.resolve();
    },
    saveState: (state) => {
      this.saved.push(state);
      return this.saving;
    },
  };

  /** What all processes of the agent have read and done. */
  get log(): Logged[] {
    return this.#logs.flat();
  }

  logged(kind: string): Logged[] {
    return this.log.filter((entry) => entry.kind === kind);
  }

  /** As `kill -9` of the agent. */
  async kill(): Promise<void> {
    await this.#program?.kill('The agent was killed');
  }

  send(text: string, mode: DeliveryMode = 'on-idle', over: Partial<HarnessMessage> = {}): string {
    this.#messages += 1;
    const id = `m${String(this.#messages).padStart(3, '0')}`;
    const message: HarnessMessage = {
      id,
      deliveryId: `d-${id}`,
      to: ['@coder'],
      text,
      attachments: [],
      replyTo: null,
      from: { type: 'key', id: 'k', name: 'ada' },
      mode,
      redelivered: false,
      isFromApprover: true,
      ...over,
    };
    void this.session.receiveMessage(message, this.context);
    return message.deliveryId;
  }

  /** The agent reports something, beside its script. */
  notify(update: SessionUpdate): void {
    const sessionId = String(this.logged('new').at(-1)?.['id']);
    const params = { sessionId, update };
    const message = { jsonrpc: '2.0', method: 'session/update', params };
    this.#output?.write(`${JSON.stringify(message)}\n`);
  }

  receiptsOf(deliveryId: string): Receipt[] {
    return this.receipts
      .filter((each) => each.deliveryId === deliveryId)
      .map(({ receipt }) => receipt);
  }

  settled(deliveryId: string): Promise<Receipt> {
    const isFinal = ({ status }: Receipt) => status === 'consumed' || status === 'failed';
    return until(() => this.receiptsOf(deliveryId).find(isFinal), `the end of ${deliveryId}`);
  }

  isStatus(status: string): Promise<true> {
    return until(() => {
      const last = this.events.findLast(({ type }) => type === 'status.changed');
      return last?.type === 'status.changed' && last.status === status;
    }, `the status ${status}`);
  }

  eventsOf<Type extends AgentSessionEvent['type']>(type: Type) {
    return this.events.filter(
      (event): event is Extract<AgentSessionEvent, { type: Type }> => event.type === type,
    );
  }

  get transcript(): string {
    return this.eventsOf('transcript.chunk')
      .map(({ chunk }) => chunk.content)
      .join('');
  }

  open(count = 1): Promise<AskedPermission> {
    return until(() => this.asked[count - 1], `request ${count} for permission`);
  }

  /** The server stops. */
  shutDown(): void {
    this.#stopping.abort();
  }

  async stop(): Promise<void> {
    this.shutDown();
    await this.session.release?.();
  }
}
