/** 002: what a run does with the calls of its model, in the library and on a started server. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { askedAbout, type Driver, drivers, outputs, type Play } from './library-002-drivers.ts';
import { calls, says, type Scripted, type ScriptedCall, startScripted } from './scripted.ts';
import { Chat } from './chat-client.ts';
import { verifies } from './verifies.ts';

function bash(id: string, command: string): ScriptedCall {
  return { id, name: 'bash', input: { command } };
}

describe.each(drivers)('in %s', (_name, open) => {
  let driver: Driver;
  beforeAll(async () => {
    driver = await open();
  });
  afterAll(() => driver.dispose());

  const play: Driver['play'] = (turns, permissions) => driver.play(turns, permissions);
  const ran = (start: string) => driver.ran().filter((text) => text.startsWith(start));

  describe('a call that matches no rule', () => {
    test('yields a relay and the run pauses until it is answered', async () => {
      verifies(
        '002:overview:no-match-relay',
        '002:overview:pauses-until-response',
        '002:flow:no-match-relay',
        '002:flow:relay-kind',
        '002:flow:relay-params',
      );
      const run = await play([[bash('call_1', 'pause me')]], {
        allowlist: [{ tool: 'bash', params: { command: 'ls*' } }],
      });
      const { id, data } = await run.relay();
      expect(data).toMatchObject({
        type: 'relay',
        kind: 'permission',
        toolCallId: 'call_1',
        tool: 'bash',
        params: { command: 'pause me' },
      });
      await run.paused();
      expect(ran('pause me')).toEqual([]);
      expect(driver.asked()).toHaveLength(1);
      await run.answer(id, { approved: true });
      await run.end();
      expect(ran('pause me')).toEqual(['pause me']);
      expect(driver.asked()).toHaveLength(2);
    });

    test('is executed if it is approved', async () => {
      verifies('002:flow:approved-executes', '002:response:approved-true');
      const run = await play([[bash('call_1', 'approve me')]]);
      await run.answer((await run.relay()).id, { approved: true });
      await run.end();
      expect(ran('approve me')).toEqual(['approve me']);
      expect(outputs(run)).toEqual({
        call_1: { context: '$ approve me', result: { code: 0 } },
      });
    });

    test('is not executed if it is denied, and its result is the denial with its reason', async () => {
      verifies(
        '002:flow:denied-result',
        '002:flow:denied-not-executed',
        '002:flow:denial-event-shape',
        '002:flow:denial-output',
        '002:response:approved-false',
        '002:response:reason',
      );
      const run = await play([[bash('call_1', 'deny me')]]);
      await run.answer((await run.relay()).id, { approved: false, reason: 'User denied' });
      await run.end();
      const [result] = run.of('tool_result');
      expect(result).toMatchObject({
        type: 'tool_result',
        id: 'call_1',
        name: 'bash',
        output: { status: 'denied', reason: 'User denied' },
      });
      expect(result?.['output']).toEqual({ status: 'denied', reason: 'User denied' });
      expect(ran('deny me')).toEqual([]);
    });

    test('may be denied without a reason', async () => {
      verifies('002:response:reason-optional');
      const run = await play([[bash('call_1', 'deny me too')]]);
      expect(await run.answer((await run.relay()).id, { approved: false })).toBe(true);
      await run.end();
      expect(outputs(run)).toEqual({ call_1: { status: 'denied' } });
      expect(ran('deny me too')).toEqual([]);
    });
  });

  describe('allowlist', () => {
    test('approves every call that a rule matches, without a relay', async () => {
      verifies(
        '002:structure:allowlist-permanent',
        '002:flow:allowlist-approves',
        '002:usage:param-pattern',
      );
      const turns = [1, 2, 3].map((n) => [bash(`call_${n}`, 'list again')]);
      const run = await play([...turns, [bash('call_4', 'not listed')]], {
        allowlist: [{ tool: 'bash', params: { command: 'list*' } }],
      });
      const { id } = await run.relay();
      expect(askedAbout(run)).toEqual(['call_4']);
      expect(ran('list again')).toHaveLength(3);
      await run.answer(id, { approved: false });
      await run.end();
    });

    test('of a tool without patterns allows all its calls: there are no relay events', async () => {
      verifies('002:usage:allow-all-calls');
      const commands = ['free ls', 'free rm -rf /', 'free | sh', 'free\nline'];
      const run = await play(
        commands.map((command, index) => [bash(`call_${index}`, command)]),
        { allowlist: [{ tool: 'bash' }] },
      );
      await run.end();
      expect(askedAbout(run)).toEqual([]);
      expect(ran('free')).toEqual(commands);
    });
  });

  describe('allowOnce', () => {
    test('approves one call without a relay; the second equal one is asked about', async () => {
      verifies(
        '002:structure:allow-once-single',
        '002:flow:allow-once-approves',
        '002:common:allow-once',
      );
      const command = 'rm -rf /tmp/cache';
      const run = await play(
        [[bash('call_0', `${command}/x`)], [bash('call_1', command)], [bash('call_2', command)]],
        { allowOnce: [{ tool: 'bash', params: { command } }] },
      );
      // Another command neither runs nor uses the rule up.
      await run.answer((await run.relay()).id, { approved: false });
      const { id } = await run.relay();
      expect(askedAbout(run)).toEqual(['call_0', 'call_2']);
      expect(ran(command)).toEqual([command]);
      await run.answer(id, { approved: false });
      await run.end();
      expect(ran(command)).toEqual([command]);
    });

    test('leaves its other rules when one is used up', async () => {
      verifies('002:structure:allow-once-others-stay');
      const once = (command: string) => ({ tool: 'bash', params: { command } });
      const run = await play(
        [
          [bash('call_1', 'once b')],
          [bash('call_2', 'once a')],
          [bash('call_3', 'once c')],
          [bash('call_4', 'once b')],
        ],
        { allowOnce: [once('once a'), once('once b'), once('once c')] },
      );
      const { id } = await run.relay();
      expect(askedAbout(run)).toEqual(['call_4']);
      expect(ran('once')).toEqual(['once b', 'once a', 'once c']);
      await run.answer(id, { approved: false });
      await run.end();
    });
  });

  describe('deny', () => {
    const reason = 'This specific call looks suspicious';

    test('stops the call with that id and no other, although a rule allows them all', async () => {
      verifies(
        '002:structure:deny-one-call',
        '002:structure:deny-beats-allow',
        '002:flow:deny-first',
        '002:flow:deny-skips-execution',
        '002:common:deny-one',
      );
      const run = await play(
        [
          [
            bash('tc-122', 'dubious 122'),
            bash('tc-123', 'dubious 123'),
            bash('tc-124', 'dubious 124'),
          ],
        ],
        {
          allowlist: [{ tool: 'bash' }],
          allowOnce: [{ tool: 'bash' }],
          deny: [{ toolCallId: 'tc-123', reason }],
        },
      );
      await run.end();
      expect(askedAbout(run)).toEqual([]);
      expect(ran('dubious')).toEqual(['dubious 122', 'dubious 124']);
      expect(outputs(run)).toMatchObject({
        'tc-122': { result: { code: 0 } },
        'tc-123': { status: 'denied', reason },
        'tc-124': { result: { code: 0 } },
      });
    });

    test('shows as a tool_result with status denied and the reason, if there is one', async () => {
      verifies('002:flow:denial-event-shape', '002:flow:denial-output');
      const run = await play([[bash('tc-1', 'x'), bash('tc-2', 'y')]], {
        deny: [{ toolCallId: 'tc-1', reason }, { toolCallId: 'tc-2' }],
      });
      await run.end();
      expect(askedAbout(run)).toEqual([]);
      const results = run.of('tool_result');
      expect(results).toEqual([
        expect.objectContaining({
          type: 'tool_result',
          id: 'tc-1',
          name: 'bash',
          output: { status: 'denied', reason },
        }),
        expect.objectContaining({
          type: 'tool_result',
          id: 'tc-2',
          name: 'bash',
          output: { status: 'denied' },
        }),
      ]);
    });
  });

  describe('the calls of one turn', () => {
    const permissions = {
      allowlist: [{ tool: 'bash', params: { command: 'turn allowed*' } }],
      deny: [{ toolCallId: 'call_2' }],
    };
    const turn = [
      bash('call_1', 'turn allowed 1'),
      bash('call_2', 'turn denied'),
      bash('call_3', 'turn asked'),
      bash('call_4', 'turn allowed 4'),
    ];

    test('are not kept from executing by one that is denied', async () => {
      verifies('002:flow:others-unaffected');
      const before = ran('turn allowed').length;
      const run = await play([turn], permissions);
      await run.answer((await run.relay()).id, { approved: false });
      await run.end();
      expect(ran('turn allowed').slice(before).toSorted()).toEqual([
        'turn allowed 1',
        'turn allowed 4',
      ]);
      expect(outputs(run)).toMatchObject({
        call_1: { result: { code: 0 } },
        call_2: { status: 'denied' },
        call_3: { status: 'denied' },
        call_4: { result: { code: 0 } },
      });
    });

    test('are checked in the order in which the model made them', async () => {
      verifies('002:flow:source-order');
      const made = ['c', 'a', 'b'].map((each) => bash(`call_${each}`, 'in order'));
      const run = await play([made], {
        allowOnce: [{ tool: 'bash', params: { command: 'in order' } }],
      });
      // The first of the equal calls gets the rule; the others are asked about, one after the other.
      const relays = [await run.relay(), await run.relay()];
      expect(askedAbout(run)).toEqual(['call_a', 'call_b']);
      for (const { id } of relays) await run.answer(id, { approved: false });
      await run.end();
      expect(outputs(run)).toMatchObject({ call_c: { result: { code: 0 } } });
    });

    const party = ['call_1', 'call_2', 'call_3'].map((id) => ({
      id,
      name: 'meet',
      input: { party: 3 },
    }));
    const met = async (run: Play) => {
      await run.end();
      return run.of('tool_result').map(({ output }) => output);
    };

    test('are executed at the same time if rules approve them', async () => {
      verifies('002:execution:concurrent');
      const run = await play([party], { allowlist: [{ tool: 'meet' }] });
      // Each comes back only once all three are running.
      expect(await met(run)).toEqual(party.map(() => ({ result: { met: 3 } })));
    });

    test('are executed at the same time if people approve them', async () => {
      verifies('002:execution:concurrent');
      const run = await play([party]);
      const relays = [await run.relay(), await run.relay(), await run.relay()];
      for (const { id } of relays) await run.answer(id, { approved: true });
      expect(await met(run)).toEqual(party.map(() => ({ result: { met: 3 } })));
    });
  });

  describe('a call that was denied', () => {
    test('is asked about again if the model repeats it, and the relay shows the denial', async () => {
      verifies('002:flow:denied-asked-again', '000:notes:no-allowlist-match');
      const run = await play([1, 2, 3].map((n) => [bash(`call_${n}`, 'again')]));
      const reason = 'Not today';
      for (const response of [{ approved: false, reason }, { approved: false }]) {
        await run.answer((await run.relay()).id, response);
      }
      await run.answer((await run.relay()).id, { approved: true });
      await run.end();
      const time = expect.stringMatching(/^\d{4}-.*Z$/);
      const by = expect.objectContaining({ name: expect.any(String) });
      expect(run.of('relay').map(({ earlierDenial }) => earlierDenial)).toEqual([
        undefined,
        { at: time, by, reason },
        { at: time, by },
      ]);
      expect(ran('again')).toEqual(['again']);
      expect(outputs(run)).toMatchObject({
        call_1: { status: 'denied', reason },
        call_2: { status: 'denied' },
        call_3: { result: { code: 0 } },
      });
    });

    test('is denied again without a relay in a headless run', async () => {
      const run = await play(
        [1, 2].map((n) => [bash(`call_${n}`, 'headless')]),
        { headless: true },
      );
      await run.end();
      expect(askedAbout(run)).toEqual([]);
      const denied = { status: 'denied', reason: expect.any(String) };
      expect(outputs(run)).toEqual({ call_1: denied, call_2: denied });
    });
  });
});

describe('the calls of one turn', () => {
  const allowlist = [{ tool: 'bash', params: { command: 'turn allowed*' } }];
  const deny = [{ toolCallId: 'call_2' }];
  const turn = [
    bash('call_1', 'turn allowed 1'),
    bash('call_2', 'turn denied'),
    bash('call_3', 'turn asked'),
    bash('call_4', 'turn allowed 4'),
  ];

  test('are all checked before any of them is executed, in the library', async () => {
    verifies('002:overview:rules-checked-first', '002:flow:two-phases');
    const driver = await drivers[0][1]();
    const checks: number[] = [];
    // The deny list is read for each call, in the order of the checks.
    const permissions = {
      allowlist,
      get deny() {
        checks.push(driver.ran().length);
        return deny;
      },
    };
    const run = await driver.play([turn], permissions);
    const before = checks.length;
    await run.answer((await run.relay()).id, { approved: false });
    await run.end();
    expect(driver.ran().toSorted()).toEqual(['turn allowed 1', 'turn allowed 4']);
    // While nothing had run, all four were checked; afterwards none.
    const during = checks.slice(before);
    expect(during.length).toBeGreaterThanOrEqual(turn.length);
    expect(new Set(during)).toEqual(new Set([0]));
  });

  describe('on a started server', () => {
    let scripted: Scripted;
    beforeAll(async () => {
      scripted = await startScripted();
    });
    afterAll(() => scripted.dispose());

    test('are all checked before any of them is executed', async () => {
      verifies('002:overview:rules-checked-first', '002:flow:two-phases');
      scripted.play(calls(...turn), says('Done.'));
      const permissions = { allowlist, deny };
      const options = { model: 'gpt-4o-mini', permissions };
      const chat = await Chat.open(scripted.server, 'Begin', options, { keyless: false });
      await chat.answer((await chat.relay()).id, { approved: false });
      await chat.end();
      const response = await scripted.server.request(`/v1/runs/${chat.runId}/events`);
      const { events } = (await response.json()) as {
        events: { type: string; toolCallId?: string }[];
      };
      const types = events
        .filter(({ toolCallId }) => toolCallId !== undefined)
        .map(({ type, toolCallId }) => `${type} ${toolCallId}`);
      const firstStart = types.findIndex((each) => each.startsWith('tool.started'));
      expect(types.slice(0, firstStart)).toEqual([
        'tool.called call_1',
        'tool.called call_2',
        'tool.called call_3',
        'tool.called call_4',
        'tool.denied call_2',
        'approval.requested call_3',
      ]);
      const started = types.filter((each) => each.startsWith('tool.started'));
      expect(started).toEqual(['tool.started call_1', 'tool.started call_4']);
    });
  });
});
