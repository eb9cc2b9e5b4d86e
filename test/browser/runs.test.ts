/** The pages of runs in a browser: start, follow, look back, fork, cancel. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { createClient } from '@relay/sdk';
import type { Page } from 'playwright-core';
import { afterAll, describe, expect, it } from 'vitest';
import { TestServer } from '../support/server.ts';
import { closeBrowser, inBrowser, startServer, TestBrowser } from './support/console.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const server = new TestServer({ RELAY_LEASE_TTL_MS: '1000' });
const browser = new TestBrowser(server);
/** The file of the first key is gone after the first sign-in. */
let apiKey = '';

startServer(server, () => {
  ({ apiKey } = server);
});
afterAll(async () => {
  await browser.dispose();
  await closeBrowser();
  await server.dispose();
});

const client = () => createClient({ baseUrl: server.url, apiKey });
const open = (path: string) => browser.signIn(path, { apiKey });
const transcriptOf = (page: Page) => page.getByRole('region', { name: 'Transcript' });
const timelineOf = (page: Page) => page.getByRole('region', { name: 'Timeline' });

async function start(message: string): Promise<string> {
  const { id } = await client().runs.sendMessage({ message, model: 'demo' });
  return id;
}

async function ended(message: string): Promise<string> {
  const id = await start(message);
  await client().runs.stream(id).result();
  return id;
}

async function keyOfAnotherTenant(): Promise<string> {
  const args = ['packages/server/src/bootstrap.ts', '--tenant', 'another', '--json'];
  const env = { ...process.env, RELAY_DATA_DIR: server.dataDir };
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root, env });
  return (JSON.parse(stdout) as { apiKey: string }).apiKey;
}

describe('Runs in the console', inBrowser, () => {
  it(
    'starts from its empty list, waits for an approval, and shows it',
    { timeout: 90_000 },
    async () => {
      const page = await open('/runs');
      await page.getByRole('button', { name: 'Start a demo run' }).click();
      await page.waitForURL(/\/console\/runs\/[0-9a-f-]{36}$/);
      const transcript = transcriptOf(page);
      await transcript.getByText('Waits for the decision of a person').waitFor();
      await timelineOf(page).getByRole('button', { name: 'Approval of send_note, ' }).waitFor();
      await page.getByRole('link', { name: 'Waits for 1 approval' }).waitFor();

      const [approval] = (await client().approvals.list({ status: 'pending' }).page()).items;
      await client().approvals.approve(approval?.id ?? '', { reason: 'only a test' });
      await transcript.getByText('The note was sent.').waitFor();
      await transcript.getByText('only a test').waitFor();
      await timelineOf(page)
        .getByRole('button', { name: 'Approved by bootstrap: only a test' })
        .waitFor();
      await page.getByRole('link', { name: 'Waits for 1 approval' }).waitFor({ state: 'detached' });
    },
  );

  it('names the key of whoever started a run, if it has no owner', async () => {
    const key = await client().keys.create({ name: 'Night shift', role: 'operator' });
    const night = createClient({ baseUrl: server.url, apiKey: key.apiKey });
    const { id } = await night.runs.sendMessage({ message: 'say 2', model: 'demo' });
    const page = await open(`/runs/${id}`);
    await page.getByTitle(`Key ${key.id}`).getByText('Night shift', { exact: true }).waitFor();
  });

  it('starts with a dialog, and streams the answer', async () => {
    const page = await open('/runs');
    await page.getByRole('button', { name: 'Start a run' }).click();
    await page.getByLabel('Input').fill('say 40');
    await page.getByRole('button', { name: 'Start', exact: true }).click();
    await page.getByRole('heading', { name: 'say 40' }).waitFor();
    await transcriptOf(page).getByText('1 2 3 4 5').waitFor();
  });

  it('lists runs as they start and end, filtered by what is in the address', async () => {
    const page = await open('/runs?status=waiting');
    await page.getByText('No run matches').waitFor();
    const id = await start('notify the list');
    const row = page.getByRole('link', { name: /Waiting.*notify the list/ });
    await row.waitFor();
    await client().runs.cancel(id);
    await row.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Canceled' }).click();
    await page.getByRole('link', { name: /Canceled.*notify the list/ }).waitFor();
    expect(new URL(page.url()).searchParams.get('status')).toBe('waiting,canceled');
  });

  it('shows the transcript as it was at the event that the slider points at', async () => {
    const id = await ended('say 30');
    const page = await open(`/runs/${id}`);
    const transcript = transcriptOf(page);
    await transcript.getByText('29 30').waitFor();
    const slider = page.getByRole('slider', { name: 'Position in the run' });
    await slider.focus();
    await page.keyboard.press('Home');
    await transcript.getByText('As it was at event 1,').waitFor();
    expect(await transcript.textContent()).not.toContain('1 2 3');
    for (let step = 1; step < 7; step += 1) await page.keyboard.press('ArrowRight');
    await transcript.getByText('1 2 3', { exact: true }).waitFor();
    await page.waitForURL(/\?seq=7$/);
    await page.reload();
    await transcript.getByText('1 2 3', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Back to the end' }).click();
    await transcript.getByText('29 30').waitFor();
  });

  it('shows one event in words and as it is stored, and all of them in a table', async () => {
    const id = await ended('calculate 6*7');
    const page = await open(`/runs/${id}`);
    await page.getByRole('button', { name: 'calculator', exact: true }).click();
    await page.getByRole('heading', { name: 'tool.completed' }).waitFor();
    await page.getByRole('button', { name: 'Previous event' }).click();
    await page.getByRole('heading', { name: 'tool.started' }).waitFor();
    await page.getByRole('tab', { name: 'All events' }).click();
    // The pieces of a text are one row.
    await page.getByRole('button', { name: /text\.appended × \d+.*6 \* 7 is 42\./ }).waitFor();
    await page.getByLabel('Type of event').selectOption('turn.completed');
    await page.getByText('2 events').waitFor();
    expect(new URL(page.url()).searchParams.get('type')).toBe('turn.completed');
  });

  it('nests what a sub-agent does, in a lane of its own', async () => {
    const id = await ended('use agent {"prompt":"calculate 2*21"}');
    const page = await browser.signIn(`/runs/${id}`, { apiKey, height: 1_600 });
    const lane = timelineOf(page).getByRole('group', { name: 'Lane of agent' });
    await lane.getByRole('button', { name: 'calculator, ' }).waitFor();
    const transcript = transcriptOf(page);
    await transcript.getByText('2 * 21 is 42.', { exact: true }).waitFor();
    await transcript.getByRole('button', { expanded: true, name: 'agent' }).click();
    await transcript.getByText('2 * 21 is 42.', { exact: true }).waitFor({ state: 'detached' });
  });

  it('forks at the cursor with an edited input', async () => {
    const id = await ended('calculate 6*7');
    const page = await open(`/runs/${id}?seq=5`);
    await page.getByRole('button', { name: 'Fork here' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('everything up to event 3').waitFor();
    await dialog.getByLabel('Input').fill('say 3');
    await dialog.getByRole('button', { name: 'Start the fork' }).click();
    await page.getByRole('heading', { name: 'say 3' }).waitFor();
    await page.getByText('forked at event 3 of another run').waitFor();
    await transcriptOf(page).getByText('1 2 3', { exact: true }).waitFor();
  });

  it('cancels after a confirmation', async () => {
    const id = await start('slow 60000');
    const page = await open(`/runs/${id}`);
    await page.getByRole('button', { name: 'Cancel', exact: true }).click();
    await page.getByRole('button', { name: 'Cancel the run' }).click();
    await transcriptOf(page).getByText('Canceled').waitFor();
    expect((await client().runs.get(id)).status).toBe('canceled');
  });

  it(
    'recovers when the server is killed while it streams, and strikes what was discarded',
    { timeout: 90_000 },
    async () => {
      const id = await start('slow 600000');
      const page = await open(`/runs/${id}`);
      const transcript = transcriptOf(page);
      await transcript.getByText('I wait for 600000 ms').waitFor();
      const { port } = new URL(server.url);
      await server.kill();
      await page.getByText('Disconnected since').waitFor();
      await server.start({ RELAY_PORT: port });
      await page.getByText('This page was disconnected for').waitFor();
      await transcript.locator('del').filter({ hasText: 'I wait for 600000 ms' }).waitFor();
      await timelineOf(page)
        .getByRole('button', { name: 'The server stopped; another one took over' })
        .waitFor();
      // The answer begins again.
      await transcript.locator('[data-text]', { hasText: 'I wait for 600000 ms' }).waitFor();
      expect(await transcript.getByText(/discarded/i).count()).toBe(1);
      // The page was not loaded again meanwhile.
      expect(await page.getByText('This page was disconnected for').count()).toBe(1);
    },
  );

  it('does not show a run of another tenant', async () => {
    const other = createClient({ baseUrl: server.url, apiKey: await keyOfAnotherTenant() });
    const { id } = await other.runs.sendMessage({ message: 'say secret', model: 'demo' });
    await ended('calculate 6*7');
    const page = await open(`/runs/${id}`);
    await page.getByText('This run was not found').waitFor();
    await page.goto('/console/runs');
    await page
      .getByRole('link', { name: /calculate/ })
      .first()
      .waitFor();
    expect(await page.content()).not.toContain('secret');
  });

  it('has tabs instead of panes on a phone', async () => {
    const id = await ended('calculate 6*7');
    const page = await browser.signIn(`/runs/${id}`, { apiKey, width: 375, height: 700 });
    await transcriptOf(page).getByText('6 * 7 is 42.').waitFor();
    expect(await timelineOf(page).count()).toBe(0);
    await page.getByRole('tab', { name: 'Timeline' }).click();
    await timelineOf(page).getByRole('button', { name: 'Turn 1,' }).waitFor();
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(375);
  });

  it('reports no violation of its content security policy', () => {
    expect(browser.problems).toEqual([]);
  });
});
