/** The first minutes with Relay, in a browser: from a fresh server to a run that outlives it. */
import { createClient } from '@relay/sdk';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TestServer } from '../support/server.ts';
import { closeBrowser, inBrowser, TestBrowser } from './support/console.ts';

const server = new TestServer();
const browser = new TestBrowser(server);

beforeAll(() => server.start());
afterAll(async () => {
  await browser.dispose();
  await closeBrowser();
  await server.dispose();
});

const admin = () => createClient({ baseUrl: server.url, apiKey: server.apiKey });

/** A step of the checklist, once it is in this state. */
async function step(page: Page, title: string, state: 'done' | 'not done yet'): Promise<void> {
  await page.getByRole('heading', { name: `${title} (${state})` }).waitFor();
}

async function openOverview(page: Page): Promise<void> {
  await page.getByRole('link', { name: 'Overview' }).first().click();
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
}

/** Decides the only request that waits, on its card. */
async function approve(page: Page): Promise<void> {
  await page.getByRole('link', { name: 'Inbox' }).first().click();
  await page
    .getByRole('link', { name: /send_note/ })
    .first()
    .click();
  await page.getByRole('button', { name: /Approve once/ }).click();
}

describe('The first start', inBrowser, () => {
  let page: Page;

  it(
    'leads from a login link to the first approval by a checklist',
    { timeout: 90_000 },
    async () => {
      page = await browser.open();
      await page.goto((await admin().console.link()).url);
      await step(page, 'Start a run with the demo model', 'not done yet');
      await page.getByRole('button', { name: 'Start a run', exact: true }).click();
      await approve(page);
      await expect
        .poll(() => server.notes.map(({ text }) => text))
        .toEqual(['Hello from the checklist']);
      await openOverview(page);
      await step(page, 'Start a run with the demo model', 'done');
      await step(page, 'Approve what it asks for', 'done');
    },
  );

  it('marks the step of the timeline when the page of a run was opened', async () => {
    await step(page, 'See its timeline', 'not done yet');
    await page.getByRole('link', { name: 'Open the run' }).click();
    await page.waitForURL('**/console/runs/*');
    await page.goBack();
    await step(page, 'See its timeline', 'done');
    await page.reload();
    await step(page, 'See its timeline', 'done');
    expect(await page.evaluate('localStorage.length + sessionStorage.length')).toBe(0);
  });

  it(
    'recovers by itself when the server is killed and started again, and a run that waited continues',
    { timeout: 90_000 },
    async () => {
      await page.evaluate('document.loadedOnce = true');
      await page.getByRole('button', { name: 'Start a run that waits' }).click();
      await page.getByRole('link', { name: 'Open the inbox' }).waitFor();
      const { port } = new URL(server.url);
      await page.getByText('live', { exact: true }).waitFor();
      await server.kill();
      await page.getByText('reconnecting', { exact: true }).waitFor();
      await step(page, 'Kill the server, and watch a run continue', 'not done yet');
      await server.start({ RELAY_PORT: port });
      await page.getByText('live', { exact: true }).waitFor();
      await page.getByText('and the run still waits').waitFor();
      await approve(page);
      await expect.poll(() => server.notes).toHaveLength(2);
      await openOverview(page);
      await step(page, 'Kill the server, and watch a run continue', 'done');
      expect(await page.evaluate('document.loadedOnce')).toBe(true);
    },
  );

  it('marks the steps of the provider and the rule, and ends when it is dismissed', async () => {
    await step(page, 'Connect a model provider', 'not done yet');
    await admin().credentials.put('openai', { apiKey: 'sk-test' });
    await admin().policy.put({ version: 0, deny: [{ tool: 'bash', params: { command: 'rm *' } }] });
    await page.reload();
    await step(page, 'Connect a model provider', 'done');
    await step(page, 'Make a rule', 'done');
    await page.getByRole('heading', { name: 'You have seen how Relay works' }).waitFor();
    await page.getByRole('button', { name: 'Hide the checklist' }).click();
    await page.reload();
    await page.getByRole('heading', { name: 'Runs that ended' }).waitFor();
    expect(await page.getByRole('heading', { name: 'Make a rule' }).count()).toBe(0);
  });

  it('shows nothing of the data after signing out, also not by going back', async () => {
    await page.getByText('2 runs ended').waitFor();
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox').fill('sign out');
    await page.keyboard.press('Enter');
    await page.waitForURL('**/console/login');
    await page.goBack();
    await page.getByRole('heading', { name: 'Sign in to Relay' }).waitFor();
    expect(await page.getByText('2 runs ended').count()).toBe(0);
  });

  it('explains a wrong key, and signs in with a valid one to the page that was asked for', async () => {
    await page.goto('/console/runs');
    await page.getByLabel('API key').fill('relay_live_wrong');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('This key is not valid').waitFor();
    await page.getByLabel('API key').fill(server.apiKey);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: 'Runs' }).first().waitFor();
    expect(page.url()).toBe(`${server.url}/console/runs`);
  });

  it('reports no violation of the content security policy', () => {
    expect(browser.problems).toEqual([]);
  });
});
