/** What models and tools write is shown and does nothing: no script runs, no request leaves the page. */
import { startScriptedProvider, type ScriptedProvider } from '@relay/models/testing';
import { createClient, type RelayClient, type RunTool } from '@relay/sdk';
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { calls, says } from '../conformance/scripted.ts';
import { TestServer } from '../support/server.ts';
import { closeBrowser, inBrowser, startServer, TestBrowser } from './support/console.ts';

const elsewhere = 'https://elsewhere.example';

const hostile = `# Title

<script>window.attacked = 1</script>

<img src="${elsewhere}/img.png" onerror="window.attacked = 2">

<iframe src="${elsewhere}/frame"></iframe> <style>@import url(${elsewhere}/style.css);</style>

![A picture](${elsewhere}/picture.png)

[Run me](javascript:window.attacked=3) and [data](data:text/html,<script>window.attacked=4</script>)

[bank.example](${elsewhere}/login?from=bank.example)

Safe: annexe\u202Eexe.gpj\u202C and pay\u200Bpal`;

describe('Hostile output in the console', inBrowser, () => {
  const server = new TestServer({ RELAY_PRIVATE_NETWORKS: '127.0.0.0/8' });
  let provider: ScriptedProvider;
  let client: RelayClient;
  let browser: TestBrowser;
  /** Requests to other servers, windows and dialogs that pages opened. */
  let escapes: string[] = [];

  beforeAll(async () => {
    provider = await startScriptedProvider(says('Hello'));
  });
  startServer(server, async () => {
    client = createClient({ baseUrl: server.url, apiKey: server.apiKey });
    await client.credentials.put('openai', {
      apiKey: 'sk-0123456789abcdef',
      baseUrl: provider.baseUrl,
    });
  });
  beforeEach(() => {
    browser = new TestBrowser(server);
    escapes = [];
  });
  afterEach(async () => {
    await browser.dispose();
    expect(browser.problems).toEqual([]);
    expect(escapes).toEqual([]);
  });
  afterAll(async () => {
    await closeBrowser();
    await server.dispose();
    await provider.close();
  });

  async function open(path: string): Promise<Page> {
    const page = await browser.signIn();
    page.on('request', (request) => {
      if (!request.url().startsWith(server.url)) escapes.push(request.url());
    });
    page.on('popup', (popup) => escapes.push(popup.url()));
    page.on('dialog', (dialog) => escapes.push(dialog.message()));
    await page.goto(`/console${path}`);
    return page;
  }

  async function answered(text: string): Promise<string> {
    provider.script(says(text));
    const run = await client.runs.create({ model: 'gpt-4o-mini', input: 'Go' });
    await run.result();
    return run.id;
  }

  async function attacked(page: Page): Promise<unknown> {
    return page.evaluate(() => Reflect.get(globalThis, 'attacked'));
  }

  it('is inert as Markdown', { timeout: 60_000 }, async () => {
    const runId = await answered(hostile);
    const page = await open(`/runs/${runId}`);
    const panel = page.getByRole('main');
    await panel.getByRole('heading', { name: 'Title' }).waitFor();
    await panel.getByText('<script>').first().waitFor();
    expect(await page.locator('main :is(img, iframe, object, embed, script, style)').count()).toBe(
      0,
    );
    expect(
      await page.locator(`main a[href*="elsewhere"], main a[href^="javascript"]`).count(),
    ).toBe(0);
    // Hidden characters are drawn, and not there.
    await panel.getByText('U+202E RLO').first().waitFor();
    await panel.getByText('U+200B ZWSP').first().waitFor();
    expect(await panel.innerText()).not.toMatch(/[\u202E\u200B]/);
    // Nothing happens by a click on what is no address of the web.
    await panel.getByText('Run me').first().click();
    await panel.getByText('A picture').first().click();
    expect(await attacked(page)).toBeUndefined();

    // The whole address is shown before it can be opened.
    await panel.getByRole('button', { name: 'bank.example' }).click();
    const link = page.getByRole('dialog').getByRole('link', { name: 'Open in a new tab' });
    expect(await link.getAttribute('href')).toBe(`${elsewhere}/login?from=bank.example`);
    expect(await link.getAttribute('rel')).toBe('noopener noreferrer nofollow');
    await page.getByRole('dialog').getByText(`${elsewhere}/login?from=bank.example`).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
  });

  it.each([
    ['a line of 1 MB', 'x'.repeat(1_000_000)],
    ['10,000 nested quotes', `${'>'.repeat(10_000)} deep`],
    ['10,000 nested lists', `${'- '.repeat(10_000)}deep`],
    ['100,000 hidden characters', '\u200B\u202E'.repeat(50_000)],
    [
      'a table of 5,000 columns',
      `${'|a'.repeat(5_000)}\n${'|-'.repeat(5_000)}\n${'|b\n'.repeat(500)}`,
    ],
  ])('leaves the page usable with %s', { timeout: 60_000 }, async (_, text) => {
    const runId = await answered(text);
    const page = await open(`/runs/${runId}`);
    await page
      .getByText(/characters are not shown|U\+200B|deep/)
      .first()
      .waitFor();
    await page.getByRole('tab', { name: 'All events' }).click();
    await page.getByText('run.ended', { exact: true }).first().waitFor();
    await page.getByRole('link', { name: 'Inbox' }).first().click();
    await page.waitForURL(/\/inbox/);
    expect(await page.locator('*').count()).toBeLessThan(20_000);
  });

  it(
    'is shown as it would run in the inbox, also if it is nested deeply',
    { timeout: 60_000 },
    async () => {
      let deep: unknown = '<img src=x onerror="window.attacked=5">';
      for (let level = 0; level < 50; level += 1) deep = level % 2 === 0 ? [deep] : { deep };
      const input = {
        command: 'cat annexe\u202Eexe.gpj',
        url: `https://bank.example@elsewhere.example/pay`,
        '<b>name</b>': 'x'.repeat(200_000),
        deep,
      };
      const tool: RunTool = {
        kind: 'function',
        name: 'deploy',
        inputSchema: { type: 'object' },
        needsApproval: true,
      };
      provider.script(calls({ id: 'call_1', name: 'deploy', input }));
      const run = await client.runs.create({ model: 'gpt-4o-mini', input: 'Go', tools: [tool] });
      await run.detach();
      await expect
        .poll(async () => (await client.approvals.list({ status: 'pending' }).page()).items.length)
        .toBe(1);
      const [approval] = (await client.approvals.list({ status: 'pending' }).page()).items;
      const page = await open(`/inbox/${approval?.id}`);
      const card = page.getByRole('article', { name: 'Approval of deploy' });
      await card.getByText('U+202E RLO').first().waitFor();
      await card.getByText('reverse the direction of text').first().waitFor();
      await card.locator('strong', { hasText: /^elsewhere\.example$/ }).waitFor();
      await card.getByText('<b>name</b>').first().waitFor();
      await card.getByText('of 200,000 characters are not shown').first().waitFor();
      expect(await page.locator('main :is(img, b, iframe)').count()).toBe(0);
      expect(await attacked(page)).toBeUndefined();
      await client.approvals.deny(approval?.id ?? '', 'No');
      await card.getByText('Denied').first().waitFor();
    },
  );
});
