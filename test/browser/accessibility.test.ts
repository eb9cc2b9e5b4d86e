/** axe on every page of the console, in both themes, on a desktop and on a phone. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createClient } from '@relay/sdk';
import type { AxeResults } from 'axe-core';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { TestServer } from '../support/server.ts';
import { type ContextOptions, closeBrowser, inBrowser, TestBrowser } from './support/console.ts';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const server = new TestServer();
const browser = new TestBrowser(server);
const client = () => createClient({ baseUrl: server.url, apiKey: server.apiKey });
/** Of what the pages show. */
const ids = {
  completed: '',
  waiting: '',
  approval: '',
  question: '',
  session: '',
  conversation: '',
};

async function run(message: string) {
  const { id } = await client().runs.sendMessage({ message, model: 'demo' });
  return id;
}

/** A page with at least one of everything. */
async function fill(): Promise<void> {
  ids.completed = await run('calculate 23*47');
  await run('fail 500');
  const decided = await run('notify done');
  await pending(1);
  const [first] = (await client().approvals.list({ runId: decided }).page()).items;
  if (first !== undefined) await client().approvals.deny(first.id, 'Not on Fridays');
  ids.waiting = await run('notify hello');
  await client().sessions.create({ harness: 'native', handle: 'ada', model: 'demo' });
  const [session] = (await client().sessions.list().page()).items;
  ids.session = session?.id ?? '';
  await client().messages.send({ to: '@ada', text: 'calculate 6*7' });
  await client().grants.create({ tool: 'send_note', params: { to: 'ops' }, scope: 'tenant' });
  await client().policy.put({ version: 0, deny: [{ tool: 'bash', params: { command: 'rm *' } }] });
  await client().webhooks.create({
    url: 'https://example.com/hook',
    events: ['approval.requested'],
  });
  await client().memories.add({ namespace: 'notes', text: 'Releases are on Mondays' });
  await client().credentials.put('openai', { apiKey: 'sk-test' });
  [ids.approval] = await pending(1);
  await vi.waitFor(async () => {
    const { status, conversationId } = await client().runs.get(ids.completed);
    expect(status).toBe('completed');
    ids.conversation = conversationId;
  });
}

/** The ids of the approvals that wait, once there are so many. */
async function pending(count: number): Promise<[string, ...string[]]> {
  return vi.waitFor(
    async () => {
      const { items } = await client().approvals.list({ status: 'pending' }).page();
      expect(items).toHaveLength(count);
      return items.map(({ id }) => id) as [string, ...string[]];
    },
    { timeout: 15_000 },
  );
}

/** Each with the text that shows that it is complete. */
const pages: readonly (readonly [path: () => string, text: string | RegExp])[] = [
  [() => '/inbox', 'send_note'],
  [() => `/inbox/${ids.approval}`, 'Approve once'],
  [() => '/inbox?tab=decided', 'send_note'],
  [() => '/runs', 'assistant'],
  [() => `/runs/${ids.completed}`, '23 * 47 is 1081.'],
  [() => `/runs/${ids.completed}?tab=events`, 'Events'],
  [() => `/runs/${ids.waiting}`, 'send_note'],
  [() => '/sessions', '@ada'],
  [() => `/sessions/${ids.session}`, '6 * 7 is 42.'],
  [() => '/chat', 'Chat'],
  [() => `/chat/${ids.conversation}`, 'Chat'],
  [() => '/overview', 'Requests by tool'],
  [() => '/policy', 'rm *'],
  [() => '/policy/history', 'Version'],
  [() => '/policy/tester', 'Tester'],
  [() => '/policy/grants', 'send_note'],
  [() => '/audit', 'Audit'],
  [() => '/settings', 'bootstrap'],
  [() => '/settings/keys', 'bootstrap'],
  [() => '/settings/credentials', 'openai'],
  [() => '/settings/webhooks', 'example.com'],
  [() => '/settings/memories', 'notes'],
  [() => '/settings/budgets', 'Budget'],
  [() => '/settings/pause', 'Pause'],
  [() => '/nowhere', 'There is no page at this address'],
];

/** What is serious or critical, with where it is. Only the contrast depends on the theme. */
async function issues(page: Page): Promise<string[]> {
  await page.evaluate(axe);
  await page.emulateMedia({ colorScheme: 'light' });
  const light = await page.evaluate<AxeResults>('axe.run(document)');
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.locator('[data-theme=dark]').waitFor();
  const dark = await page.evaluate<AxeResults>(`axe.run(document, { runOnly: 'color-contrast' })`);
  return [...light.violations, ...dark.violations]
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) =>
      nodes.map(({ html, any, all }) => {
        const why = [...any, ...all].map(({ message }) => message).join('; ');
        return `${id}: ${html.slice(0, 200)} (${why})`;
      }),
    );
}

type Found = Record<string, string[]>;

async function look(page: Page, found: Found, path: string, text: string | RegExp) {
  await page.goto(`/console${path}`);
  // Some of what a page shows is there twice, for another width.
  await page.getByText(text).filter({ visible: true }).first().waitFor();
  await page.locator('[aria-label=Loading]').first().waitFor({ state: 'detached' });
  const here = await issues(page);
  if (here.length > 0) found[path] = here;
}

const looks: readonly (readonly [string, ContextOptions])[] = [
  ['on a desktop', {}],
  ['on a phone', { width: 375, height: 812 }],
];

beforeAll(() => server.start());
afterAll(async () => {
  await browser.dispose();
  await closeBrowser();
  await server.dispose();
});

describe('Pages of the console', { ...inBrowser, timeout: 120_000 }, () => {
  it.each(looks)(
    'have no serious accessibility issue before anything has happened %s',
    async (_, options) => {
      const found: Found = {};
      await look(await browser.open(options), found, '/login', 'Sign in to Relay');
      const page = await browser.signIn('/inbox', options);
      await look(page, found, '/inbox', 'Nothing waits for you');
      await look(page, found, '/overview', 'Nothing happened');
      await look(page, found, '/runs', 'Runs');
      await look(page, found, '/sessions', 'Start a demo session');
      await look(page, found, '/chat', 'Chat');
      expect(found).toEqual({});
    },
  );

  it.each(looks)('have no serious accessibility issue with data %s', async (_, options) => {
    if (ids.completed === '') await fill();
    const found: Found = {};
    const page = await browser.signIn('/inbox', options);
    for (const [path, text] of pages) await look(page, found, path(), text);
    expect(found).toEqual({});
  });

  it('put a link to the content first, and lead a keyboard through navigation and page', async () => {
    const page = await browser.signIn('/overview');
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    await page.keyboard.press('Tab');
    const skip = page.getByRole('link', { name: 'Skip to the page' });
    expect(await skip.isVisible()).toBe(true);
    await page.keyboard.press('Enter');
    expect(await page.evaluate('document.activeElement.id')).toBe('page');
  });
});
