/**
 * Takes the screenshots of docs/images: `npm run screenshots [-- PAGE …]`. A server with a scripted model
 * lives through a day of work; each page is shown in the light and the dark theme, and on a phone.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createClient, type RelayClient } from '@relay/sdk';
import { TestServer } from '../../support/server.ts';
import { closeBrowser, type ContextOptions, TestBrowser } from '../support/console.ts';
import { startModel, urlOf } from './model.ts';

const here = fileURLToPath(new URL('.', import.meta.url));
const images = fileURLToPath(new URL('../../../docs/images', import.meta.url));
const only = process.argv.slice(2);

const folder = mkdtempSync(join(tmpdir(), 'relay-screenshots-'));
// The pictures show its path. It must not exist yet.
const workspace = join(tmpdir(), 'acme');
const clock = join(folder, 'clock');
mkdirSync(workspace);
mkdirSync(join(workspace, 'tmp/cache'), { recursive: true });
writeFileSync(join(workspace, 'package.json'), '{ "name": "acme-app", "version": "2.4.0" }\n');
writeFileSync(join(workspace, 'CHANGELOG.md'), '# Changelog\n\n## 2.4.0\n\n- Faster exports\n');

/** Hours before now, for servers that start. */
function writeClock(hours: number): string {
  const text = String(Math.round(hours * 3_600_000));
  // At once: a server must not read a part of it.
  writeFileSync(`${clock}.next`, text);
  renameSync(`${clock}.next`, clock);
  return text;
}

/** Returns when the server has the time. */
async function setClock(hours: number): Promise<void> {
  const text = writeClock(hours);
  for (let left = 1_000; left > 0; left -= 1) {
    if (readFileSync(`${clock}.read`, 'utf8') === text) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error('The server did not set its clock');
}

const withClock = {
  NODE_OPTIONS: `--import=${join(here, 'clock.mjs')}`,
  SCREENSHOT_CLOCK: clock,
};

const shapes: Readonly<Record<string, ContextOptions>> = {
  light: { theme: 'light', width: 1_280, height: 800 },
  dark: { theme: 'dark', width: 1_280, height: 800 },
  phone: { theme: 'light', width: 375, height: 740 },
};

async function main(): Promise<void> {
  writeClock(22);
  const model = await startModel();
  const server = new TestServer({
    RELAY_CONFIG: join(here, 'relay.config.ts'),
    RELAY_PRIVATE_NETWORKS: '127.0.0.0/8',
    ...withClock,
  });
  try {
    await server.start();
    const operator = createClient({ baseUrl: server.url, apiKey: keyOfTenant(server) });
    const { apiKey } = await operator.keys.create({
      name: 'ada',
      owner: 'ada',
      scopes: ['runs', 'approve', 'admin'],
    });
    const ada = createClient({ baseUrl: server.url, apiKey });
    const pages = await liveThroughADay(server, ada, urlOf(model));
    await takeAll(server, apiKey, pages);
  } finally {
    await closeBrowser();
    await server.dispose();
    model.close();
    for (const each of [folder, workspace]) rmSync(each, { recursive: true, force: true });
  }
}

function keyOfTenant(server: TestServer): string {
  const args = ['packages/server/src/bootstrap.ts', '--tenant', 'acme', '--workspace', workspace];
  const output = execFileSync(process.execPath, [...args, '--json'], {
    env: { ...process.env, ...withClock, RELAY_DATA_DIR: server.dataDir },
    encoding: 'utf8',
  });
  return (JSON.parse(output) as { apiKey: string }).apiKey;
}

/** Returns the addresses of the pages. */
async function liveThroughADay(
  server: TestServer,
  client: RelayClient,
  baseUrl: string,
): Promise<Readonly<Record<string, string>>> {
  await client.credentials.put('openai', { apiKey: 'sk-screenshots', baseUrl });
  await client.keys.create({ name: 'ci', scopes: ['runs'], owner: 'ci' });
  const lin = await client.keys.create({ name: 'lin', scopes: ['approve'], owner: 'lin' });
  const person = createClient({ baseUrl: server.url, apiKey: lin.apiKey });
  await client.policy.put({
    version: 0,
    allow: [{ tool: 'read' }, { tool: 'patch', params: { filePath: '*.md' } }],
    deny: [{ tool: 'bash', params: { command: 'git push --force*' } }],
    ask: [{ tool: 'bash', params: { command: 'npm publish*' } }, { tool: 'refund' }],
    approvers: [{ tool: 'bash', params: { command: 'npm publish*' }, quorum: 2 }],
  });
  await client.tenant.update({
    budgets: { tenant: { period: 'day', costUsd: 25, tokens: 5_000_000 } },
  });
  await client.webhooks.create({
    url: `${baseUrl}/hooks/approvals`,
    events: ['approval.requested', 'run.ended'],
  });
  for (const text of ['Releases happen on weekdays before 15:00', 'Invoices are in US dollars']) {
    await client.memories.add({ namespace: 'default', text });
  }

  const start = (agent: string, input: string) => client.runs.create({ agent, input });
  const decide = async (approve: boolean, reason?: string) => {
    for await (const { id } of client.approvals.list({ status: 'pending' })) {
      if (approve) await person.approvals.approve(id);
      else await person.approvals.deny(id, reason);
    }
  };
  const settle = async () => {
    const isOpen = ({ status }: { status: string }) => status === 'running' || status === 'queued';
    for (let left = 400; left > 0; left -= 1) {
      const { items } = await client.runs.list({ limit: 50 }).page();
      if (!items.some(isOpen)) return;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error('The runs did not settle');
  };

  const day = [
    ['support', 'Summarise the open tickets'],
    ['support', 'Why was invoice 1042 charged twice?'],
    ['support', 'Tell the team that 2.4.1 is out'],
    ['billing', 'Refund the duplicate of invoice 1042'],
  ] as const;
  for (let hour = 21; hour > 0; hour -= 1) {
    const runs = 1 + ((hour * 7) % 5);
    for (let nth = 0; nth < runs; nth += 1) {
      await setClock(hour - nth / 10);
      const [agent, input] = day[(hour + nth) % day.length] ?? day[0];
      await start(agent, input);
      await settle();
      await setClock(hour - nth / 10 - ((hour * 13 + nth * 5) % 9) / 100);
      await decide((hour + nth) % 6 !== 0, 'Not on Fridays');
      await settle();
    }
    if (hour % 8 === 0) await start('support', 'fail').catch(() => undefined);
  }

  await setClock(0.05);
  const told = await start('support', 'Why was invoice 1042 charged twice?');
  await settle();
  const release = await start('release', 'Release the fix from yesterday');
  await start('billing', 'Refund the duplicate of invoice 1042');
  await start('release', 'Roll out 2.4.1');
  await settle();

  const reviewer = await client.sessions.create({
    harness: 'native',
    handle: 'reviewer',
    agent: 'support',
    model: 'gpt-6-luna',
  });
  for (const handle of ['releases', 'night-shift']) {
    await client.sessions.create({
      harness: 'native',
      handle,
      agent: 'release',
      model: 'gpt-6-luna',
    });
  }
  const { identity } = await client.sessions.create({ harness: 'shell', handle: 'build-box' });
  await client.channels.put('releases', { topic: 'What goes out, and when' });
  for (const handle of ['reviewer', 'releases'])
    await client.channels.addMember('releases', handle);
  await client.messages.send({ to: '@reviewer', text: 'Summarise the open tickets' });
  await client.messages.send({ to: '@releases', text: 'Roll out 2.4.1' });
  await client.messages.send({
    to: '#releases',
    text: `@${identity.handle} is ready for the build`,
  });
  await settle();
  await setClock(0);

  const [approval] = (await client.approvals.list({ runId: release.id }).page()).items;
  const asks = await client.approvals.list({ kind: 'question' }).page();
  const run = await client.runs.get(told.id);
  return {
    'sign-in': '/login',
    inbox: `/inbox/${approval?.id ?? ''}`,
    question: `/inbox/${asks.items[0]?.id ?? ''}`,
    runs: '/runs',
    run: `/runs/${release.id}`,
    sessions: '/sessions',
    session: `/sessions/${reviewer.id}`,
    chat: `/chat/${run.conversationId}`,
    overview: '/overview',
    policy: '/policy',
    audit: '/audit',
    settings: '/settings/keys',
  };
}

async function takeAll(
  server: TestServer,
  apiKey: string,
  pages: Readonly<Record<string, string>>,
): Promise<void> {
  mkdirSync(images, { recursive: true });
  for (const [shape, options] of Object.entries(shapes)) {
    const browser = new TestBrowser(server);
    const signedIn = await browser.signIn('/inbox', { ...options, apiKey });
    for (const [name, path] of Object.entries(pages)) {
      if (only.length > 0 && !only.includes(name)) continue;
      const page = name === 'sign-in' ? await browser.open(options) : signedIn;
      await page.goto(`/console${path}`);
      // The feed stays open, so the network is never idle.
      await page.waitForLoadState('load');
      if (name !== 'sign-in') await page.getByText('live', { exact: true }).waitFor();
      await page.waitForTimeout(1_200);
      for (const unfinished of ['[aria-label=Loading]', '[aria-busy=true]']) {
        await page.locator(unfinished).first().waitFor({ state: 'detached' });
      }
      // Charts are drawn after their numbers have come.
      await page.waitForTimeout(500);
      await page.screenshot({ path: join(images, `${name}-${shape}.png`) });
      console.log(`${name}-${shape}.png`);
    }
    if (browser.problems.length > 0) throw new Error(browser.problems.join('\n'));
    await browser.dispose();
  }
}

await main();
