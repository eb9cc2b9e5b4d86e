/** Sessions in the console: the board, the page of a session, its terminal, and channels. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createClient, type RelayClient } from '@relay/sdk';
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TestServer } from '../support/server.ts';
import { closeBrowser, inBrowser, startServer, TestBrowser } from './support/console.ts';

const config = fileURLToPath(new URL('../support/configs/terminal.config.ts', import.meta.url));
const root = fileURLToPath(new URL('../..', import.meta.url));

describe('Sessions in the console', { ...inBrowser, timeout: 60_000 }, () => {
  const workspace = realpathSync(mkdtempSync(join(tmpdir(), 'relay-console-')));
  const server = new TestServer({
    RELAY_CONFIG: config,
    RELAY_WORKSPACE: workspace,
    RELAY_SANDBOX: 'off',
  });
  let client: RelayClient;
  let browser: TestBrowser;
  let handles = 0;

  startServer(server, () => {
    client = createClient({ baseUrl: server.url, apiKey: server.apiKey });
  });
  beforeEach(() => {
    browser = new TestBrowser(server);
  });
  afterEach(async () => {
    await browser.dispose();
    expect(browser.problems).toEqual([]);
  });
  afterAll(async () => {
    await closeBrowser();
    await server.dispose();
    rmSync(workspace, { recursive: true, force: true });
  });

  async function started(harness = 'native') {
    handles += 1;
    const handle = `agent-${handles}`;
    const model = harness === 'native' ? { model: 'demo' } : {};
    return client.sessions.create({ harness, handle, ...model });
  }

  /** The receipt of the message with a text. */
  function receipt(page: Page, text: string) {
    return message(page, text).locator('[data-receipt]');
  }

  function message(page: Page, text: string) {
    return page.getByRole('article').filter({ hasText: text });
  }

  it('start with a demo session, whose messages are stored and then read', async () => {
    const page = await browser.signIn('/sessions');
    await page.getByRole('button', { name: 'Start a demo session' }).click();
    await page.getByRole('heading', { name: '@demo' }).waitFor();
    const composer = page.getByRole('textbox', { name: 'Message to @demo' });
    await composer.and(page.locator(':focus')).waitFor();
    await composer.fill('calculate 23*47');
    await page.getByRole('button', { name: 'Send' }).click();
    await receipt(page, 'calculate 23*47').and(page.locator('[data-receipt=read]')).waitFor();
    // The final answer is there once, as the message that was sent.
    await message(page, '23 * 47 is 1081.').waitFor();
    await expect.poll(() => page.getByText('23 * 47 is 1081.').count()).toBe(1);
    await page.getByText('calculator').waitFor();

    // It is stored while the session works on something else, and read afterwards.
    await client.messages.send({ to: '@demo', text: 'notify first' });
    await page.getByText('This session waits for your decision').waitFor();
    await page.getByRole('textbox', { name: 'Message to @demo' }).fill('say 2 afterwards');
    await page.keyboard.press('Enter');
    await receipt(page, 'say 2 afterwards').and(page.locator('[data-receipt=one]')).waitFor();
    const { items: approvals } = await client.approvals.list({ status: 'pending' }).page();
    const asked = page.locator(`[data-approval="${approvals[0]?.id}"]`);
    await asked.getByRole('button', { name: 'Approve once' }).click();
    await receipt(page, 'say 2 afterwards').and(page.locator('[data-receipt=read]')).waitFor();
    await page.getByText('This session waits for your decision').waitFor({ state: 'detached' });
  });

  it('are started with a handle and a title, and stand on the board by what they do', async () => {
    const page = await browser.signIn('/sessions');
    await page.getByRole('button', { name: 'Start a session' }).click();
    await page.getByLabel('Handle').fill('planner');
    await page.getByLabel('Title (optional)').fill('Plan the release');
    await page.getByRole('button', { name: 'Start', exact: true }).click();
    await page.getByRole('heading', { name: '@planner' }).waitFor();
    await page.goto('/console/sessions?q=planner');
    const card = (column: string) =>
      page.getByRole('region', { name: column }).getByRole('link', { name: /@planner/ });
    await card('Idle').getByText('Plan the release').waitFor();
    await client.messages.send({ to: '@planner', text: 'notify hello' });
    await card('Needs input').getByText('send_note').waitFor();
    const count = page.getByRole('navigation', { name: 'Pages' }).first();
    await count.getByRole('link', { name: /Sessions\s*1/ }).waitFor();
    const planner = (await client.sessions.list().page()).items.find(
      ({ identity }) => identity.handle === 'planner',
    );
    await client.sessions.release(planner?.id ?? '');
    await card('Ended').waitFor();
  });

  it('have a queue whose messages are edited, delivered and withdrawn', async () => {
    const { id, identity } = await started();
    const page = await browser.signIn(`/sessions/${id}`);
    const box = page.getByRole('textbox', { name: `Message to @${identity.handle}` });
    await page.getByLabel('When it is delivered').selectOption('manual');
    await box.fill('say 1 by hand');
    await page.getByRole('button', { name: 'Send' }).click();
    await receipt(page, 'say 1 by hand').waitFor();
    await box.fill('never mind');
    await page.getByRole('button', { name: 'Send' }).click();
    await receipt(page, 'never mind').waitFor();

    await page.getByRole('link', { name: /Queue\s*2/ }).click();
    const queued = (text: string) => page.getByRole('article').filter({ hasText: text });
    await queued('never mind').getByRole('button', { name: 'Withdraw' }).click();
    await queued('never mind').waitFor({ state: 'detached' });
    await queued('by hand').getByRole('button', { name: 'Edit' }).click();
    await page.getByLabel('Text').fill('say 3 by hand, edited');
    await page.getByRole('button', { name: 'Save' }).click();
    await queued('say 3 by hand, edited').waitFor();
    await page.getByRole('button', { name: 'Deliver now' }).click();
    await page.getByText('The queue is empty').waitFor();

    await page.getByRole('link', { name: 'Conversation' }).click();
    await receipt(page, 'by hand, edited').and(page.locator('[data-receipt=read]')).waitFor();
    await message(page, '1 2 3').waitFor();
    expect(await receipt(page, 'never mind').textContent()).toContain('Withdrawn');
  });

  it('are paused, resumed and released, and what they cannot do is greyed with the reason', async () => {
    const { id, identity } = await started();
    const page = await browser.signIn(`/sessions/${id}`);
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.getByRole('button', { name: 'Resume' }).waitFor();
    await client.messages.send({ to: `@${identity.handle}`, text: 'say 2 later' });
    const waits = receipt(page, 'say 2 later').and(page.locator('[data-receipt=waits]'));
    await expect.poll(() => waits.getAttribute('title')).toBe('Waits: paused');
    await page.getByRole('button', { name: 'Resume' }).click();
    await receipt(page, 'say 2 later').and(page.locator('[data-receipt=read]')).waitFor();

    await page.getByRole('button', { name: 'Operations of the session' }).click();
    await page.getByRole('menuitem', { name: /Release/ }).click();
    await page.getByRole('button', { name: 'Release the session' }).click();
    await page.getByRole('alertdialog').waitFor({ state: 'detached' });
    await expect.poll(async () => (await client.sessions.get(id)).status).toBe('released');
    await expect.poll(() => page.getByRole('textbox').isDisabled()).toBe(true);
    await page.getByText('It receives no more messages').first().waitFor();

    const remote = await attached('porter');
    await page.goto(`/console/sessions/${remote}`);
    await page.getByRole('button', { name: 'Operations of the session' }).click();
    const pause = page.getByRole('menuitem', { name: /Pause/ });
    expect(await pause.getAttribute('aria-disabled')).toBe('true');
    expect(await pause.textContent()).toContain('it does not declare lifecycle.pause');
    await page.keyboard.press('Escape');
    const manual = page.locator('option[value=manual]');
    expect(await manual.getAttribute('disabled')).not.toBeNull();
    expect(await manual.textContent()).toContain('does not offer it');
  });

  it('show an answer while it is written', async () => {
    const { id, identity } = await started();
    const page = await browser.signIn(`/sessions/${id}`);
    await page.getByText('Nothing was said yet').waitFor();
    await client.messages.send({ to: `@${identity.handle}`, text: 'slow 6000' });
    const written = page.locator('[aria-busy]');
    await expect.poll(() => written.textContent()).not.toBe('');
    expect((await client.sessions.get(id)).status).toBe('active');
    await written.waitFor({ state: 'detached' });
    await expect.poll(() => page.getByRole('article').count()).toBe(2);
  });

  /** A program that declares little. */
  async function attached(handle: string): Promise<string> {
    const { session } = await client.sessions.attach({
      handle,
      identity: { name: 'Porter', kind: 'program' },
      capabilities: {
        messaging: { receive: true },
        delivery: { modes: ['on-idle'], queue: true },
        events: { emits: ['status.changed'] },
        lifecycle: { release: false },
      },
    });
    return session.id;
  }

  it('have a terminal that shows output, takes what is typed, and fits the window', async () => {
    const { id } = await started('shell');
    await client.sessions.stream(id).waitFor({ type: 'status.idle' });
    await client.sessions.input(id, { text: 'echo be""fore\r' });
    const page = await browser.signIn(`/sessions/${id}`);
    const screen = page.locator('.xterm-rows');
    await expect.poll(() => screen.textContent()).toContain('before');
    await page.locator('.xterm-screen').click();
    await page.keyboard.type('echo ty""ped $((6*7)); tput cols');
    await page.keyboard.press('Enter');
    await expect.poll(() => screen.textContent()).toContain('typed 42');
    await expect.poll(() => screen.textContent()).toContain('120');
    await page.getByRole('button', { name: 'Fit to the window' }).click();
    await page.locator('.xterm-screen').click();
    const size = async () => {
      await client.sessions.input(id, { text: 'clear; stty size\r' });
      return screen.textContent();
    };
    await expect.poll(size, { interval: 500 }).toMatch(/^(?!40 120)\d+ \d+/);
    await page.setViewportSize({ width: 700, height: 600 });
    // Fewer columns than before, and what another person sees follows.
    await expect.poll(size, { interval: 500 }).toMatch(/^\d+ [678]\d(?!\d)/);
    // A colour of the program's own, which the policy of the page would not allow as a style element.
    await client.sessions.input(id, {
      text: String.raw`printf '\e[38;2;200;60;0mco''lour\e[0m\n'` + '\r',
    });
    await screen.locator('span', { hasText: /^colour$/ }).waitFor();
    const colour = await page.evaluate(
      `getComputedStyle([...document.querySelectorAll('.xterm-rows span')]
        .find(({ textContent }) => textContent === 'colour')).color`,
    );
    expect(colour).toBe('rgb(200, 60, 0)');

    // A page that nobody sees has no stream, and goes on where it was when it is seen again.
    const stream = `**/v1/sessions/${id}/stream`;
    const closed = page.waitForEvent('requestfailed', (request) =>
      request.url().endsWith(`${id}/stream`),
    );
    await setHidden(page, true);
    await closed;
    await client.sessions.input(id, { text: 'echo un""seen\r' });
    const [again] = await Promise.all([page.waitForRequest(stream), setHidden(page, false)]);
    expect(Number(again.headers()['last-event-id'])).toBeGreaterThan(1);
    await expect.poll(() => screen.textContent()).toContain('unseen');

    // The keyboard can leave it.
    await page.keyboard.press('Control+]');
    await expect
      .poll(() => page.evaluate('document.activeElement?.textContent'))
      .toContain('Keep this size');
  });

  function setHidden(page: Page, isHidden: boolean): Promise<unknown> {
    return page.evaluate(`
      Object.defineProperty(document, 'hidden', { configurable: true, value: ${isHidden} });
      document.dispatchEvent(new Event('visibilitychange'));
    `);
  }

  it('have a terminal that people without the right only look at', async () => {
    const { id } = await started('shell');
    await client.sessions.stream(id).waitFor({ type: 'status.idle' });
    const { apiKey } = await client.keys.create({ name: 'viewer', role: 'viewer' });
    const page = await browser.signIn(`/sessions/${id}`, { apiKey });
    await page.getByText('typing needs the scopes runs and approve').waitFor();
    const screen = page.locator('.xterm-rows');
    await expect.poll(() => screen.textContent()).toContain('bash');
    await page.locator('.xterm-screen').click();
    await page.keyboard.type('echo typed');
    await client.sessions.input(id, { text: 'echo al""lowed\r' });
    await expect.poll(() => screen.textContent()).toContain('allowed');
    expect(await screen.textContent()).not.toContain('typed');
    expect(await page.getByRole('button', { name: 'Start a session' }).count()).toBe(0);
  });

  it('show a message to two people at once, and nothing of another tenant', async () => {
    const { id, identity } = await started();
    const first = await browser.signIn(`/sessions/${id}`);
    const second = await browser.signIn(`/sessions/${id}`);
    const stranger = await browser.signIn('/sessions', { apiKey: keyOfTenant('acme') });
    await second.getByText('Nothing was said yet').waitFor();
    await first
      .getByRole('textbox', { name: `Message to @${identity.handle}` })
      .fill('say 2 to both of us');
    await first.getByRole('button', { name: 'Send' }).click();
    for (const page of [first, second]) {
      await receipt(page, 'to both of us').and(page.locator('[data-receipt=read]')).waitFor();
    }

    await stranger.getByText('No session yet').waitFor();
    await stranger.goto(`/console/sessions/${id}`);
    await stranger.getByText('There is no such session').waitFor();
    expect(await stranger.locator('body').textContent()).not.toContain(identity.handle);
  });

  function keyOfTenant(tenant: string): string {
    const args = ['packages/server/src/bootstrap.ts', '--json', '--tenant', tenant];
    const env = { ...process.env, RELAY_DATA_DIR: server.dataDir };
    const made = execFileSync(process.execPath, args, { cwd: root, env, encoding: 'utf8' });
    return (JSON.parse(made) as { apiKey: string }).apiKey;
  }

  it('talk in channels, with mentions, threads and receipts per recipient', async () => {
    const writer = await started();
    const reader = await started();
    const page = await browser.signIn('/sessions?view=channels');
    await page.getByRole('button', { name: 'New channel' }).click();
    await page.getByLabel('Name').fill('team');
    await page.getByLabel('Topic (optional)').fill('Release 2');
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    for (const { identity } of [writer, reader]) {
      await page.getByLabel('Add a member').selectOption(identity.handle);
      await page.getByRole('button', { name: `Remove @${identity.handle}` }).waitFor();
    }
    const box = page.getByRole('textbox', { name: 'Message to #team' });
    await box.fill('@nobody, are you there?');
    await page.getByText('@nobody is not a member of #team').waitFor();
    await box.fill('');
    await box.pressSequentially('say 2 please @agent');
    await page.getByRole('option', { name: `@${writer.identity.handle}` }).click();
    expect(await box.inputValue()).toBe(`say 2 please @${writer.identity.handle} `);
    await page.getByRole('button', { name: 'Send' }).click();
    const sent = message(page, 'say 2 please').first();
    await sent.getByText('2 of 2 have read it').waitFor();
    await sent.getByText('2 of 2 have read it').click();
    await sent.getByRole('link', { name: `@${reader.identity.handle}` }).waitFor();
    // Only the one who was mentioned answers.
    await sent.getByRole('link', { name: '1 reply' }).click();
    await page.getByText('Show the whole channel').waitFor();
    await message(page, '1 2').filter({ hasNotText: 'please' }).waitFor();
  });

  it('show the files that they have changed, and each event as it is stored', async () => {
    const { id, identity } = await started();
    const edits = [{ old: '', new: 'first line\n' }];
    const input = JSON.stringify({ filePath: 'notes/plan.txt', edits });
    await client.messages.send({ to: `@${identity.handle}`, text: `use patch ${input}` });
    const page = await browser.signIn(`/sessions/${id}?tab=files`);
    await page.getByText('This session waits for your decision').waitFor();
    const pending = await client.approvals.list({ status: 'pending', sessionId: id }).page();
    await client.approvals.approve(pending.items[0]?.id ?? '');
    await page.getByText('This session waits for your decision').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: /plan\.txt/ }).waitFor();
    await page.getByRole('cell', { name: 'first line' }).waitFor();
    await page.getByRole('link', { name: 'Events' }).click();
    await page.getByLabel('Type of events').selectOption('tool.completed');
    await page.getByRole('button', { name: /tool\.completed/ }).click();
    await page.getByText('durationMs').first().waitFor();
    expect(new URL(page.url()).searchParams.get('type')).toBe('tool.completed');
  });

  it('leave room for the conversation on a phone while a decision waits', async () => {
    const { id, identity } = await started();
    await client.messages.send({ to: `@${identity.handle}`, text: 'notify hello' });
    const page = await browser.signIn(`/sessions/${id}`, { width: 375, height: 740 });
    const waits = page.getByText('This session waits for your decision');
    await waits.waitFor();
    await page.locator('[data-approval]').waitFor({ state: 'attached' });
    const approve = page.getByRole('button', { name: 'Approve once' });
    expect(await approve.isVisible()).toBe(false);
    await page.getByRole('button', { name: 'Show', exact: true }).click();
    await approve.click();
    await waits.waitFor({ state: 'detached' });
  });

  it('go on by themselves when the server was killed and is back', async () => {
    const { id, identity } = await started();
    const shell = await started('shell');
    await client.sessions.stream(shell.id).waitFor({ type: 'status.idle' });
    await client.sessions.input(shell.id, { text: 'echo last""ly\r' });
    const page = await browser.signIn(`/sessions/${id}`);
    const terminal = await browser.signIn(`/sessions/${shell.id}`);
    await page.getByText('Nothing was said yet').waitFor();
    const screen = terminal.locator('.xterm-rows');
    await expect.poll(() => screen.textContent()).toContain('lastly');
    const { port } = new URL(server.url);
    await server.kill();
    await page.getByText(/reconnecting/).waitFor();
    await server.start({ RELAY_PORT: port });
    await client.messages.send({ to: `@${identity.handle}`, text: 'say 2 after all' });
    await receipt(page, 'say 2 after all').and(page.locator('[data-receipt=read]')).waitFor();
    // What ran in the terminal ended with the server; what it showed stays.
    await terminal.getByText('The terminal is offline').waitFor();
    expect(await screen.textContent()).toContain('lastly');
  });
});
