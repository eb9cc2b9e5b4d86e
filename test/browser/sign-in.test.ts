/** Signing in to the console and out, in a browser. */
import { createClient } from '@relay/sdk';
import { afterAll, describe, expect, it } from 'vitest';
import { TestServer } from '../support/server.ts';
import { closeBrowser, inBrowser, startServer, TestBrowser } from './support/console.ts';

const server = new TestServer();
const browser = new TestBrowser(server);

startServer(server);
afterAll(async () => {
  await browser.dispose();
  await closeBrowser();
  await server.dispose();
});

const admin = () => createClient({ baseUrl: server.url, apiKey: server.apiKey });

describe('Signing in to the console', inBrowser, () => {
  it('works once with a login link, which leaves the address', { timeout: 60_000 }, async () => {
    const { url } = await admin().console.link();
    const page = await browser.open();
    await page.goto(url);
    await page.getByRole('heading', { name: 'Inbox' }).waitFor();
    expect(page.url()).toBe(`${server.url}/console/inbox`);
    expect(await page.evaluate('document.cookie')).not.toContain('relay_console');
    const other = await browser.open();
    await other.goto(url);
    await other.getByText('This login link is not valid').waitFor();
    expect(other.url()).toBe(`${server.url}/console/login`);
  });

  it('does not keep asking the server who is signed in', async () => {
    const page = await browser.open();
    let asked = 0;
    page.on('request', (request) => {
      if (request.url().endsWith('/v1/keys/current')) asked += 1;
    });
    await page.goto('/');
    await page.getByRole('heading', { name: 'Sign in to Relay' }).waitFor();
    await page.waitForLoadState('networkidle');
    expect(page.url()).toBe(`${server.url}/console/`);
    expect(asked).toBeLessThanOrEqual(2);
    expect(await page.getByRole('status').count()).toBe(0);
  });

  it('with a link asks a person first who is signed in already, and then changes every tab', async () => {
    const ada = await admin().keys.create({ name: 'ada', role: 'viewer' });
    const bob = await admin().keys.create({ name: 'bob', role: 'viewer' });
    const first = await browser.signIn('/settings', { apiKey: ada.apiKey });
    const accountIn = (page: typeof first, name: string) =>
      page.getByRole('main').getByText(name, { exact: true }).first();
    await accountIn(first, 'ada').waitFor();
    const asBob = createClient({ baseUrl: server.url, apiKey: bob.apiKey });
    const second = await first.context().newPage();
    await second.goto((await asBob.console.link()).url);
    await second.getByText('You are signed in as ada').waitFor();
    await second.getByRole('button', { name: 'Stay signed in as ada' }).click();
    await second.getByRole('heading', { name: 'Inbox' }).waitFor();
    await second.goto((await asBob.console.link()).url);
    await second.getByRole('button', { name: 'Sign in with the link' }).click();
    await second.getByRole('heading', { name: 'Inbox' }).waitFor();
    // No tab goes on showing what the other person could see.
    await accountIn(first, 'bob').waitFor();
  });

  it('ends on an open page when its key is revoked, and the page says so', async () => {
    const { id, apiKey } = await admin().keys.create({ name: 'ada', role: 'viewer' });
    const page = await browser.signIn('/inbox', { apiKey });
    await page.getByRole('heading', { name: 'Inbox' }).waitFor();
    await admin().keys.revoke(id);
    await page.getByText('Your sign-in has ended').waitFor();
    await page.goto('/console/settings');
    await page.getByRole('heading', { name: 'Sign in to Relay' }).waitFor();
  });

  it('reports no violation of its content security policy', () => {
    expect(browser.problems).toEqual([]);
  });
});
