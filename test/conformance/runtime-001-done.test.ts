/** 001: the stream of POST /api/chat ends with one done, wherever its run fails. */
import type { Model, SystemStore, TenantStore } from '@relay/core';
import { finish, text, toolCall } from '@relay/core/testing';
import { createDemoModel, createModelRegistry } from '@relay/models';
import { RelayError } from '@relay/protocol';
import { defineAgent } from '@relay/tools';
import { describe, expect, test, type TestContext } from 'vitest';
import {
  type BootOptions,
  bootServer,
  type TestServer,
} from '../../packages/server/test/support/server.ts';
import { startApiChat } from '../../packages/server/test/support/requests.ts';
import { FrameReader } from '../support/frames.ts';
import { openTestStore } from './store-server.ts';
import { verifies } from './verifies.ts';

const refuse = () => ({ ok: false, reason: 'No' }) as const;
const agents = [
  defineAgent({ name: 'no-input', guardrails: { input: [{ name: 'no', check: refuse }] } }),
  defineAgent({ name: 'no-output', guardrails: { output: [{ name: 'no', check: refuse }] } }),
  defineAgent({
    name: 'broken-guardrail',
    guardrails: {
      output: [
        {
          name: 'broken',
          check() {
            throw new Error('The guardrail is broken');
          },
        },
      ],
    },
  }),
];

const failing: Model = {
  stream() {
    throw new TypeError('The provider is broken');
  },
};

/** Has its calls executed one after the other; each is stored before it is executed. */
const calculating: Model = {
  async *stream({ messages }) {
    const made = messages.filter(({ role }) => role === 'tool').length;
    const call = toolCall(`call_${made + 1}`, 'calculator', { a: 1, b: made, op: '+' });
    yield [made < 4 ? call : text('Calculated.'), finish()];
  },
};

async function boot(
  context: TestContext,
  { store }: Pick<BootOptions, 'store'> = {},
): Promise<TestServer> {
  const models = createModelRegistry([
    { id: 'demo', provider: 'demo', model: createDemoModel() },
    { id: 'failing', provider: 'failing', model: failing },
    { id: 'calculating', provider: 'calculating', model: calculating },
  ]);
  const server = await bootServer({
    file: { agents },
    models,
    store: store ?? (await openTestStore(context)),
  });
  context.onTestFinished(() => server.stop());
  return server;
}

/** The append with this number fails once, before or after it has been stored. */
function failingOnce(store: SystemStore, nth: number, when: 'before' | 'after') {
  let appends = 0;
  const failingTenant = (tenant: TenantStore): TenantStore =>
    new Proxy(tenant, {
      get(target, name) {
        if (name !== 'append') return bound(target, name);
        return async (append: Parameters<TenantStore['append']>[0]) => {
          appends += 1;
          const fails = appends === nth;
          const fault = () => new RelayError('storage_failed', 'The database does not answer');
          if (fails && when === 'before') throw fault();
          const outcome = await target.append(append);
          if (fails) throw fault();
          return outcome;
        };
      },
    });
  const failing = new Proxy(store, {
    get: (target, name) =>
      name === 'tenant' ? (id: string) => failingTenant(target.tenant(id)) : bound(target, name),
  });
  return { store: failing, hasFailed: () => appends >= nth };
}

function bound(target: object, name: PropertyKey): unknown {
  const value: unknown = Reflect.get(target, name);
  return typeof value === 'function' ? (value.bind(target) as unknown) : value;
}

interface Seen {
  readonly data: { readonly type: string };
}

function expectDone(frames: readonly Seen[], runId: string, status: string): void {
  expect(frames.filter(({ data }) => data.type === 'done')).toHaveLength(1);
  expect(frames.at(-1)?.data).toMatchObject({ type: 'done', runId, status });
}

// Most of them wait: for a retry, or until a run that a fault released is taken up again.
describe.concurrent('the stream of POST /api/chat ends with one done', () => {
  test.for<[string, string, Record<string, unknown>, string]>([
    ['the provider refuses', 'fail 400', {}, 'failed'],
    ['the provider is unavailable', 'fail 503', {}, 'failed'],
    ['the model throws', 'Hello', { model: 'failing' }, 'failed'],
    ['a guardrail refuses the input', 'Hello', { agent: 'no-input' }, 'failed'],
    ['a guardrail refuses the output', 'say 3', { agent: 'no-output' }, 'failed'],
    ['a guardrail throws', 'say 3', { agent: 'broken-guardrail' }, 'failed'],
    ['a tool fails', 'calculate 1/0', {}, 'succeeded'],
    ['a tool is unknown', 'use nothing {}', {}, 'succeeded'],
    ['a limit is reached', 'calculate 1+1', { limits: { tokens: 1 } }, 'succeeded'],
  ])('if %s', async ([_what, message, body, status], context) => {
    verifies('001:failure:done-always');
    const server = await boot(context);
    const { runId, reader } = await startApiChat(server, message, { body });
    expectDone(await reader.rest(), runId, status);
  });

  test.for(['slow 600000', 'notify nobody'])('if it is canceled: %s', async (message, context) => {
    verifies('001:failure:done-always');
    const server = await boot(context);
    const { runId, reader } = await startApiChat(server, message);
    await reader.until(message.startsWith('slow') ? 'text_delta' : 'tool_approval_requested');
    await server.request(`/v1/runs/${runId}/cancel`, { method: 'POST' });
    expectDone(await reader.rest(), runId, 'canceled');
  });

  test.for([1, 2, 3, 4, 5].flatMap((nth) => [[nth, 'before'] as const, [nth, 'after'] as const]))(
    'if the store fails at write %i, %s it is stored',
    async ([nth, when], context) => {
      verifies('001:failure:done-always');
      const { store, hasFailed } = failingOnce(await openTestStore(context), nth, when);
      const server = await boot(context, { store });
      const { runId, reader } = await startApiChat(server, 'Calculate', {
        body: { model: 'calculating' },
      });
      const frames = await reader.rest();
      expectDone(frames, runId, 'succeeded');
      expect(hasFailed()).toBe(true);
      expect(frames.map(({ id }) => id)).toEqual(
        frames.map(({ id }) => id).toSorted((a, b) => Number(a) - Number(b)),
      );
    },
  );

  test('if the server stops: the response is complete, and done follows where it is continued', async (context) => {
    verifies('001:failure:done-always');
    const store = await openTestStore(context);
    const first = await bootServer({ store });
    const { runId, reader } = await startApiChat(first, 'slow 1500');
    await reader.until('text_delta');
    await first.relay.stop();
    // A response that is cut off would reject here.
    const before = await reader.rest();
    const second = await boot(context, { store });
    const response = await second.request(`/v1/runs/${runId}/stream?dialect=runtime`, {
      headers: { 'last-event-id': String(before.at(-1)?.id) },
    });
    const rest = await new FrameReader(response).rest();
    expectDone([...before, ...rest], runId, 'succeeded');
  });
});
