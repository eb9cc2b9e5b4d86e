/** Invalid bodies are refused before anything happens. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { expectHealth } from '../support/requests.ts';
import { bootServer, type TestServer } from '../support/server.ts';

const hi = [{ role: 'user', content: 'hi' }];
const chat = { model: 'demo', messages: hi };
const run = { model: 'demo', input: 'hi' };
const id = '01963a5c-7891-7abc-8ef0-123456789abc';
const rules = (list: string, rule: unknown) => ({ ...run, permissions: { [list]: [rule] } });
const pattern = (text: string) => rules('denylist', { tool: 'send_note', params: { text } });

/** Name, body, code, and the path or the message of the error. */
type Row = readonly [string, unknown, string, string?];

const chats: readonly Row[] = [
  ['no messages', { model: 'demo' }, 'invalid_request', 'model and messages are required'],
  ['no model', { messages: hi }, 'invalid_request', 'model and messages are required'],
  ['messages that are null', { ...chat, messages: null }, 'invalid_request', 'messages'],
  ['no message at all', { ...chat, messages: [] }, 'invalid_request', 'messages'],
  ['messages that are text', { ...chat, messages: 'hi' }, 'invalid_request', 'messages'],
  ['a message that is text', { ...chat, messages: ['hi'] }, 'invalid_request', 'messages[0]'],
  [
    'a message without a role',
    { ...chat, messages: [{ content: 'hi' }] },
    'invalid_request',
    'messages[0].role',
  ],
  [
    'an unknown role',
    { ...chat, messages: [{ role: 'root', content: 'hi' }] },
    'invalid_request',
    'messages[0].role',
  ],
  [
    'a message without content',
    { ...chat, messages: [{ role: 'user' }] },
    'invalid_request',
    'messages[0].content',
  ],
  [
    'content that is a number',
    { ...chat, messages: [{ role: 'user', content: 1 }] },
    'invalid_request',
    'messages[0].content',
  ],
  [
    'an unknown part',
    { ...chat, messages: [{ role: 'user', content: [{ type: 'video' }] }] },
    'invalid_request',
    'messages[0].content',
  ],
  [
    'a tool message without its call',
    { ...chat, messages: [{ role: 'tool', content: 'x' }] },
    'invalid_request',
    'messages[0].tool_call_id',
  ],
  [
    'an unknown field in a message',
    { ...chat, messages: [{ role: 'user', content: 'x', name: 'y' }] },
    'invalid_request',
    'messages[0]',
  ],
  ['an empty model', { ...chat, model: '' }, 'invalid_request', 'model'],
  ['a model that is a list', { ...chat, model: ['demo'] }, 'invalid_request', 'model'],
  ['an unknown model', { ...chat, model: 'hal-9000' }, 'unknown_model', 'model'],
  ['a model without a credential', { ...chat, model: 'gpt-99' }, 'credential_missing', 'openai'],
  ['an inherited name for a model', { ...chat, model: 'constructor' }, 'unknown_model', 'model'],
  ['an unknown tool', { ...chat, tools: ['calculator', 'rm'] }, 'unknown_tool', 'tools[1]'],
  ['an inherited name for a tool', { ...chat, tools: ['toString'] }, 'unknown_tool', 'tools[0]'],
  [
    'a tool named twice',
    { ...chat, tools: ['calculator', 'calculator'] },
    'invalid_request',
    'tools[1]',
  ],
  ['an empty tool name', { ...chat, tools: [''] }, 'invalid_request', 'tools[0]'],
  ['tools as objects', { ...chat, tools: [{ name: 'calculator' }] }, 'invalid_request', 'tools[0]'],
  ['a context that is a list', { ...chat, context: [] }, 'invalid_request', 'context'],
  ['a context that is text', { ...chat, context: 'x' }, 'invalid_request', 'context'],
  [
    'a conversation that is no id',
    { ...chat, conversationId: 'mine' },
    'invalid_request',
    'conversationId',
  ],
  ['no iteration', { ...chat, maxIterations: 0 }, 'invalid_request', 'maxIterations'],
  ['too many iterations', { ...chat, maxIterations: 1001 }, 'invalid_request', 'maxIterations'],
  ['half an iteration', { ...chat, maxIterations: 1.5 }, 'invalid_request', 'maxIterations'],
  ['iterations as text', { ...chat, maxIterations: '3' }, 'invalid_request', 'maxIterations'],
  ['an unknown field', { ...chat, stream: true }, 'invalid_request', 'stream'],
];

const runs: readonly Row[] = [
  ['no input', { model: 'demo' }, 'invalid_request', 'input is required'],
  ['no model', { input: 'hi' }, 'invalid_request', 'model is required'],
  ['an empty input', { ...run, input: '' }, 'invalid_request', 'input'],
  ['an empty list as input', { ...run, input: [] }, 'invalid_request', 'input'],
  ['input that is a number', { ...run, input: 7 }, 'invalid_request', 'input'],
  ['input that is a message', { ...run, input: hi[0] }, 'invalid_request', 'input'],
  ['an unknown model', { ...run, model: 'demo2' }, 'unknown_model', 'model'],
  ['an unknown agent', { ...run, agent: 'butler' }, 'unknown_agent', 'butler'],
  ['an empty agent', { ...run, agent: '' }, 'invalid_request', 'agent'],
  ['a system text that is a list', { ...run, system: [] }, 'invalid_request', 'system'],
  ['tools as text', { ...run, tools: 'calculator' }, 'invalid_request', 'tools'],
  ['tools as names', { ...run, tools: ['calculator'] }, 'invalid_request', 'tools[0]'],
  [
    'a tool without a kind',
    { ...run, tools: [{ name: 'calculator' }] },
    'invalid_request',
    'tools[0].kind',
  ],
  [
    'a tool of an unknown kind',
    { ...run, tools: [{ name: 'calculator', kind: 'magic' }] },
    'invalid_request',
    'tools[0].kind',
  ],
  [
    'an unknown built-in',
    { ...run, tools: [{ name: 'nope', kind: 'builtin' }] },
    'unknown_tool',
    'tools[0]',
  ],
  [
    'an inherited built-in',
    { ...run, tools: [{ name: '__proto__', kind: 'builtin' }] },
    'unknown_tool',
    'tools[0]',
  ],
  [
    'a tool name that is too long',
    { ...run, tools: [{ name: 'x'.repeat(129), kind: 'builtin' }] },
    'invalid_request',
    'tools[0].name',
  ],
  ['a parent that is no id', { ...run, parentRunId: '1' }, 'invalid_request', 'parentRunId'],
  [
    'a conversation that is a number',
    { ...run, conversationId: 1 },
    'invalid_request',
    'conversationId',
  ],
  ['an empty workflow', { ...run, workflowId: '' }, 'invalid_request', 'workflowId'],
  [
    'a workflow that is too long',
    { ...run, workflowId: 'x'.repeat(257) },
    'invalid_request',
    'workflowId',
  ],
  ['labels as a list', { ...run, labels: ['a'] }, 'invalid_request', 'labels'],
  ['a label that is a number', { ...run, labels: { a: 1 } }, 'invalid_request', 'labels.a'],
  [
    'a label that is too long',
    { ...run, labels: { a: 'x'.repeat(257) } },
    'invalid_request',
    'labels.a',
  ],
  ['a label without a name', { ...run, labels: { '': 'x' } }, 'invalid_request', 'labels'],
  ['too many iterations', { ...run, maxIterations: 1e9 }, 'invalid_request', 'maxIterations'],
  ['an unknown field', { ...run, temperature: 1 }, 'invalid_request', 'temperature'],
];

const permissions: readonly Row[] = [
  ['permissions that are a list', { ...run, permissions: [] }, 'invalid_request', 'permissions'],
  ['an unknown list', { ...run, permissions: { allow: [] } }, 'invalid_request', 'permissions'],
  [
    'a rule that is text',
    rules('allowlist', 'send_note'),
    'invalid_request',
    'permissions.allowlist[0]',
  ],
  [
    'a rule without a tool',
    rules('allowlist', {}),
    'invalid_request',
    'permissions.allowlist[0].tool',
  ],
  [
    'a rule with an empty tool',
    rules('allowOnce', { tool: '' }),
    'invalid_request',
    'permissions.allowOnce[0].tool',
  ],
  [
    'a pattern that is a number',
    rules('denylist', { tool: 'x', params: { a: 1 } }),
    'invalid_request',
    'permissions.denylist[0].params.a',
  ],
  [
    'params that are a list',
    rules('denylist', { tool: 'x', params: ['a'] }),
    'invalid_request',
    'permissions.denylist[0].params',
  ],
  [
    'a denial without a call',
    rules('deny', { reason: 'no' }),
    'invalid_request',
    'permissions.deny[0].toolCallId',
  ],
  ...[
    '*',
    'send_*',
    'send note',
    ' send_note',
    'send_note\n',
    'a'.repeat(65),
    '!bash',
    'é',
  ].flatMap((tool) =>
    (['allowlist', 'allowOnce', 'denylist', 'ask'] as const).map((list): Row => [
      `${list} with the tool ${JSON.stringify(tool)}`,
      rules(list, { tool }),
      'invalid_pattern',
      `permissions.${list}[0].tool: No tool is named ${JSON.stringify(tool)}`,
    ]),
  ),
  ['an empty pattern', pattern(''), 'invalid_pattern', 'permissions.denylist[0].params.text'],
  ['a negated pattern', pattern('!rm *'), 'invalid_pattern', 'permissions.denylist[0].params.text'],
  ['a negated group', pattern('!(a|b)'), 'invalid_pattern', 'permissions.denylist[0].params.text'],
  ['an unclosed bracket', pattern('a[b'), 'invalid_pattern', 'permissions.denylist[0].params.text'],
  ['an unclosed brace', pattern('a{b'), 'invalid_pattern', 'permissions.denylist[0].params.text'],
  [
    'a huge range',
    pattern('{1..100000}'),
    'invalid_pattern',
    'permissions.denylist[0].params.text',
  ],
  [
    'an oversized pattern',
    pattern('x'.repeat(1025)),
    'invalid_pattern',
    'permissions.denylist[0].params.text',
  ],
];

const answers: readonly Row[] = [
  ['nothing', {}, 'invalid_request', 'sessionId and response are required'],
  ['no response', { sessionId: id }, 'invalid_request', 'sessionId and response are required'],
  [
    'no session',
    { response: { approved: true } },
    'invalid_request',
    'sessionId and response are required',
  ],
  [
    'a session that is a number',
    { sessionId: 1, response: { approved: true } },
    'invalid_request',
    'sessionId',
  ],
  [
    'an empty session',
    { sessionId: '', response: { approved: true } },
    'invalid_request',
    'sessionId',
  ],
  [
    'approved as text',
    { sessionId: id, response: { approved: 'yes' } },
    'invalid_request',
    'response',
  ],
  [
    'an unknown field',
    { sessionId: id, response: { approved: true }, x: 1 },
    'invalid_request',
    'x',
  ],
];

/** Bodies that are not a JSON object, sent verbatim. */
const texts: readonly Row[] = [
  ['a brace', '{', 'invalid_json', 'Invalid JSON body'],
  ['a trailing comma', '{"model":"demo",}', 'invalid_json', 'Invalid JSON body'],
  ['single quotes', "{'model':'demo'}", 'invalid_json', 'Invalid JSON body'],
  ['two objects', '{}{}', 'invalid_json', 'Invalid JSON body'],
  ['NaN', '{"input":NaN}', 'invalid_json', 'Invalid JSON body'],
  ['a comment', '{/* */}', 'invalid_json', 'Invalid JSON body'],
  ['an open text', '{"input":"', 'invalid_json', 'Invalid JSON body'],
  ['white space', '  ', 'invalid_json', 'Invalid JSON body'],
  ['nothing', '', 'invalid_json', 'Invalid JSON body'],
  [
    '__proto__',
    '{"model":"demo","input":"say 1","messages":[],"__proto__":{"x":1}}',
    'invalid_json',
  ],
  [
    'a nested __proto__',
    '{"model":"demo","input":"say 1","labels":{"__proto__":"x"}}',
    'invalid_json',
  ],
  [
    'an escaped __proto__',
    '{"model":"demo","input":"say 1","labels":{"\\u005f_proto__":"x"}}',
    'invalid_json',
  ],
  ['constructor.prototype', '{"input":"x","constructor":{"prototype":{"x":1}}}', 'invalid_json'],
];

function named(rows: readonly Row[]) {
  return rows.map((row) => ({ what: row[0], row }));
}

describe('bad input', () => {
  let server: TestServer;

  beforeAll(async () => {
    server = await bootServer();
  });

  afterAll(async () => {
    await server.stop();
  });

  afterEach(() => expectHealth(server));

  async function expectRefusal(path: string, [, body, code, expected]: Row): Promise<void> {
    const response = await server.request(path, { body });
    expect(response.status).toBe(400);
    expect(response.headers.get('content-type')).toContain('application/json');
    expect(response.headers.has('x-run-id')).toBe(false);
    const answer = (await response.json()) as { error: string; details?: { path: string }[] };
    expect(answer).toMatchObject({ code, error: expect.any(String) });
    if (expected === undefined) return;
    const paths = (answer.details ?? []).map((detail) => detail.path);
    const said = [answer.error, ...paths];
    expect(
      said.some((text) => text.includes(expected)),
      JSON.stringify(answer),
    ).toBe(true);
  }

  it.each(named(chats))('POST /chat refuses $what', ({ row }) => expectRefusal('/chat', row));
  it.each(named(runs))('POST /v1/runs refuses $what', ({ row }) => expectRefusal('/v1/runs', row));
  it.each(named(permissions))('POST /v1/runs refuses $what', ({ row }) =>
    expectRefusal('/v1/runs', row),
  );
  it.each(named(answers))('POST /chat/relay refuses $what', ({ row }) =>
    expectRefusal(`/chat/relay/${id}`, row),
  );

  for (const path of ['/chat', '/v1/runs', `/chat/relay/${id}`]) {
    it.each(named(texts))(`POST ${path} refuses $what`, ({ row }) => expectRefusal(path, row));
  }

  it.each(['null', '[]', '"text"', '7', 'true'])(
    'a body of %j is missing all that is required',
    async (body) => {
      for (const [path, sentence] of [
        ['/chat', 'model and messages are required'],
        ['/v1/runs', 'input is required'],
        [`/chat/relay/${id}`, 'sessionId and response are required'],
      ] as const) {
        const response = await server.request(path, {
          method: 'POST',
          body,
          headers: { 'content-type': 'application/json' },
        });
        expect(response.status).toBe(400);
        expect(await response.json()).toMatchObject({ error: sentence, code: 'invalid_request' });
      }
    },
  );

  it('pollutes no prototype and stores no run', () => {
    expect(({} as Record<string, unknown>)['x']).toBeUndefined();
    expect(server.relay.hub.size).toBe(0);
    expect(server.logged).toEqual([]);
  });
});
