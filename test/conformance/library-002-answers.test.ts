/** 002: what rules and answers may look like, and what a tool’s answer becomes. */
import type { PermissionResponse, Permissions, ToolPermission } from '@relay/agents';
import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from 'vitest';
import { askedAbout, type Driver, drivers } from './library-002-drivers.ts';
import type { ScriptedCall } from './scripted.ts';
import { verifies } from './verifies.ts';

function bash(id: string, command: string): ScriptedCall {
  return { id, name: 'bash', input: { command } };
}

describe.each(drivers)('in %s', (name, open) => {
  let driver: Driver;
  beforeAll(async () => {
    driver = await open();
  });
  afterAll(() => driver.dispose());

  const ran = (command: string) => driver.ran().filter((text) => text === command).length;

  describe('permissions', () => {
    test('have three lists, all of them optional', async () => {
      verifies('002:structure:permissions');
      expectTypeOf<Pick<Permissions, 'allowlist' | 'allowOnce' | 'deny'>>().toEqualTypeOf<{
        allowlist?: ToolPermission[] | undefined;
        allowOnce?: ToolPermission[] | undefined;
        deny?: { toolCallId: string; reason?: string | undefined }[] | undefined;
      }>();
      const allowlist = [{ tool: 'bash' }];
      const deny = [{ toolCallId: 'tc-123' }];
      for (const good of [
        undefined,
        {},
        { allowlist },
        { allowOnce: allowlist },
        { deny },
        { allowlist, allowOnce: allowlist, deny },
      ]) {
        expect(await driver.accepts(good)).toBe(true);
      }
      for (const wrong of [[], 'all', { allowlist: { tool: 'bash' } }, { allowed: allowlist }]) {
        expect(await driver.accepts(wrong)).toBe(false);
      }
    });

    test('have rules of a tool and, if they like, a pattern for each param', async () => {
      verifies('002:structure:tool-permission');
      expectTypeOf<Pick<ToolPermission, 'tool' | 'params'>>().toEqualTypeOf<{
        tool: string;
        params?: Record<string, string> | undefined;
      }>();
      for (const list of ['allowlist', 'allowOnce']) {
        for (const good of [{ tool: 'bash' }, { tool: 'bash', params: { a: 'x*', b: '100' } }]) {
          expect(await driver.accepts({ [list]: [good] })).toBe(true);
        }
        for (const wrong of [
          {},
          'bash',
          { params: {} },
          { tool: 7 },
          { tool: 'bash', params: { limit: 100 } },
          { tool: 'bash', params: ['ls*'] },
        ]) {
          expect(await driver.accepts({ [list]: [wrong] })).toBe(false);
        }
      }
    });

    test('of a server have valid patterns; an allow rule of a program is literal text otherwise', async () => {
      verifies('002:dynamic:any-params');
      const invalid = ['', '!x', '!(x)', '[', '{a', '@(a', '{1..100000}', 'x'.repeat(2_000)];
      for (const command of invalid) {
        const rules = [{ tool: 'bash', params: { command } }];
        for (const list of ['allowlist', 'allowOnce']) {
          expect(await driver.accepts({ [list]: rules })).toBe(name === 'the library');
        }
        expect(await driver.accepts({ denylist: rules })).toBe(false);
      }
      for (const command of ['a\u0000b', 'a\ud800', '\n']) {
        expect(await driver.accepts({ allowlist: [{ tool: 'bash', params: { command } }] })).toBe(
          true,
        );
      }
    });

    test('deny a call by its id, with a reason or without', async () => {
      verifies('002:structure:deny-entry');
      for (const good of [{ toolCallId: 'tc-1' }, { toolCallId: 'tc-1', reason: 'No' }]) {
        expect(await driver.accepts({ deny: [good] })).toBe(true);
      }
      for (const wrong of [{}, 'tc-1', { reason: 'No' }, { toolCallId: 1 }, { tool: 'bash' }]) {
        expect(await driver.accepts({ deny: [wrong] })).toBe(false);
      }
    });
  });

  describe('the answer to a relay', () => {
    test('is an approval that may be for always, or a denial that may have a reason', async () => {
      verifies('002:response:type', '002:response:approved-required');
      expectTypeOf<PermissionResponse>().toEqualTypeOf<
        | { approved: true; always?: boolean | undefined }
        | { approved: false; reason?: string | undefined }
      >();
      const good: PermissionResponse[] = [
        { approved: true },
        { approved: true, always: true },
        { approved: true, always: false },
        { approved: false },
        { approved: false, reason: 'No' },
      ];
      const wrong = [
        {},
        { always: true },
        { reason: 'No' },
        { approved: null },
        { approved: 'true' },
        { approved: true, always: 'yes' },
        { approved: false, reason: 7 },
        { approved: false, always: true },
      ];
      const run = await driver.play([
        good.map((_, index) => bash(`call_${index}`, `typed ${index}`)),
      ]);
      const ids: string[] = [];
      while (ids.length < good.length) ids.push((await run.relay()).id);
      for (const response of wrong) {
        expect(await run.answer(ids[0] ?? '', response)).toBe(false);
      }
      for (const [index, response] of good.entries()) {
        expect(await run.answer(ids[index] ?? '', response)).toBe(true);
      }
      await run.end();
      expect(good.map((_, index) => ran(`typed ${index}`))).toEqual([1, 1, 1, 0, 0]);
    });

    test('with always approves equal calls that follow; without it they are asked about', async () => {
      verifies('002:response:always-auto-approves', '002:response:always-absent');
      const run = await driver.play([
        [bash('call_1', 'for always')],
        [bash('call_2', 'for always')],
        [bash('call_3', 'for once')],
        [bash('call_4', 'for once')],
      ]);
      const answers = [{ always: true }, {}, { always: false }];
      for (const more of answers) {
        await run.answer((await run.relay()).id, { approved: true, ...more });
      }
      await run.end();
      expect(askedAbout(run)).toEqual(['call_1', 'call_3', 'call_4']);
      expect([ran('for always'), ran('for once')]).toEqual([2, 2]);
    });
  });

  describe('a tool', () => {
    test('is not executed with arguments that its schema does not allow', async () => {
      verifies('002:security:validate-inputs');
      const before = driver.ran().length;
      const wrong = [{}, { command: 7 }, { command: 'ls', more: 1 }, ['ls'], 'ls', null];
      const made = wrong.map((input, index) => ({ id: `call_${index}`, name: 'bash', input }));
      const run = await driver.play([made], { allowlist: [{ tool: 'bash' }] });
      await run.end();
      expect(run.of('relay')).toEqual([]);
      const results = run.of('tool_result').map(({ output }) => output);
      expect(results).toHaveLength(wrong.length);
      for (const output of results) {
        expect(output).toMatchObject({ status: 'error', code: 'tool_input_invalid' });
      }
      expect(driver.ran()).toHaveLength(before);
    });

    test('answers with a context and a result, and the model reads the context', async () => {
      verifies(
        '002:execution:result-event',
        '002:execution:tool-message',
        '002:execution:content-is-context',
        '002:execution:content-without-context',
      );
      const made = [bash('call_1', 'uname'), { id: 'call_2', name: 'count', input: { upTo: 3 } }];
      const run = await driver.play([made], { allowlist: [{ tool: 'bash' }, { tool: 'count' }] });
      await run.end();
      const context = '$ uname';
      const results = run
        .of('tool_result')
        .map(({ runId: _run, agentId: _agent, ...rest }) => rest);
      expect(results).toContainEqual({
        type: 'tool_result',
        id: 'call_1',
        name: 'bash',
        output: { context, result: { code: 0 } },
      });
      expect(results).toContainEqual({
        type: 'tool_result',
        id: 'call_2',
        name: 'count',
        output: { result: [1, 2, 3] },
      });
      expect(driver.asked()[1]?.slice(-2)).toEqual([
        { role: 'tool', tool_call_id: 'call_1', content: context },
        {
          role: 'tool',
          tool_call_id: 'call_2',
          content: JSON.stringify({ context: undefined, result: [1, 2, 3] }),
        },
      ]);
    });
  });
});
