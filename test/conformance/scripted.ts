/** A real server, and a model provider that answers it exactly as a test says. */
import { fileURLToPath } from 'node:url';
import {
  deltaFrame,
  doneFrame,
  finishFrame,
  type Script,
  startScriptedProvider,
  textFrame,
  usageFrame,
} from '@relay/models/testing';
import { LocalServer, type ServerFixture } from '../support/server.ts';
import { scriptedOptions } from './servers/scripted-options.ts';
import { StoreServer } from './store-server.ts';

const entry = fileURLToPath(new URL('./servers/scripted.ts', import.meta.url));

export interface ScriptedCall {
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
}

/** What the provider gets for a turn, as it came over the wire. */
export interface ProviderRequest {
  readonly model: string;
  readonly messages: readonly Readonly<Record<string, unknown>>[];
}

export interface Scripted<Server extends ServerFixture = ServerFixture> {
  readonly server: Server;
  /** The answers to the next requests, one each. */
  play(...turns: readonly Script[]): void;
  /** What the provider was asked since the last `play`. */
  asked(): readonly ProviderRequest[];
  dispose(): Promise<void>;
}

type Environment = Readonly<Record<string, string>>;

/** The document's callers have no key, and use a model and tools besides those of the demonstration. */
const open = { RELAY_LOCAL_CHAT: 'on' };

export function startScripted(env: Environment = {}): Promise<Scripted<LocalServer>> {
  return startWith((url) => new LocalServer({ ...env, ...open }, scriptedOptions(url)));
}

/** For tests that end it with kill -9, or that run on every store. */
export function startScriptedProcess(env: Environment = {}): Promise<Scripted<StoreServer>> {
  return startWith((url) => new StoreServer({ ...env, ...open, TEST_PROVIDER_URL: url }, entry));
}

async function startWith<Server extends LocalServer | StoreServer>(
  create: (providerUrl: string) => Server,
): Promise<Scripted<Server>> {
  let turns: Script[] = [];
  let before = 0;
  const provider = await startScriptedProvider((response, request) => {
    const turn = turns.shift() ?? refuses(400);
    return turn(response, request);
  });
  const server = create(provider.baseUrl);
  await server.start();
  return {
    server,
    play(...next) {
      turns = [...next];
      before = provider.requests.length;
    },
    asked: () =>
      provider.requests.slice(before).map(({ body }) => body as unknown as ProviderRequest),
    async dispose() {
      await server.dispose();
      await provider.close();
    },
  };
}

export function says(...words: readonly string[]): Script {
  return answers([...words.map(textFrame), finishFrame()]);
}

export function calls(...made: readonly ScriptedCall[]): Script {
  const tool_calls = made.map(({ id, name, input }, index) => ({
    index,
    id,
    type: 'function',
    function: { name, arguments: JSON.stringify(input) },
  }));
  return answers([deltaFrame({ tool_calls }), finishFrame('tool_calls')]);
}

/** Answers only after something has happened. */
export function after(happened: Promise<unknown>, turn: Script): Script {
  return async (response, request) => {
    await happened;
    return turn(response, request);
  };
}

export function refuses(status: number): Script {
  return (response) => {
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ error: { message: 'The provider does not want to' } }));
  };
}

function answers(frames: readonly string[]): Script {
  return (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end([...frames, usageFrame(7, 3), doneFrame].join(''));
  };
}
