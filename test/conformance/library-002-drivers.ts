/** The same scenario in the library and on `/chat` of a started server. */
import {
  type AgentEvent,
  createAgentHarness,
  createDeterministicHarness,
  type EventStream,
  type Harness,
  type Permissions,
  RelayError,
  type RelayEvent,
  type RelayResponse,
  type ScriptedEvent,
} from '@relay/agents';
import { expect } from 'vitest';
import { Chat } from './chat-client.ts';
import { createNotingTools } from './noting-tools.ts';
import { calls, says, type ScriptedCall, startScripted } from './scripted.ts';

export type Data = Readonly<Record<string, unknown>>;

/** One run. */
export interface Play {
  /** The next relay. */
  relay(): Promise<{ readonly id: string; readonly data: Data }>;
  /** Whether the answer was taken. */
  answer(relayId: string, response: unknown): Promise<boolean>;
  /** Until the run can do nothing more without an answer. */
  paused(): Promise<void>;
  end(): Promise<void>;
  /** The events of one type that have come so far. */
  of(type: string): Data[];
}

export interface Driver {
  /** A run whose model makes these calls, a turn each, and then is done. */
  play(turns: readonly (readonly ScriptedCall[])[], permissions?: object): Promise<Play>;
  /** Whether a run starts with these permissions. */
  accepts(permissions: unknown): Promise<boolean>;
  /** What the tools wrote down since the driver was opened, in order. */
  ran(): readonly string[];
  /** The messages of each request to the model, since the last `play`. */
  asked(): readonly (readonly Data[])[];
  dispose(): Promise<void>;
}

const model = 'gpt-4o-mini';

async function openChat(): Promise<Driver> {
  const scripted = await startScripted();
  const { server } = scripted;
  return {
    async play(turns, permissions) {
      scripted.play(...turns.map((made) => calls(...made)), says('Done.'));
      const rules = permissions === undefined ? {} : { permissions };
      const chat = await Chat.open(server, 'Begin', { model, ...rules }, { keyless: false });
      const status = async () => {
        const run = await server.request(`/v1/runs/${chat.runId}`);
        return ((await run.json()) as { status: string }).status;
      };
      return {
        async relay() {
          const { id, frame } = await chat.relay();
          return { id, data: frame.data };
        },
        answer: async (relayId, response) => {
          const { status: answered } = await chat.answer(relayId, response);
          expect([200, 400]).toContain(answered);
          return answered === 200;
        },
        paused: () => expect.poll(status).toBe('waiting'),
        end: async () => void (await chat.end()),
        of: (type) => chat.of(type).map(({ data }) => data),
      };
    },
    async accepts(permissions) {
      scripted.play(says('Done.'));
      const body = { model, input: 'Begin', permissions };
      const response = await server.request('/v1/runs', { body });
      await response.text();
      expect([200, 400]).toContain(response.status);
      return response.status === 200;
    },
    ran: () => server.notes.map(({ text }) => text),
    asked: () => scripted.asked().map(({ messages }) => messages),
    dispose: () => scripted.dispose(),
  };
}

async function openLibrary(): Promise<Driver> {
  const notes: string[] = [];
  let requests: (readonly Data[])[] = [];
  const tools = createNotingTools((text) => notes.push(text));
  const messages = [{ role: 'user', content: 'Begin' }];
  const agentFor = (turns: readonly (readonly ScriptedCall[])[]) => {
    requests = [];
    const made = (call: ScriptedCall) => ({ type: 'tool_call', ...call }) as ScriptedEvent;
    const responses = [
      ...turns.map((each) => ({ events: each.map(made) })),
      { events: [{ type: 'text', content: 'Done.' } as const] },
    ];
    const played = createDeterministicHarness({ responses }, { relayTimeoutMs: Infinity });
    const harness: Harness = {
      ...played,
      stream(request, signal) {
        requests.push(structuredClone(request.messages));
        return played.stream(request, signal);
      },
    };
    return createAgentHarness({ harness });
  };
  return {
    play: async (turns, permissions) =>
      new LibraryPlay(
        agentFor(turns).invoke({
          messages,
          tools,
          permissions: permissions ?? {},
        }),
      ),
    async accepts(permissions) {
      try {
        const options = { messages, tools, permissions: permissions as Permissions };
        for await (const _ of agentFor([]).invoke(options));
        return true;
      } catch (error) {
        expect(error).toBeInstanceOf(RelayError);
        return false;
      }
    },
    ran: () => notes,
    asked: () => requests,
    dispose: async () => undefined,
  };
}

class LibraryPlay implements Play {
  readonly #stream: EventStream<AgentEvent>;
  readonly #seen: AgentEvent[] = [];

  constructor(stream: EventStream<AgentEvent>) {
    this.#stream = stream;
  }

  async relay() {
    for (;;) {
      const { value } = await this.#stream.next();
      if (value === undefined) throw new Error('There is no relay');
      this.#seen.push(value);
      if (value.type === 'relay') return { id: value.id, data: { ...value } };
    }
  }

  async answer(relayId: string, response: unknown): Promise<boolean> {
    const relay = this.#seen.find(
      (event): event is RelayEvent => event.type === 'relay' && event.id === relayId,
    );
    try {
      relay?.respond(response as RelayResponse);
      return relay !== undefined;
    } catch (error) {
      expect(error).toMatchObject({ code: 'invalid_request' });
      return false;
    }
  }

  /** Everything that does not wait for an answer is done in a few turns of the event loop. */
  async paused(): Promise<void> {
    for (let turn = 0; turn < 50; turn += 1) await new Promise(setImmediate);
  }

  async end(): Promise<void> {
    for await (const event of this.#stream) this.#seen.push(event);
  }

  of(type: string): Data[] {
    return this.#seen.filter((event) => event.type === type).map((event) => ({ ...event }));
  }
}

export const drivers = [
  ['the library', openLibrary],
  ['/chat', openChat],
] as const;

export function outputs(play: Play): Record<string, unknown> {
  return Object.fromEntries(play.of('tool_result').map(({ id, output }) => [String(id), output]));
}

/** The calls that were asked about. */
export function askedAbout(play: Play): unknown[] {
  return play.of('relay').map(({ toolCallId }) => toolCallId);
}
