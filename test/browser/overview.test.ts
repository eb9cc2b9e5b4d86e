/** The overview of the console, in a browser. */
import type { Stats } from '@relay/protocol/wire';
import { createClient } from '@relay/sdk';
import type { Page } from 'playwright-core';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { TestServer } from '../support/server.ts';
import { closeBrowser, inBrowser, startServer, TestBrowser } from './support/console.ts';

const server = new TestServer();
const browser = new TestBrowser(server);
const client = () => createClient({ baseUrl: server.url, apiKey: server.apiKey });

async function run(message: string): Promise<string> {
  const { id } = await client().runs.sendMessage({ message, model: 'demo' });
  return id;
}

/** The number of a tile. */
function tile(page: Page, label: string) {
  return page.locator('main ul a', { hasText: label });
}

startServer(server, async () => {
  const id = await run('calculate 23*47');
  await run('notify hello');
  await vi.waitFor(
    async () => {
      expect(await client().runs.get(id)).toMatchObject({ status: 'completed' });
      const { items } = await client().approvals.list({ status: 'pending' }).page();
      expect(items).toHaveLength(1);
    },
    { timeout: 15_000 },
  );
});
afterAll(async () => {
  await browser.dispose();
  await closeBrowser();
  await server.dispose();
});

describe('The overview', inBrowser, () => {
  it(
    'says what happened as numbers, sentences, charts and tables',
    { timeout: 60_000 },
    async () => {
      const page = await browser.signIn('/overview?range=1h');
      await page.getByText('1 run ended: 1 completed.').waitFor();
      expect(await tile(page, 'Waiting now').textContent()).toContain('1');
      const chart = page
        .locator('section', { hasText: 'Runs that ended' })
        .locator('canvas')
        .first();
      await chart.waitFor();
      await page.getByRole('button', { name: 'Show Runs that ended as a table' }).click();
      const table = page.getByRole('region', { name: 'Runs that ended, as a table' });
      expect(await table.getByRole('row').count()).toBeGreaterThan(60);
      await page.getByRole('region', { name: 'Requests by tool' }).getByText('send_note').waitFor();
      await tile(page, 'Failed').click();
      expect(page.url()).toBe(`${server.url}/console/runs?status=failed&since=1h`);
    },
  );

  it('draws its charts in the colours of the theme that is chosen', async () => {
    const page = await browser.signIn('/overview');
    await page.locator('canvas').first().waitFor();
    const drawn = () => page.evaluate<string>(`document.querySelector('canvas').toDataURL()`);
    const light = await drawn();
    await page.getByRole('button', { name: 'Use the dark theme' }).click();
    await expect.poll(drawn).not.toBe(light);
  });

  it('keeps the numbers of the last range until those of the next have arrived', async () => {
    const page = await browser.signIn('/overview?range=24h');
    await page.getByText('1 run ended').waitFor();
    let answer: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (answer = resolve));
    await page.route('**/v1/stats*', async (route) => {
      await held;
      await route.continue();
    });
    await page.getByRole('link', { name: '7 d' }).click();
    await page.getByText('Reading the last 7 days … still showing the last 24 hours').waitFor();
    expect(await page.getByText('1 run ended').count()).toBe(1);
    answer();
    await page.getByText('Started in the last 7 days').waitFor();
    expect(page.url()).toBe(`${server.url}/console/overview?range=7d`);
  });

  it(
    'suggests a rule for what people approve, which a person must add, review and save',
    { timeout: 60_000 },
    async () => {
      const page = await browser.signIn('/inbox');
      await page.route('**/v1/stats*', async (route) => {
        const stats = (await (await route.fetch()).json()) as Stats;
        const suggestedRule = { tool: 'send_note', params: { to: 'ops*' } };
        const tools = stats.tools.map((tool) => ({ ...tool, suggestedRule }));
        await route.fulfill({ json: { ...stats, tools } });
      });
      await page.goto('/console/overview');
      await page.getByRole('link', { name: 'Allow this …' }).click();
      await page.getByText('Suggested for Allow').waitFor();
      await page.getByRole('button', { name: 'Add it to the draft' }).click();
      await page.getByText('Not saved: 1 added').waitFor();
      expect(page.url()).toBe(`${server.url}/console/policy`);
      expect(await client().policy.get()).toMatchObject({ version: 0, allow: [] });
    },
  );

  it(
    'does not compute the statistics again for each run that changes',
    { timeout: 60_000 },
    async () => {
      const page = await browser.signIn('/overview');
      await page.getByText('live', { exact: true }).waitFor();
      await page.getByText('1 run ended').waitFor();
      let read = 0;
      page.on('request', (request) => {
        if (request.url().includes('/v1/stats')) read += 1;
      });
      for (let count = 2; count <= 5; count += 1) {
        // The badge of the inbox shows that the page has received each change.
        await run(`notify hello ${count}`);
        await page
          .getByRole('link', { name: `Inbox ${count}` })
          .first()
          .waitFor();
      }
      expect(read).toBeLessThanOrEqual(1);
    },
  );

  it('reports no violation of the content security policy', () => {
    expect(browser.problems).toEqual([]);
  });
});
