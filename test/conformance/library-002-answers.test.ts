/** 002: what rules and answers may look like, and what a tool’s answer becomes. */
import type { PermissionResponse, Permissions, ToolPermission } from '@relay/protocol';
import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from 'vitest';
import { Chat } from './chat-client.ts';
import { calls, says, type Scripted, type ScriptedCall, startScripted } from './scripted.ts';
import { verifies } from './verifies.ts';

let scripted: Scripted;
beforeAll(async () => {
  scripted = await startScripted();
});
afterAll(() => scripted.dispose());

const model = 'gpt-4o-mini';

function bash(id: string, command: string): ScriptedCall {
  return { id, name: 'bash', input: { command } };
}

function ran(command: string): number {
  return scripted.server.notes.filter(({ text }) => text === command).length;
}

/** How a request with these permissions is answered. */
async function statusFor(permissions: unknown): Promise<number> {
  scripted.play(says('Done.'));
  const response = await scripted.server.request('/v1/runs', {
    body: { model, input: 'Begin', permissions },
  });
  await response.text();
  return response.status;
}

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
      expect(await statusFor(good)).toBe(200);
    }
    for (const wrong of [[], 'all', { allowlist: { tool: 'bash' } }, { allowed: allowlist }]) {
      expect(await statusFor(wrong)).toBe(400);
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
        expect(await statusFor({ [list]: [good] })).toBe(200);
      }
      for (const wrong of [
        {},
        'bash',
        { params: {} },
        { tool: 7 },
        { tool: 'bash', params: { limit: 100 } },
        { tool: 'bash', params: ['ls*'] },
      ]) {
        expect(await statusFor({ [list]: [wrong] })).toBe(400);
      }
    }
  });

  test('deny a call by its id, with a reason or without', async () => {
    verifies('002:structure:deny-entry');
    for (const good of [{ toolCallId: 'tc-1' }, { toolCallId: 'tc-1', reason: 'No' }]) {
      expect(await statusFor({ deny: [good] })).toBe(200);
    }
    for (const wrong of [{}, 'tc-1', { reason: 'No' }, { toolCallId: 1 }, { tool: 'bash' }]) {
      expect(await statusFor({ deny: [wrong] })).toBe(400);
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
    scripted.play(
      calls(...good.map((_, index) => bash(`call_${index}`, `typed ${index}`))),
      says('Done.'),
    );
    const chat = await Chat.open(scripted.server, 'Begin', { model });
    const ids: string[] = [];
    while (ids.length < good.length) ids.push((await chat.relay()).id);
    for (const response of wrong) {
      expect((await chat.answer(ids[0] ?? '', response)).status).toBe(400);
    }
    for (const [index, response] of good.entries()) {
      expect((await chat.answer(ids[index] ?? '', response)).status).toBe(200);
    }
    await chat.end();
    expect(good.map((_, index) => ran(`typed ${index}`))).toEqual([1, 1, 1, 0, 0]);
  });

  test('with always approves equal calls that follow; without it they are asked about', async () => {
    verifies('002:response:always-auto-approves', '002:response:always-absent');
    scripted.play(
      calls(bash('call_1', 'for always')),
      calls(bash('call_2', 'for always')),
      calls(bash('call_3', 'for once')),
      calls(bash('call_4', 'for once')),
      says('Done.'),
    );
    const chat = await Chat.open(scripted.server, 'Begin', { model });
    const answers = [{ always: true }, {}, { always: false }];
    for (const more of answers) {
      await chat.answer((await chat.relay()).id, { approved: true, ...more });
    }
    await chat.end();
    expect(chat.of('relay').map(({ data }) => data['toolCallId'])).toEqual([
      'call_1',
      'call_3',
      'call_4',
    ]);
    expect([ran('for always'), ran('for once')]).toEqual([2, 2]);
  });
});

describe('a tool', () => {
  test('is not executed with arguments that its schema does not allow', async () => {
    verifies('002:security:validate-inputs');
    const before = scripted.server.notes.length;
    const wrong = [{}, { command: 7 }, { command: 'ls', more: 1 }, ['ls'], 'ls', null];
    scripted.play(
      calls(...wrong.map((input, index) => ({ id: `call_${index}`, name: 'bash', input }))),
      says('Done.'),
    );
    const permissions = { allowlist: [{ tool: 'bash' }] };
    const chat = await Chat.open(scripted.server, 'Begin', { model, permissions });
    await chat.end();
    expect(chat.of('relay')).toEqual([]);
    const results = chat.of('tool_result').map(({ data }) => data['output']);
    expect(results).toHaveLength(wrong.length);
    for (const output of results) {
      expect(output).toMatchObject({ status: 'error', code: 'tool_input_invalid' });
    }
    expect(scripted.server.notes).toHaveLength(before);
  });

  test('answers with a context and a result, and the model reads the context', async () => {
    verifies(
      '002:execution:result-event',
      '002:execution:tool-message',
      '002:execution:content-is-context',
      '002:execution:content-without-context',
    );
    scripted.play(
      calls(bash('call_1', 'uname'), { id: 'call_2', name: 'count', input: { upTo: 3 } }),
      says('Done.'),
    );
    const permissions = { allowlist: [{ tool: 'bash' }, { tool: 'count' }] };
    const chat = await Chat.open(scripted.server, 'Begin', { model, permissions });
    await chat.end();
    const context = '$ uname';
    const results = chat.of('tool_result').map(({ data }) => {
      const { runId: _run, agentId: _agent, ...rest } = data;
      return rest;
    });
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
    expect(scripted.asked()[1]?.messages.slice(-2)).toEqual([
      { role: 'tool', tool_call_id: 'call_1', content: context },
      {
        role: 'tool',
        tool_call_id: 'call_2',
        content: JSON.stringify({ context: undefined, result: [1, 2, 3] }),
      },
    ]);
  });
});
