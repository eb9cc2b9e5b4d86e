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
    const article = tab.getByRole('article');
    await article.getByText('<b>the build</b> is green').waitFor();
    await article.getByRole('button', { name: 'Approve' }).click();
    expect(await approved.text()).toBe('The note was sent.');
    await tab.getByText('Nothing waits for you.').waitFor();

    const denied = await start('everything is lost');
    await article.getByText('everything is lost').waitFor();
    await article.getByRole('textbox').fill('Not on a Friday');
    await article.getByRole('button', { name: 'Deny' }).click();
    await denied.result();
    expect(server.notes.map(({ text }) => text)).toEqual(['<b>the build</b> is green']);
    const { items } = await client.approvals.list({ status: 'denied' }).page();
    expect(items[0]).toMatchObject({ reason: 'Not on a Friday', decidedBy: { owner: 'ada' } });
  });

  test('removes what was decided elsewhere', async () => {
    const httpCredentials = { username: 'ada', password: 'secret' };
    const tab = await (await browser.newContext({ httpCredentials })).newPage();
    const run = await start('decide me elsewhere');
    await tab.goto(url);
    await tab.getByText('decide me elsewhere').waitFor();
    const { items } = await client.approvals.list({ status: 'pending' }).page();
    await client.approvals.approve(items[0]?.id ?? '');
    await tab.getByText('Nothing waits for you.').waitFor();
    await run.result();
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
