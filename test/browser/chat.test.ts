/** Chatting with agents in the console, in a browser, with a server that may be killed meanwhile. */
import { randomUUID } from 'node:crypto';
import { createClient } from '@relay/sdk';
import type { Page } from 'playwright-core';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { TestServer } from '../support/server.ts';
import { closeBrowser, inBrowser, startServer, TestBrowser } from './support/console.ts';

const server = new TestServer({ RELAY_CONFIG: 'test/support/configs/agents.config.ts' });
const browser = new TestBrowser(server);

startServer(server);
afterAll(async () => {
  await browser.dispose();
  await closeBrowser();
  await server.dispose();
});

const client = () => createClient({ baseUrl: server.url, apiKey: server.apiKey });
const log = (page: Page) => page.getByRole('log', { name: 'Conversation' });
const message = (page: Page) => page.getByRole('textbox', { name: 'Message' });

async function send(page: Page, text: string): Promise<void> {
  await message(page).fill(text);
  await message(page).press('Enter');
}

const open: Page[] = [];
// A page that stays open goes on reading.
afterEach(() => Promise.all(open.splice(0).map((page) => page.close())));

async function signIn(...options: Parameters<TestBrowser['signIn']>): Promise<Page> {
  const page = await browser.signIn(...options);
  open.push(page);
  return page;
}

const newChat = (path = '/chat/new') => signIn(path);

const conversationOf = (page: Page) => new URL(page.url()).pathname.split('/').at(-1) ?? '';

async function runsOf(page: Page) {
  return (
    await client()
      .runs.list({ conversationId: conversationOf(page) })
      .page()
  ).items;
}

/** Reads the answers that are part of the page, and scrolls on: only what is visible is part of it. */
const readAndScroll = `(async () => {
  const list = document.querySelector('[role=log]');
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  await frame();
  await frame();
  const rows = [...list.querySelectorAll('[data-row]')].flatMap((row) => {
    const text = row.querySelector('[data-text]');
    return text === null ? [] : [[row.dataset.row, text.textContent.trim()]];
  });
  const isEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 2;
  list.scrollBy(0, list.clientHeight * 0.9);
  return { rows, isEnd };
})()`;

const scrollToTop = `(async () => {
  const list = document.querySelector('[role=log]');
  list.scrollTo(0, 0);
  for (let frames = 0; frames < 10; frames += 1) await new Promise(requestAnimationFrame);
  return list.scrollTop;
})()`;

/** The whole text of the answers. */
async function answers(page: Page): Promise<string> {
  const parts = new Map<string, string>();
  // Until the list is measured, it may still move to its end.
  await expect.poll(() => page.evaluate(scrollToTop)).toBe(0);
  for (let isEnd = false; !isEnd;) {
    const read = await page.evaluate<{ rows: [string, string][]; isEnd: boolean }>(readAndScroll);
    // The ids of runs and texts sort by time; the last part is the position in the text.
    for (const [key, text] of read.rows) {
      parts.set(
        key.replace(/\d+$/, (start) => start.padStart(9, '0')),
        text,
      );
    }
    ({ isEnd } = read);
  }
  const inOrder = [...parts].toSorted(([one], [other]) => (one < other ? -1 : 1));
  return inOrder.map(([, text]) => text).join(' ');
}

const numbersUpTo = (n: number) => Array.from({ length: n }, (_, index) => index + 1).join(' ');

describe('Chat', inBrowser, () => {
  it(
    'streams the answer to an example, and has its address at once',
    { timeout: 60_000 },
    async () => {
      const page = await newChat('/chat');
      await page.getByText('only the model demo is available').waitFor();
      await page.getByRole('button', { name: 'say 400' }).click();
      await page.waitForURL(/\/console\/chat\/[0-9a-f-]{36}$/);
      await page.getByText('400 out').waitFor();
      expect(await log(page).locator('[data-message]').count()).toBe(1);
      expect(await answers(page)).toBe(numbersUpTo(400));
      // The list of conversations shows it, and finds it.
      await page.getByRole('link', { name: /say 400/ }).waitFor();
      await page.getByRole('searchbox').fill('nothing like it');
      await page.getByText('Nothing was found').waitFor();
      await page.getByRole('searchbox').fill('SAY 4');
      await page.getByRole('link', { name: /say 400/ }).waitFor();
    },
  );

  it('asks for approval inline, and runs the call once', async () => {
    const page = await newChat();
    await send(page, 'notify once');
    const approval = page.getByRole('region', { name: 'Approval of send_note' });
    await approval.getByText('"once"').waitFor();
    await page.reload();
    await approval.getByRole('button', { name: 'Approve once' }).click();
    await page.getByText('The note was sent.').waitFor();
    await log(page).getByText('Approved').waitFor();
    expect(await approval.count()).toBe(0);
    expect(server.notes.filter(({ text }) => text === 'once')).toHaveLength(1);
  });

  it('gives the reason of a denial to the model', async () => {
    const page = await newChat();
    await send(page, 'notify twice');
    await page.getByRole('button', { name: 'Deny…' }).click();
    await page.getByLabel(/Why not/).fill('not on Fridays');
    await page.getByRole('button', { name: 'Deny', exact: true }).click();
    await page.getByText('The note was not sent: it was denied (not on Fridays).').waitFor();
    expect(server.notes.filter(({ text }) => text === 'twice')).toHaveLength(0);
  });

  it('updates a request in place that was decided elsewhere', async () => {
    const page = await newChat();
    await send(page, 'notify elsewhere');
    const approval = page.getByRole('region', { name: 'Approval of send_note' });
    await approval.waitFor();
    const { items } = await client().approvals.list({ status: 'pending' }).page();
    const pending = items.find((each) => each.conversationId === conversationOf(page));
    await client().approvals.decide(pending?.id ?? '', { approved: true });
    await page.getByText('The note was sent.').waitFor();
    expect(await approval.count()).toBe(0);
  });

  it('shows handoffs and sub-agents, and goes on with the agent that has answered', async () => {
    const page = await newChat('/chat?agent=triage');
    await page.getByRole('heading', { name: 'Chat with triage' }).waitFor();
    await send(page, 'use agent {"prompt":"calculate 6*7","agent":"billing"}');
    const subAgent = log(page).getByRole('button', { name: /^billing .*calculate 6\*7/ });
    await subAgent.waitFor();
    await log(page).getByText('answered:').waitFor();
    const within = await log(page).getByText('I have no tool named calculator.').count();
    await subAgent.click();
    await expect
      .poll(() => log(page).getByText('I have no tool named calculator.').count())
      .toBeLessThan(within);
    await send(page, 'hand off to billing');
    await log(page).getByText('triage handed off to billing').waitFor();
    await log(page).getByText('You are now talking to billing.').waitFor();
    await expect.poll(() => page.getByLabel('Agent').inputValue()).toBe('billing');
    await send(page, 'use look_up {"invoice":"7"}');
    await log(page).getByText('The invoice 7 is paid').waitFor();
    expect((await runsOf(page))[0]).toMatchObject({ agent: 'billing' });
  });

  it('goes on where it was after a reload', async () => {
    const page = await newChat();
    await send(page, 'slow 600000');
    await log(page).getByText('I wait for 600000 ms').waitFor();
    await page.reload();
    await log(page).getByText('I wait for 600000 ms').waitFor();
    await page.getByRole('button', { name: 'Stop' }).click();
    await log(page).getByText('Stopped', { exact: true }).waitFor();
    expect(await answers(page)).toBe('I wait for 600000 ms');
    expect(await runsOf(page)).toHaveLength(1);
  });

  it('answers a message that was sent while it was working', async () => {
    const page = await newChat();
    await send(page, 'slow 6000');
    await page.getByRole('button', { name: 'Stop' }).waitFor();
    await send(page, 'calculate 6*7');
    await log(page).getByText('6 * 7 is 42.').waitFor();
    expect(await answers(page)).toBe('I wait for 6000 ms and go on. 6 * 7 is 42.');
    expect(await log(page).locator('[data-message]').count()).toBe(2);
  });

  it('answers such a message although the list of runs cannot be read', async () => {
    const page = await newChat();
    await send(page, 'slow 3000');
    await page.getByRole('button', { name: 'Stop' }).waitFor();
    await page.route(/\/v1\/runs\?/, (route) => route.abort());
    await send(page, 'calculate 6*7');
    await log(page).getByText('6 * 7 is 42.').waitFor();
    expect(await runsOf(page)).toHaveLength(2);
  });

  it('gives a message to the agent that waits for an approval', async () => {
    const page = await newChat();
    await send(page, 'notify later');
    await page.getByRole('button', { name: 'Approve once' }).waitFor();
    await send(page, 'calculate 8*8');
    await log(page).getByText('Sent: it is read after the present step').waitFor();
    await page.getByRole('button', { name: 'Approve once' }).click();
    await log(page).getByText('8 * 8 is 64.').waitFor();
    await log(page)
      .getByText(/read at/)
      .waitFor();
    expect(await log(page).locator('[data-message]').count()).toBe(2);
    expect(await runsOf(page)).toHaveLength(1);
  });

  it('stops an answer, and sends a message again that got none', async () => {
    const page = await newChat();
    await send(page, 'slow 600000');
    await log(page).getByText('I wait for 600000 ms').waitFor();
    await page.getByRole('button', { name: 'Stop' }).click();
    await log(page).getByText('Stopped', { exact: true }).waitFor();
    await send(page, 'fail 400');
    await page.getByRole('alert').getByText('The demo provider answered 400').waitFor();
    await page.getByRole('button', { name: 'Try again' }).click();
    await expect.poll(async () => (await runsOf(page)).length).toBe(3);
    await expect.poll(() => page.getByRole('alert').count()).toBe(2);
  });

  it('sends images and files', async () => {
    const page = await newChat();
    await page.getByLabel('Files to attach').setInputFiles([
      { name: 'plan.txt', mimeType: 'text/plain', buffer: Buffer.from('Do it.') },
      { name: 'dot.png', mimeType: 'image/png', buffer: Buffer.from(dot, 'base64') },
    ]);
    await page.getByRole('list', { name: 'Attached files' }).getByText('dot.png').waitFor();
    await send(page, 'calculate 1+1');
    await log(page).getByText('1 + 1 is 2.').waitFor();
    const files = log(page).getByRole('list', { name: 'Attachments' });
    await files.getByText('plan.txt').waitFor();
    await files.getByText('image/png').waitFor();
    const [run] = await runsOf(page);
    expect((await client().runs.get(run?.id ?? '')).input).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'calculate 1+1' },
          {
            type: 'file',
            mediaType: 'text/plain',
            filename: 'plan.txt',
            data: Buffer.from('Do it.').toString('base64'),
          },
          { type: 'image', mediaType: 'image/png', data: dot },
        ],
      },
    ]);
  });

  it('does nothing that a model writes', async () => {
    const page = await newChat();
    const requested: string[] = [];
    page.on('request', (request) => requested.push(request.url()));
    page.on('dialog', (dialog) => {
      requested.push(dialog.message());
      void dialog.dismiss();
    });
    const hostile =
      '![x](http://evil.test/pixel.png)<img/src=x/onerror=alert(1)><script>alert(2)</script>[a](javascript:alert(3))';
    await send(page, `use ${hostile} {}`);
    await page.getByRole('link', { name: 'Details' }).waitFor();
    await log(page).getByText('(javascript:alert(3))', { exact: true }).waitFor();
    expect(await log(page).locator('img, script, iframe, a[href^="javascript"]').count()).toBe(0);
    await log(page).getByText('(javascript:alert(3))', { exact: true }).click();
    await log(page).getByRole('button', { name: 'http://evil.test/pixel.png' }).click();
    expect(requested.filter((each) => !each.startsWith(server.url))).toEqual([]);
  });

  it('keeps the composer on a phone', async () => {
    const page = await signIn('/chat', { width: 375, height: 667 });
    await page.getByRole('link', { name: 'New chat' }).click();
    await message(page).fill('say 1000');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.getByText('1,000 out').waitFor();
    // As with the keyboard of a phone.
    await page.setViewportSize({ width: 375, height: 380 });
    for (const part of [message(page), page.getByRole('button', { name: 'Send', exact: true })]) {
      const box = await part.boundingBox();
      expect((box?.y ?? 0) + (box?.height ?? Infinity)).toBeLessThanOrEqual(380);
    }
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(375);
  });

  it('offers no message to a person who may only read', async () => {
    const { apiKey } = await client().keys.create({ name: 'reader', role: 'viewer' });
    const conversationId = randomUUID();
    await client().runs.sendMessage({ message: 'calculate 1+1', conversationId, model: 'demo' });
    const page = await signIn(`/chat/${conversationId}`, { apiKey });
    await page.getByText('your key does not have the scope runs').waitFor();
    expect(await message(page).count()).toBe(0);
  });

  it('goes on by itself after the server was killed', { timeout: 90_000 }, async () => {
    const page = await newChat();
    const { port } = new URL(server.url);
    await send(page, 'slow 600000');
    await log(page).getByText('I wait for 600000 ms', { exact: true }).waitFor();
    await server.kill();
    await page.getByText('Reconnecting …').waitFor();
    // What was read stays.
    expect(await answers(page)).toBe('I wait for 600000 ms');
    await server.start({ RELAY_PORT: port });
    await log(page)
      .getByText(/^Discarded: the server stopped/)
      .waitFor({ timeout: 60_000 });
    // The answer begins again.
    await expect.poll(() => answers(page)).toBe('I wait for 600000 ms');
    expect(await page.getByText('Reconnecting …').count()).toBe(0);
    await page.getByRole('button', { name: 'Stop' }).click();
    await log(page).getByText('Stopped', { exact: true }).waitFor();
    expect(await runsOf(page)).toHaveLength(1);
  });

  it('shows a page that was opened while the server did not answer as soon as it does', async () => {
    const page = await newChat();
    await message(page).waitFor();
    await page.context().setOffline(true);
    await page.getByRole('link', { name: 'Policy', exact: true }).click();
    await page.getByRole('main').getByRole('status', { name: 'Loading' }).waitFor();
    await page.context().setOffline(false);
    await page.getByRole('heading', { name: 'Policy' }).waitFor();
  });

  it('has the whole of a long answer, without repetition', { timeout: 180_000 }, async () => {
    const count = 100_000;
    const page = await newChat();
    const { port } = new URL(server.url);
    const reading = page.waitForRequest(/\/v1\/runs\/[^/]+\/events/);
    await send(page, `say ${count}`);
    await reading;
    await server.kill();
    await server.start({ RELAY_PORT: port });
    await page.getByText('100K out').waitFor({ timeout: 60_000 });
    const read = async () => {
      const numbers = (await answers(page)).split(' ').map(Number);
      return [numbers.length, numbers.findIndex((number, index) => number !== index + 1)];
    };
    // Rows that are measured while the list scrolls move it, and may move a whole row past the reader.
    await expect.poll(read, { timeout: 60_000 }).toEqual([count, -1]);
  });

  it('reports no error on the page', () => {
    expect(browser.problems).toEqual([]);
  });
});

/** A PNG of one pixel. */
const dot =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
