/** Which calls run, which are asked about, and what an answer does. */
import { describe, expect, test } from 'vitest';
import {
  createAgentHarness,
  createDeterministicHarness,
  type Permissions,
  type RelayResponse,
  type ScriptedEvent,
} from '../src/index.ts';
import {
  bash,
  messages,
  next,
  only,
  outputsOf,
  readAll,
  says,
  shell,
  turns,
} from './support/fixtures.ts';

function agentFor(...script: readonly (readonly ScriptedEvent[])[]) {
  const harness = createDeterministicHarness(turns(...script), { relayTimeoutMs: Infinity });
  return createAgentHarness({ harness });
}

const asked = (events: Parameters<typeof only>[0]) =>
  only(events, 'relay').map(({ toolCallId }) => toolCallId);

describe('a relay', () => {
  test('pauses the run until it is answered, however long that takes', async () => {
    const { tool, ran } = shell();
    const agent = agentFor([bash('tc-1', 'ls')], [says('Done')]);
    const stream = agent.invoke({ messages, tools: [tool] });
    const relay = await next(stream, 'relay');
    expect(relay).toMatchObject({
      kind: 'permission',
      toolCallId: 'tc-1',
      tool: 'bash',
      params: { command: 'ls' },
      agentPath: ['assistant'],
    });
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(ran).toEqual([]);
    relay.respond({ approved: true });
    await readAll(stream);
    expect(ran).toEqual(['ls']);
  });

  test('accepts only the first answer', async () => {
    const { tool, ran } = shell();
    const agent = agentFor([bash('tc-1', 'ls')], [says('Done')]);
    const events = await readAll(agent.invoke({ messages, tools: [tool] }), (relay) => {
      relay.respond({ approved: false, reason: 'First' });
      relay.respond({ approved: true });
      return { approved: true, always: true };
    });
    expect(outputsOf(events)).toEqual({ 'tc-1': { status: 'denied', reason: 'First' } });
    expect(ran).toEqual([]);
    only(events, 'relay')[0]?.respond({ approved: true });
    expect(ran).toEqual([]);
  });

  test('stays open after an invalid answer', async () => {
    const { tool, ran } = shell();
    const agent = agentFor([bash('tc-1', 'ls')], [says('Done')]);
    const stream = agent.invoke({ messages, tools: [tool] });
    const relay = await next(stream, 'relay');
    const wrong = { approved: 'yes' } as unknown as RelayResponse;
    expect(() => relay.respond(wrong)).toThrow('approved: Must be true or false');
    relay.respond({ approved: true });
    await readAll(stream);
    expect(ran).toEqual(['ls']);
  });

  test('can be answered outside the loop, with a detached respond function', async () => {
    const { tool, ran } = shell();
    const agent = agentFor([bash('tc-1', 'ls')], [says('Done')]);
    const events = await readAll(agent.invoke({ messages, tools: [tool] }), ({ respond }) => {
      setTimeout(() => respond({ approved: true }), 5);
      return undefined;
    });
    expect(ran).toEqual(['ls']);
    expect(events.at(-1)).toMatchObject({ reason: 'completed' });
  });

  test('is requested together with its siblings; an approved call does not wait for them', async () => {
    const { tool, ran } = shell();
    const agent = agentFor(
      [bash('tc-1', 'a'), bash('tc-2', 'b'), bash('tc-3', 'c')],
      [says('Done')],
    );
    const stream = agent.invoke({ messages, tools: [tool] });
    const relays = [
      await next(stream, 'relay'),
      await next(stream, 'relay'),
      await next(stream, 'relay'),
    ];
    relays[1]?.respond({ approved: true });
    expect(await next(stream, 'tool_result')).toMatchObject({ id: 'tc-2' });
    expect(ran).toEqual(['b']);
    relays[0]?.respond({ approved: false });
    relays[2]?.respond({ approved: true });
    const rest = await readAll(stream);
    expect(outputsOf(rest)).toMatchObject({ 'tc-1': { status: 'denied' }, 'tc-3': {} });
    expect(ran).toEqual(['b', 'c']);
  });

  test('runs the call as shown, also if the program changes the event', async () => {
    const { tool, ran } = shell();
    const agent = agentFor([bash('tc-1', 'ls')], [says('Done')]);
    const permissions: Permissions = {};
    await readAll(agent.invoke({ messages, tools: [tool], permissions }), (relay) => {
      relay.params['command'] = 'rm -rf /';
      return { approved: true, always: true };
    });
    expect(ran).toEqual(['ls']);
    expect(permissions.allowlist).toEqual([{ tool: 'bash', exact: { command: 'ls' } }]);
  });
});

describe('always', () => {
  test('allows the same call from then on, and no other', async () => {
    const { tool, ran } = shell();
    const agent = agentFor(
      [bash('tc-1', 'ls *')],
      [bash('tc-2', 'ls *'), bash('tc-3', 'ls /etc'), bash('tc-4', 'rm')],
      [says('Done')],
    );
    const permissions: Permissions = {};
    const events = await readAll(agent.invoke({ messages, tools: [tool], permissions }), (relay) =>
      relay.toolCallId === 'tc-1' ? { approved: true, always: true } : { approved: false },
    );
    expect(asked(events)).toEqual(['tc-1', 'tc-3', 'tc-4']);
    expect(ran).toEqual(['ls *', 'ls *']);
    expect(permissions.allowlist).toEqual([{ tool: 'bash', exact: { command: 'ls *' } }]);
  });

  test('applies to the next invocation with the same permissions', async () => {
    const { tool, ran } = shell();
    const agent = agentFor([bash('tc-1', 'ls')], [says('Done')]);
    const permissions: Permissions = { allowlist: [] };
    const options = { messages, tools: [tool], permissions };
    await readAll(agent.invoke(options), { approved: true, always: true });
    const events = await readAll(agent.invoke(options));
    expect(asked(events)).toEqual([]);
    expect(ran).toEqual(['ls', 'ls']);
  });

  test('works without permissions, for as long as the run lasts', async () => {
    const { tool, ran } = shell();
    const agent = agentFor([bash('tc-1', 'ls')], [bash('tc-2', 'ls')], [says('Done')]);
    const events = await readAll(agent.invoke({ messages, tools: [tool] }), {
      approved: true,
      always: true,
    });
    expect(asked(events)).toEqual(['tc-1']);
    expect(ran).toEqual(['ls', 'ls']);
    expect(
      asked(await readAll(agent.invoke({ messages, tools: [tool] }), { approved: false })),
    ).toEqual(['tc-1', 'tc-2']);
  });

  test('is not implied by an approval or a denial', async () => {
    const { tool } = shell();
    const agent = agentFor([bash('tc-1', 'ls')], [bash('tc-2', 'ls')], [says('Done')]);
    for (const answer of [
      { approved: true },
      { approved: true, always: false },
      { approved: false },
    ]) {
      const permissions: Permissions = {};
      const events = await readAll(agent.invoke({ messages, tools: [tool], permissions }), answer);
      expect(asked(events)).toEqual(['tc-1', 'tc-2']);
      expect(permissions).toEqual({});
    }
  });

  test('never overrides a denial', async () => {
    const { tool, ran } = shell();
    const agent = agentFor([bash('tc-1', 'ls')], [bash('tc-2', 'ls')], [says('Done')]);
    const permissions: Permissions = {};
    const events = await readAll(agent.invoke({ messages, tools: [tool], permissions }), () => {
      permissions.denylist = [{ tool: 'bash', params: { command: 'ls*' } }];
      return { approved: true, always: true };
    });
    expect(ran).toEqual(['ls']);
    expect(outputsOf(events)['tc-2']).toEqual({ status: 'denied' });
  });

  test('leaves the relay open if the list cannot be written', async () => {
    const { tool, ran } = shell();
    const agent = agentFor([bash('tc-1', 'ls')], [says('Done')]);
    const permissions: Permissions = Object.freeze({});
    const stream = agent.invoke({ messages, tools: [tool], permissions });
    const relay = await next(stream, 'relay');
    expect(() => relay.respond({ approved: true, always: true })).toThrow(TypeError);
    relay.respond({ approved: true });
    await readAll(stream);
    expect(ran).toEqual(['ls']);
  });
});

describe('permissions', () => {
  test.each([
    ['allowlist', 'bash', 'permissions.allowlist: Must be an array'],
    ['denylist', [{ tool: 7 }], 'permissions.denylist[0].tool: Must be a string'],
    ['denylist', [{ tool: 'bash', params: { command: '[' } }], 'permissions.denylist[0].params'],
    ['deny', [null], 'permissions.deny[0]: Must be an object'],
  ])(
    'that become invalid while a run goes fail it, and say where: %s %j',
    async (list, to, why) => {
      const { tool, ran } = shell();
      const permissions: Record<string, unknown> = {};
      const agent = agentFor([bash('tc-1', 'ls')], [bash('tc-2', 'ls')], [says('Done')]);
      const events = await readAll(agent.invoke({ messages, tools: [tool], permissions }), () => {
        permissions[list] = to;
        return { approved: true };
      });
      expect(only(events, 'error')[0]?.message).toContain(why);
      expect(only(events, 'harness_end')[0]?.reason).toBe('failed');
      expect(ran).toEqual(['ls']);
    },
  );

  test('are read again for each call, so that a rule added meanwhile applies', async () => {
    const { tool, ran } = shell();
    const permissions: Permissions = { allowlist: [] };
    const agent = agentFor([bash('tc-1', 'ls')], [bash('tc-2', 'pwd')], [says('Done')]);
    const events = await readAll(agent.invoke({ messages, tools: [tool], permissions }), () => {
      permissions.allowlist?.push({ tool: 'bash', params: { command: 'pwd' } });
      return { approved: true };
    });
    expect(asked(events)).toEqual(['tc-1']);
    expect(ran).toEqual(['ls', 'pwd']);
  });

  test('can be narrowed meanwhile', async () => {
    const permissions: Permissions = { allowlist: [{ tool: 'bash' }] };
    const { tool, ran } = shell(() => {
      delete permissions.allowlist;
      return { context: 'ok' };
    });
    const agent = agentFor([bash('tc-1', 'ls')], [bash('tc-2', 'pwd')], [says('Done')]);
    const stream = agent.invoke({ messages, tools: [tool], permissions });
    const events = await readAll(stream, { approved: false });
    expect(asked(events)).toEqual(['tc-2']);
    expect(ran).toEqual(['ls']);
  });

  test('deny a call by its published id, also if the id was made unique', async () => {
    const { tool, ran } = shell();
    const permissions: Permissions = { allowlist: [{ tool: 'bash' }] };
    const agent = agentFor(
      [bash('tc-1', 'a')],
      [bash('tc-1', 'b')],
      [bash('tc-1', 'c')],
      [says('Done')],
    );
    permissions.deny = [{ toolCallId: 'tc-1~2', reason: 'Suspicious' }];
    const events = await readAll(agent.invoke({ messages, tools: [tool], permissions }));
    const ids = only(events, 'tool_call').map(({ id }) => id);
    expect(ids).toEqual(['tc-1', 'tc-1~2', 'tc-1~3']);
    expect(ran).toEqual(['a', 'c']);
    expect(outputsOf(events)['tc-1~2']).toEqual({ status: 'denied', reason: 'Suspicious' });
  });

  test('deny by pattern, also if another rule allows the call', async () => {
    const { tool, ran } = shell();
    const permissions: Permissions = {
      allowlist: [{ tool: 'bash' }],
      denylist: [{ tool: 'bash', params: { command: 'rm *' } }],
    };
    const agent = agentFor([bash('tc-1', 'rm -rf /'), bash('tc-2', 'ls')], [says('Done')]);
    const events = await readAll(agent.invoke({ messages, tools: [tool], permissions }));
    expect(asked(events)).toEqual([]);
    expect(outputsOf(events)['tc-1']).toEqual({ status: 'denied' });
    expect(ran).toEqual(['ls']);
  });
});

describe('an allow-once rule', () => {
  const once = (command: string) => ({ tool: 'bash', params: { command } });

  test('is removed from the permissions object', async () => {
    const { tool, ran } = shell();
    const permissions: Permissions = { allowOnce: [once('a'), once('b'), once('c')] };
    const agent = agentFor([bash('tc-1', 'b')], [says('Done')]);
    const events = await readAll(agent.invoke({ messages, tools: [tool], permissions }));
    expect(asked(events)).toEqual([]);
    expect(ran).toEqual(['b']);
    expect(permissions.allowOnce).toEqual([once('a'), once('c')]);
  });

  test('is consumed by the first of two calls in one turn', async () => {
    const { tool, ran } = shell();
    const permissions: Permissions = { allowOnce: [once('x')] };
    const agent = agentFor([bash('tc-1', 'x'), bash('tc-2', 'x')], [says('Done')]);
    const stream = agent.invoke({ messages, tools: [tool], permissions });
    const events = await readAll(stream, { approved: false });
    expect(asked(events)).toEqual(['tc-2']);
    expect(ran).toEqual(['x']);
    expect(permissions.allowOnce).toEqual([]);
  });

  test('is consumed once by many invocations that share it', async () => {
    const { tool, ran } = shell();
    const permissions: Permissions = { allowOnce: [once('x'), once('x')] };
    const agent = agentFor([bash('tc-1', 'x')], [says('Done')]);
    const all = await Promise.all(
      Array.from({ length: 10 }, () =>
        readAll(agent.invoke({ messages, tools: [tool], permissions }), { approved: false }),
      ),
    );
    expect(ran).toEqual(['x', 'x']);
    expect(all.flatMap(asked)).toHaveLength(8);
    expect(permissions.allowOnce).toEqual([]);
  });

  test('is not consumed by a call that another rule allows, or by an invalid call', async () => {
    const { tool, ran } = shell();
    const permissions: Permissions = { allowlist: [once('a')], allowOnce: [{ tool: 'bash' }] };
    const invalid: ScriptedEvent = { type: 'tool_call', id: 'tc-2', name: 'bash', input: {} };
    const agent = agentFor([bash('tc-1', 'a'), invalid], [says('Done')]);
    const events = await readAll(agent.invoke({ messages, tools: [tool], permissions }));
    expect(ran).toEqual(['a']);
    expect(outputsOf(events)['tc-2']).toMatchObject({
      status: 'error',
      code: 'tool_input_invalid',
    });
    expect(permissions.allowOnce).toEqual([{ tool: 'bash' }]);
  });

  test('that cannot be removed allows nothing, and the run fails', async () => {
    const { tool, ran } = shell();
    const allowOnce = [once('x')];
    Object.freeze(allowOnce);
    const agent = agentFor([bash('tc-1', 'x')], [says('Done')]);
    const events = await readAll(
      agent.invoke({ messages, tools: [tool], permissions: { allowOnce } }),
    );
    expect(ran).toEqual([]);
    expect(only(events, 'harness_end')[0]?.reason).toBe('failed');
  });
});
