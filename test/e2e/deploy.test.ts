/** The files of the guide on deployment: the proxies pass events on at once, and the unit is valid. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { requires } from '../support/requires.ts';
import { TestServer } from '../support/server.ts';

const example = (name: string) =>
  readFileSync(fileURLToPath(new URL(`../../examples/deploy/${name}`, import.meta.url)), 'utf8');
const host = 'relay.example.com';
const folder = mkdtempSync(join(tmpdir(), 'relay-deploy-'));
const settings = Object.fromEntries(
  example('relay.env')
    .split('\n')
    .filter((line) => line.startsWith('RELAY_'))
    .map((line) => line.split('=') as [string, string]),
);
const server = new TestServer({ ...settings, RELAY_PORT: '0' });
const started: ChildProcess[] = [];

beforeAll(() => server.start());
afterAll(async () => {
  for (const proxy of started) proxy.kill('SIGTERM');
  await server.dispose();
  rmSync(folder, { recursive: true, force: true });
});

const isMissing = (tool: string) =>
  spawnSync('which', [tool]).status === 0 ? undefined : `${tool} is not installed`;

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => probe.once('listening', resolve));
  const { port } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

function write(name: string, content: string): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

function start(command: string, args: readonly string[]): void {
  const env = { ...process.env, HOME: folder, XDG_DATA_HOME: folder };
  started.push(spawn(command, args, { stdio: 'ignore', env }));
}

interface Sent {
  readonly url: string;
  readonly name?: string;
  readonly body?: unknown;
  /** Reads until this, and then closes the connection. */
  readonly until?: string;
}

/** By curl, which connects to this machine under the name of the certificate. */
function send({ url, name = host, body, until }: Sent): Promise<string> {
  const { port } = new URL(url);
  const args = ['-sNki', '--resolve', `${name}:${port}:127.0.0.1`, url.replace(host, name)];
  args.push('-H', `authorization: Bearer ${server.apiKey}`, '--max-time', '15');
  if (body !== undefined) {
    args.push('-H', 'content-type: application/json', '--data-binary', '@-');
  }
  const curl = spawn('curl', args, { stdio: ['pipe', 'pipe', 'ignore'] });
  curl.stdin.end(body === undefined ? '' : JSON.stringify(body));
  let output = '';
  curl.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString();
    if (until !== undefined && output.includes(until)) curl.kill();
  });
  return new Promise((resolve) => curl.on('close', () => resolve(output)));
}

/** Through the proxy: the API, a stream that has not ended, and a name that is not allowed. */
async function expectProxy(url: string): Promise<void> {
  await expect.poll(() => send({ url: `${url}/health` })).toContain('200');
  const input = {
    model: 'demo',
    input: 'notify hi',
    tools: [{ name: 'send_note', kind: 'builtin' }],
  };
  // The run waits, and so does its stream: a proxy that collects it would show nothing.
  const stream = await send({ url: `${url}/v1/runs`, body: input, until: 'approval_requested' });
  expect(stream).toContain('text/event-stream');
  expect(stream).toContain('"type":"approval_requested"');
  const large = { model: 'demo', input: 'x'.repeat(9_000_000) };
  expect(await send({ url: `${url}/v1/runs`, body: large })).not.toMatch(/^HTTP\/\S+ 413/m);
}

describe('nginx', requires('nginx', isMissing('nginx') ?? isMissing('openssl')), () => {
  test('passes events on at once, over TLS', async () => {
    const certificate = [join(folder, 'cert.pem'), join(folder, 'key.pem')] as const;
    const subject = ['-days', '2', '-subj', `/CN=${host}`];
    const files = ['-out', certificate[0], '-keyout', certificate[1]];
    const request = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes'];
    const made = spawnSync('openssl', [...request, ...subject, ...files]);
    expect(made.status).toBe(0);
    const [http, https] = [await freePort(), await freePort()];
    const site = example('nginx.conf')
      .replace('listen 80', `listen 127.0.0.1:${http}`)
      .replace('listen 443', `listen 127.0.0.1:${https}`)
      .replace(/ssl_certificate .*/, `ssl_certificate ${certificate[0]};`)
      .replace(/ssl_certificate_key .*/, `ssl_certificate_key ${certificate[1]};`)
      .replace('http://127.0.0.1:4000', server.url);
    const config = write(
      'nginx.conf',
      `daemon off; pid ${folder}/nginx.pid; error_log ${folder}/error.log; events {}
      http { access_log off; client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy;
        fastcgi_temp_path ${folder}/f; uwsgi_temp_path ${folder}/u; scgi_temp_path ${folder}/s;
        ${site} }`,
    );
    const checked = spawnSync('nginx', ['-t', '-c', config], { encoding: 'utf8' });
    expect(checked.stderr).toContain('test is successful');
    start('nginx', ['-c', config]);
    await expectProxy(`https://${host}:${https}`);
    expect(await send({ url: `http://${host}:${http}/health` })).toContain(
      `https://${host}/health`,
    );
  }, 60_000);
});

describe('Caddy', requires('Caddy', isMissing('caddy')), () => {
  test('passes events on at once', async () => {
    const file = write('Checked', example('Caddyfile'));
    const args = ['validate', '--adapter', 'caddyfile', '--config', file];
    const env = { ...process.env, HOME: folder };
    expect(spawnSync('caddy', args, { encoding: 'utf8', env }).status).toBe(0);
    const port = await freePort();
    // Without TLS, which needs a public name.
    const here = example('Caddyfile')
      .replace(/^relay\.example\.com/m, `http://${host}:${port}`)
      .replace('127.0.0.1:4000', server.url.replace('http://', ''));
    const config = write('Caddyfile', `{\n\tadmin off\n}\n${here}`);
    start('caddy', ['run', '--adapter', 'caddyfile', '--config', config]);
    await expectProxy(`http://${host}:${port}`);
  }, 60_000);
});

test('a name that is not in RELAY_ALLOWED_HOSTS is refused', async () => {
  const { port } = new URL(server.url);
  const refused = await send({ url: `http://${host}:${port}/v1/runs`, name: 'other.example.com' });
  expect(refused).toMatch(/^HTTP\/1\.1 403/);
  expect(refused).toContain('host_not_allowed');
});

test('the unit is valid', requires('systemd', isMissing('systemd-analyze')), () => {
  // The executable and the user exist on the reader's machine.
  const unit = example('relay.service')
    .replace(/^ExecStart=.*/m, 'ExecStart=/bin/true')
    .replace(/^(User|Group)=.*/gm, '$1=root');
  const path = write('relay.service', unit);
  const checked = spawnSync('systemd-analyze', ['verify', '--man=no', path], { encoding: 'utf8' });
  expect(checked.stderr.split('\n').filter((line) => line.includes('relay.service'))).toEqual([]);
});
