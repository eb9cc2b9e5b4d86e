import { describe, expect, it } from 'vitest';
import { mcpServersSchema } from '../../src/mcp/settings.ts';

const problemOf = (servers: unknown) => {
  const parsed = mcpServersSchema.safeParse(servers);
  const [issue] = parsed.error?.issues ?? [];
  return issue === undefined ? undefined : `${issue.path.join('.')}: ${issue.message}`;
};

describe('the settings of MCP servers', () => {
  it('accept a program and an endpoint with all options', () => {
    const shared = {
      tools: ['a'],
      readOnly: 'annotated',
      idempotent: true,
      kinds: { a: { path: 'path' } },
      timeoutMs: 1,
      connectTimeoutMs: 1,
      tenants: ['acme'],
    };
    const program = { command: 'npx', args: ['-y', 'x'], env: { A: 'b' }, cwd: '.', ...shared };
    const endpoint = { url: 'https://x.example/mcp', headers: { 'x-key': 'k' }, ...shared };
    expect(problemOf({ files: program, web: endpoint, small: { command: 'x' } })).toBeUndefined();
  });

  it.each([
    [{ a_b: { command: 'x' } }, 'a_b: The name of a server must have'],
    [{ a: {} }, 'a: Must have a command or a url, and not both'],
    [{ a: { command: 'x', url: 'https://x.example' } }, 'a: Must have a command or a url'],
    [{ a: { url: 'https://x.example', env: {} } }, 'a.env: Requires a command'],
    [{ a: { command: 'x', headers: {} } }, 'a.headers: Requires a url'],
    [{ a: { command: 'x', env: { TOKEN: undefined } } }, 'a.env.TOKEN: '],
    [{ a: { command: 'x', env: { 'A B': 'x' } } }, 'a.env.A B: '],
    [{ a: { command: 'x\0y' } }, 'a.command: Must not contain NUL'],
    [{ a: { url: 'ftp://x.example' } }, 'a.url: '],
    [{ a: { url: 'https://x.example', headers: { 'x\ny': 'z' } } }, 'a.headers.'],
    [{ a: { url: 'https://x.example', headers: { x: 'a\r\nb: c' } } }, 'a.headers.x: '],
    [
      { a: { url: 'https://x.example', headers: { authorization: 'Bearer undefined' } } },
      'a.headers.authorization: Ends in "undefined": is the environment variable set?',
    ],
    [{ a: { command: 'x', readOnly: 'all' } }, 'a.readOnly: Must be true, "annotated" or a list'],
    [{ a: { command: 'x', timeoutMs: 0 } }, 'a.timeoutMs: '],
    [{ a: { command: 'x', tenants: [] } }, 'a.tenants: '],
    [{ a: { command: 'x', kinds: { t: { p: 'file' } } } }, 'a.kinds.t.p: '],
    [{ a: { command: 'x', trust: true } }, 'a: Unrecognized key: "trust"'],
  ])('refuse %j', (servers, problem) => {
    expect(problemOf(servers)).toContain(problem);
  });
});
