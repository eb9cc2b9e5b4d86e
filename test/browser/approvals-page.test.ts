/** The page of the guide “Approvals in your own page”, in Chromium. */
import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createClient, type RelayClient } from '@relay/sdk';
import { type Browser, chromium } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createPage } from '../../examples/approvals-page/server.ts';
import { TestServer } from '../support/server.ts';
import { executablePath, inBrowser } from './support/console.ts';

describe('the page of the guide', inBrowser, () => {
  const server = new TestServer();
  let client: RelayClient;
  let page: Server;
  let url: string;
  let browser: Browser;

  beforeAll(async () => {
    await server.start();
    client = createClient({ baseUrl: server.url, apiKey: server.apiKey });
    const { apiKey } = await client.keys.create({ name: 'Ada', owner: 'ada', role: 'approver' });
    page = createPage({ relayUrl: server.url, people: { ada: { password: 'secret', apiKey } } });
    await once(page.listen(0, '127.0.0.1'), 'listening');
    url = `http://127.0.0.1:${(page.address() as AddressInfo).port}`;
    browser = await chromium.launch({
      executablePath: executablePath ?? '',
      args: ['--no-sandbox', '--disable-gpu'],
    });
  });
  afterAll(async () => {
    await browser.close();
    page.closeAllConnections();
    page.close();
    await server.dispose();
  });

  const start = (text: string) =>
    client.runs.create({
      model: 'demo',
      input: `notify ${text}`,
      tools: [{ name: 'send_note', kind: 'builtin' }],
    });

  test('shows a new request without a reload, and decides it as the person', async () => {
    const httpCredentials = { username: 'ada', password: 'secret' };
    const tab = await (await browser.newContext({ httpCredentials })).newPage();
    await tab.goto(url);
    await tab.getByText('Nothing waits for you.').waitFor();
    const approved = await start('<b>the build</b> is green');
    const card = (text: string) => tab.getByRole('article').filter({ hasText: text });
    const article = card('<b>the build</b> is green');
    await article.getByRole('button', { name: 'Approve' }).click();
    expect(await approved.text()).toBe('The note was sent.');
    await tab.getByText('Nothing waits for you.').waitFor();

    const denied = await start('everything is lost');
    await card('everything is lost').getByRole('textbox').fill('Not on a Friday');
    await card('everything is lost').getByRole('button', { name: 'Deny' }).click();
    await denied.result();
    expect(server.notes.map(({ text }) => text)).toEqual(['<b>the build</b> is green']);
    const { items } = await client.approvals.list({ status: 'denied' }).page();
    expect(items[0]).toMatchObject({ reason: 'Not on a Friday', decidedBy: { owner: 'ada' } });
  });

  test('marks what was decided elsewhere, moves nothing, and hides it on request', async () => {
    const httpCredentials = { username: 'ada', password: 'secret' };
    const tab = await (await browser.newContext({ httpCredentials })).newPage();
    await tab.goto(url);
    const first = await start('decide me elsewhere');
    const upper = tab.getByRole('article').filter({ hasText: 'decide me elsewhere' });
    await upper.waitFor();
    const second = await start('stay in place');
    const lower = tab.getByRole('article').filter({ hasText: 'stay in place' });
    await lower.waitFor();
    const before = await lower.boundingBox();
    const { items } = await client.approvals.list({ status: 'pending', runId: first.id }).page();
    await client.approvals.approve(items[0]?.id ?? '');
    await upper.getByText('It is decided.').waitFor();
    expect(await upper.getByRole('button', { name: 'Approve' }).isDisabled()).toBe(true);
    expect(await lower.boundingBox()).toEqual(before);
    await tab.getByRole('button', { name: 'Hide decided ones' }).click();
    expect(await tab.getByRole('article').count()).toBe(1);
    await lower.getByRole('button', { name: 'Approve' }).click();
    await tab.getByText('Nothing waits for you.').waitFor();
    await Promise.all([first.result(), second.result()]);
  });

  test('draws a request again whose arguments another approver has changed', async () => {
    const httpCredentials = { username: 'ada', password: 'secret' };
    const tab = await (await browser.newContext({ httpCredentials })).newPage();
    const asked = { id: 'one', tool: 'send_note', digest: 'a', display: { text: 'as asked' } };
    const edited = { ...asked, executedDigest: 'b', display: { text: 'as edited' } };
    const lists = [[asked], [edited]];
    await tab.route('**/approvals', (route) => route.fulfill({ json: lists.shift() ?? [edited] }));
    const sent: unknown[] = [];
    await tab.route('**/approvals/one', (route) => {
      sent.push(route.request().postDataJSON());
      return route.fulfill({ json: {} });
    });
    await tab.goto(url);
    await tab.getByText('as edited').or(tab.getByText('as asked')).waitFor();
    // Something changes.
    const run = await start('a change');
    await tab.getByText('Another approver has changed the arguments.').waitFor();
    expect(await tab.getByText('as asked').count()).toBe(0);
    await tab.getByRole('button', { name: 'Approve' }).click();
    await expect.poll(() => sent).toEqual([{ approved: true, digest: 'b' }]);
    await run.cancel();
  });

  test('is closed to callers without a password, and to forms of other sites', async () => {
    expect((await fetch(`${url}/approvals`)).status).toBe(401);
    const authorization = `Basic ${Buffer.from('ada:secret').toString('base64')}`;
    const form = await fetch(`${url}/approvals/x`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'text/plain' },
      body: '{"approved": true}',
    });
    expect(form.status).toBe(415);
    const wrong = `Basic ${Buffer.from('ada:wrong!').toString('base64')}`;
    expect((await fetch(url, { headers: { authorization: wrong } })).status).toBe(401);
  });
});
