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

export interface Scripted {
  readonly server: StoreServer;
  /** The answers to the next requests, one each. */
  play(...turns: readonly Script[]): void;
  /** What the provider was asked since the last `play`. */
  asked(): readonly ProviderRequest[];
  dispose(): Promise<void>;
}

export async function startScripted(env: Readonly<Record<string, string>> = {}): Promise<Scripted> {
  let turns: Script[] = [];
  let before = 0;
  const provider = await startScriptedProvider((response, request) => {
    const turn = turns.shift() ?? refuses(400);
    return turn(response, request);
  });
  // The document's callers have no key, and use a model and tools besides those of the demonstration.
  const open = { RELAY_LOCAL_CHAT: 'on', TEST_PROVIDER_URL: provider.baseUrl };
  const server = new StoreServer({ ...env, ...open }, entry);
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
