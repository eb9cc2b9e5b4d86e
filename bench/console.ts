/**
 * The console in Chromium, with goals instead of a baseline: the size of the first load, a run of 100,000
 * events, an inbox of 5,000 approvals, and a decision seen in another browser.
 */
import { createClient, type RelayClient } from '@relay/sdk';
import type { Page } from 'playwright-core';
import { closeBrowser, TestBrowser } from '../test/browser/support/console.ts';
import { TestServer } from '../test/support/server.ts';
import { type BenchOptions, median, selectRows } from './measure.ts';

const events = 100_000;
const approvals = 5_000;

interface Bench {
  readonly server: TestServer;
  readonly client: RelayClient;
  readonly browser: TestBrowser;
  readonly rounds: number;
}

/** Collects the main thread's tasks above 50 ms. */
const watchTasks = `
  window.longTasks = [];
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) window.longTasks.push(Math.round(duration));
  }).observe({ type: 'longtask', buffered: true });`;

async function longest(page: Page): Promise<string> {
  const tasks = await page.evaluate<number[]>('window.longTasks.splice(0)');
  return tasks.length === 0 ? 'none above 50 ms' : `longest ${Math.max(...tasks)} ms`;
}

function report(title: string, figures: Readonly<Record<string, string>>): void {
  console.log(`\n${title}`);
  for (const [name, figure] of Object.entries(figures))
    console.log(`  ${name.padEnd(34)}${figure}`);
}

async function firstLoad({ browser }: Bench): Promise<void> {
  const page = await browser.signIn('/settings');
  await page.goto('about:blank');
  const network = await page.context().newCDPSession(page);
  await network.send('Network.enable');
  await network.send('Network.setCacheDisabled', { cacheDisabled: true });
  const files = new Set<string>();
  let bytes = 0;
  network.on('Network.responseReceived', ({ requestId, response }) => {
    if (response.url.includes('/console/')) files.add(requestId);
  });
  network.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
    if (files.has(requestId)) bytes += encodedDataLength;
  });
  await page.goto('/console/inbox');
  await page.getByRole('heading', { name: 'Inbox', level: 1 }).waitFor();
  await page.waitForLoadState('load');
  report('First load (the inbox)', {
    'files, compressed, with headers': `${Math.round(bytes / 1000)} kB (goal: ≤ 180)`,
  });
}

async function longRun({ client, browser }: Bench): Promise<void> {
  const run = await client.runs.create({ model: 'demo', input: `say ${events}` });
  await run.result();
  const page = await browser.signIn('/settings');
  await page.addInitScript(watchTasks);
  const opened: number[] = [];
  for (let round = 0; round < 3; round += 1) {
    await page.goto(`/console/runs/${run.id}`, { waitUntil: 'commit' });
    // Looked for in the page, frame by frame: a question from outside takes its own time.
    const shown = await page.evaluate<number>(`new Promise((resolve) => {
      const look = () => {
        const transcript = document.querySelector('section[aria-label=Transcript]');
        if (transcript?.textContent.includes('Completed')) resolve(performance.now());
        else requestAnimationFrame(look);
      };
      look();
    })`);
    opened.push(shown);
  }
  await page.getByText('Reading earlier').waitFor({ state: 'detached' });
  const figures = {
    'end of the transcript visible': `${Math.round(median(opened))} ms (goal: < 1,000)`,
    'tasks while it opens': `${await longest(page)} (goal: ≤ 100)`,
    'tasks while scrolling': await scroll(page, 'section[aria-label=Transcript]', -3_000),
    'tasks while scrubbing': await scrub(page),
  };
  report(`A run of ${events.toLocaleString('en')} events`, figures);
}

async function scroll(page: Page, selector: string, by: number): Promise<string> {
  const box = await page.locator(selector).first().boundingBox();
  await page.mouse.move((box?.x ?? 0) + 100, (box?.y ?? 0) + 100);
  await longest(page);
  for (let step = 0; step < 80; step += 1) {
    await page.mouse.wheel(0, by);
    await page.waitForTimeout(16);
  }
  return `${await longest(page)} (goal: ≤ 100)`;
}

async function scrub(page: Page): Promise<string> {
  const box = await page.locator('input[type=range]').first().boundingBox();
  if (box === null) throw new Error('The timeline has no slider');
  const at = (share: number) => [box.x + box.width * share, box.y + box.height / 2] as const;
  await page.mouse.move(...at(0.99));
  await page.mouse.down();
  for (let step = 0; step < 80; step += 1) {
    await page.mouse.move(...at(0.99 - step / 100));
    await page.waitForTimeout(16);
  }
  await page.mouse.up();
  return `${await longest(page)} (goal: ≤ 100)`;
}

async function manyApprovals({ client, browser }: Bench): Promise<void> {
  let left = approvals;
  const start = async () => {
    while (left > 0) {
      left -= 1;
      const run = await client.runs.create({
        model: 'demo',
        input: `notify number ${left}`,
        tools: [{ name: 'send_note', kind: 'builtin' }],
      });
      await run.detach();
    }
  };
  await Promise.all(Array.from({ length: 16 }, start));
  const page = await browser.signIn('/settings');
  await page.addInitScript(watchTasks);
  await page.goto('/console/inbox', { waitUntil: 'commit' });
  await page.locator('[data-approval]').first().waitFor();
  const first = await page.evaluate<number>('performance.now()');
  await page.getByRole('link', { name: `Pending ${approvals}`, exact: true }).waitFor();
  const all = await page.evaluate<number>('performance.now()');
  const figures = {
    'first rows': `${Math.round(first)} ms`,
    'all of them': `${Math.round(all)} ms`,
    'tasks while it loads': `${await longest(page)} (goal: ≤ 100)`,
    'tasks while scrolling': await scroll(page, '[data-approval]', 2_500),
  };
  report(`An inbox of ${approvals.toLocaleString('en')} approvals`, figures);
}

/** From the click of one person until the other's page says so. */
async function decision({ client, browser, rounds }: Bench): Promise<void> {
  const [one, other] = [await browser.signIn('/settings'), await browser.signIn('/settings')];
  const times: number[] = [];
  for (let round = 0; round < rounds * 2; round += 1) {
    const run = await client.runs.create({
      model: 'demo',
      input: `notify round ${round}`,
      tools: [{ name: 'send_note', kind: 'builtin' }],
    });
    const [approval] = await waitForApproval(client, run.id);
    await Promise.all([one, other].map((page) => page.goto(`/console/inbox/${approval}`)));
    const approve = one.getByRole('button', { name: 'Approve once' });
    await approve.waitFor();
    await other.getByRole('button', { name: 'Approve once' }).waitFor();
    await other.getByText('live', { exact: true }).waitFor();
    const seen = other.getByText('Approved').first().waitFor();
    const at = performance.now();
    await approve.click();
    await seen;
    times.push(performance.now() - at);
  }
  const figure = `${Math.round(median(times))} ms, at most ${Math.round(Math.max(...times))} ms`;
  report('A decision', { 'visible in another browser': `${figure} (goal: < 300)` });
}

async function waitForApproval(client: RelayClient, runId: string): Promise<string[]> {
  for (;;) {
    const { items } = await client.approvals.list({ runId, status: 'pending' }).page();
    if (items.length > 0) return items.map(({ id }) => id);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const rows = { load: firstLoad, decision, run: longRun, inbox: manyApprovals };

export async function benchConsole(rounds: number, { only }: BenchOptions = {}): Promise<void> {
  const chosen = selectRows('console', rows, only);
  const server = await new TestServer().start();
  const client = createClient({ baseUrl: server.url, apiKey: server.apiKey });
  const browser = new TestBrowser(server);
  try {
    for (const row of chosen) await row({ server, client, browser, rounds });
  } finally {
    await browser.dispose();
    await closeBrowser();
    await server.dispose();
  }
}
