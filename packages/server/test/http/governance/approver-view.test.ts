/** What an approver sees of calls on files: where their paths lead, and what they change. */
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startRun } from '../../support/requests.ts';
import { bootServer, type TestServer, until } from '../../support/server.ts';

interface Approval {
  readonly display: { readonly text: string; readonly flags: readonly string[] };
  readonly preview?: { readonly links?: readonly object[]; readonly diff?: string };
  readonly resolvedPaths?: Readonly<Record<string, string>>;
}

let folder = '';
let server: TestServer;
beforeEach(async () => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'relay-approver-')));
  for (const name of ['docs', 'deploy']) mkdirSync(join(folder, name));
  writeFileSync(join(folder, 'deploy/prod.sh'), 'set -e\nmake\nmake install\n');
  symlinkSync('../deploy/prod.sh', join(folder, 'docs/readme.md'));
  const env = {
    RELAY_WORKSPACE: folder,
    RELAY_PRIVATE_NETWORKS: '127.0.0.0/8',
    RELAY_PUBLIC_URL: 'http://127.0.0.1:1',
  };
  server = await bootServer({ env });
});
afterEach(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

const file = (path: string) => readFileSync(join(folder, path), 'utf8');

async function asked(tool: string, params: object) {
  const run = await startRun(server, {
    input: `use ${tool} ${JSON.stringify(params)}`,
    tools: [{ name: tool, kind: 'builtin' }],
  });
  const { data: frame } = await run.reader.until('approval_requested');
  const id = String(frame['id']);
  const approval = (await server.json(`/v1/approvals/${id}`)) as unknown as Approval;
  return { ...run, id, frame, approval };
}

const edit = (old: string, replacement: string) => ({ edits: [{ old, new: replacement }] });
const decide = (id: string, body: object) => server.request(`/v1/approvals/${id}`, { body });

describe('an approver', () => {
  it('sees that a path leads elsewhere, in the API and in the stream', async () => {
    const { approval, frame } = await asked('read', { filePath: 'docs/readme.md' });
    expect(approval.display.text).toMatch(
      /^docs\/readme\.md → deploy\/prod\.sh \(filePath\)\nread \{/,
    );
    expect(approval.display.flags).toEqual(['resolves-elsewhere']);
    expect(approval.resolvedPaths).toEqual({ filePath: join(folder, 'deploy/prod.sh') });
    expect(frame).toMatchObject({
      display: approval.display,
      resolvedPaths: approval.resolvedPaths,
    });
  });

  it('sees the target of a path with "..", and nothing more of a plain path', async () => {
    const climbing = await asked('read', { filePath: 'docs/../deploy/prod.sh' });
    expect(climbing.approval.display.text).toContain('docs/../deploy/prod.sh → deploy/prod.sh');
    const plain = await asked('read', { filePath: './deploy//prod.sh' });
    expect(plain.approval.display.flags).toEqual([]);
    expect(plain.approval).not.toHaveProperty('preview');
    expect(plain.frame).not.toHaveProperty('display');
  });

  it('sees the folder and the links that a command names', async () => {
    symlinkSync('deploy', join(folder, 'notes'));
    const command = 'cat docs/readme.md > "notes/out"; ls missing';
    const { approval } = await asked('bash', { command, cwd: '.' });
    expect(approval.display.text).toMatch(/^docs\/readme\.md → deploy\/prod\.sh \(command\)\n/);
    const inFolder = await asked('bash', { command: 'ls', cwd: 'notes' });
    expect(inFolder.approval.display.text).toContain('notes → deploy (cwd)');
  });

  it('sees the change to a file as a diff, with hidden characters escaped', async () => {
    const params = { filePath: 'docs/readme.md', ...edit('make\n', 'make\u202e\n') };
    const { approval } = await asked('patch', params);
    const diff = [
      '--- deploy/prod.sh',
      '+++ deploy/prod.sh',
      '@@ -1,3 +1,3 @@',
      ' set -e',
      '-make',
      '+make\\u{202e}',
      ' make install',
    ].join('\n');
    expect(approval.preview).toEqual({
      links: [{ name: 'filePath', path: 'docs/readme.md', target: 'deploy/prod.sh' }],
      diff,
    });
    expect(approval.display.text).toContain(diff);
    expect(approval.display.flags).toEqual(['bidi', 'resolves-elsewhere']);
  });

  it('sees why a change does not apply', async () => {
    const { approval } = await asked('patch', { filePath: 'deploy/prod.sh', ...edit('x', 'y') });
    expect(approval.display.text).toContain('does not apply to the file as it is now: edits[0]');
  });

  it('gets the change that was shown, or an error if the file has changed since', async () => {
    const params = { filePath: 'deploy/prod.sh', edits: [{ old: 'make', new: 'true', all: true }] };
    const { id, reader } = await asked('patch', params);
    writeFileSync(join(folder, 'deploy/prod.sh'), 'set -e\nmake\nmake install\nmake clean\n');
    await decide(id, { approved: true });
    expect(JSON.stringify(await reader.rest())).toContain('was changed after the approval');
    expect(file('deploy/prod.sh')).toContain('make clean');
    const again = await asked('patch', params);
    await decide(again.id, { approved: true });
    await again.reader.rest();
    expect(file('deploy/prod.sh')).toBe('set -e\ntrue\ntrue install\ntrue clean\n');
  });

  it('gets an error if a link that an approved command names leads elsewhere meanwhile', async () => {
    const { id, reader } = await asked('bash', { command: 'cat docs/readme.md' });
    rmSync(join(folder, 'docs/readme.md'));
    writeFileSync(join(folder, 'docs/readme.md'), 'other');
    await decide(id, { approved: true });
    expect(JSON.stringify(await reader.rest())).toContain('A link that the command names');
  });

  it('sees where the arguments lead that another approver has changed and voted for', async () => {
    const approvers = [{ tool: 'read', quorum: 2 }];
    await server.request('/v1/policy', { method: 'PUT', body: { version: 0, approvers } });
    const { id } = await asked('read', { filePath: 'deploy/prod.sh' });
    const input = { filePath: 'docs/a.txt' };
    writeFileSync(join(folder, 'docs/a.txt'), '');
    expect((await decide(id, { approved: true, input })).status).toBe(200);
    expect(await server.json(`/v1/approvals/${id}`)).toMatchObject({
      status: 'pending',
      executedParams: input,
      resolvedPaths: { filePath: join(folder, 'docs/a.txt') },
    });
  });

  it('sees where changed arguments lead, and what they change', async () => {
    const { id, reader } = await asked('patch', { filePath: 'a.txt', ...edit('', 'new\n') });
    const input = { filePath: 'docs/readme.md', ...edit('make\n', 'true\n') };
    expect((await decide(id, { approved: true, input })).status).toBe(200);
    await reader.rest();
    const { display, preview } = (await server.json(`/v1/approvals/${id}`)) as unknown as Approval;
    expect(display.text).toContain('+++ a.txt');
    // What was executed, like `executedParams`.
    expect(preview?.diff).toContain('+++ deploy/prod.sh');
    expect(display.text).toMatch(
      /Changed by the approver to \{[^]*docs\/readme\.md → deploy\/prod\.sh[^]*\+true/,
    );
    expect(file('deploy/prod.sh')).toBe('set -e\ntrue\nmake install\n');
  });
});

describe('the page of a decision link, and its webhook', () => {
  let receiver: Server;
  const payloads: { approval: { id: string; flags?: string[] }; decisionUrl: string }[] = [];
  beforeEach(async () => {
    receiver = createServer((request, response) => {
      let body = '';
      request.on('data', (chunk: Buffer) => (body += chunk.toString()));
      request.on('end', () => {
        payloads.push(JSON.parse(body) as (typeof payloads)[number]);
        response.end();
      });
    });
    await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
    const { port } = receiver.address() as AddressInfo;
    const body = { url: `http://127.0.0.1:${port}/`, events: ['approval.requested'] };
    await server.json('/v1/webhooks', { body });
  });
  afterEach(() => {
    receiver.closeAllConnections();
    receiver.close();
  });

  it('show the target of a link, the change and the warnings above the buttons', async () => {
    const params = { filePath: 'docs/readme.md', ...edit('make\n', 'mаke\u202e <b>\n') };
    const { id } = await asked('patch', params);
    const payload = await until(
      () => payloads.find(({ approval }) => approval.id === id),
      'a call',
    );
    expect(payload.approval.flags).toEqual(['bidi', 'mixed-scripts', 'resolves-elsewhere']);
    const { pathname } = new URL(payload.decisionUrl);
    const html = await (await server.request(pathname, { key: null })).text();
    const [above = ''] = html.split('<form');
    expect(above).toContain('docs/readme.md → deploy/prod.sh (filePath)');
    expect(above).toContain('<ins>+mаke\\u{202e} &#60;b&#62;</ins>');
    expect(above).toContain('<del>-make</del>');
    expect(above).toContain('such as a right-to-left override');
    expect(above).toContain('U+0430 Cyrillic');
  });
});
