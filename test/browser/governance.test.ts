/** Policy, audit and settings in the console: what one person sets is what decides, and everything is recorded. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { createClient, type RelayClient } from '@relay/sdk';
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TestServer } from '../support/server.ts';
import { closeBrowser, inBrowser, startServer, TestBrowser } from './support/console.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

describe('Governance in the console', inBrowser, () => {
  const server = new TestServer({ RELAY_PRIVATE_NETWORKS: '127.0.0.0/8' });
  let client: RelayClient;
  let browser: TestBrowser;

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
  });

  /** A run that waits for the approval of a call of `send_note`. */
  async function askingRun(to: string): Promise<string> {
    const input = `use send_note ${JSON.stringify({ to, text: 'hello' })}`;
    const tools = [{ name: 'send_note', kind: 'builtin' as const }];
    const reading = new AbortController();
    const run = await client.runs.create(
      { model: 'demo', input, tools },
      { signal: reading.signal },
    );
    await expect.poll(async () => (await client.runs.get(run.id)).status).toBe('waiting');
    reading.abort();
    return run.id;
  }

  async function addRule(page: Page, list: 'Deny' | 'Ask', [name, pattern]: [string, string]) {
    await page.getByRole('button', { name: `Add a rule to ${list}` }).click();
    await page.getByLabel('Tool').fill('send_note');
    await page.getByLabel('Which calls').selectOption('patterns');
    await page.getByLabel('Parameter 1', { exact: true }).fill(name);
    await page.getByLabel('Pattern of parameter 1').fill(pattern);
    await page.getByRole('button', { name: 'Apply' }).click();
  }

  /** With the version that is saved. */
  async function save(page: Page, version: number): Promise<void> {
    await page.getByRole('button', { name: 'Review and save' }).click();
    await page.getByRole('button', { name: `Save version ${version}` }).click();
    await page.getByText(`Version ${version} is saved`).waitFor();
  }

  it(
    'shows the effect of a deny rule before it is saved, and the rule decides afterwards',
    { timeout: 60_000 },
    async () => {
      const runId = await askingRun('press');
      const page = await browser.signIn('/policy');
      await addRule(page, 'Deny', ['to', '!press']);
      await page.getByRole('button', { name: 'Review and save' }).click();
      await page.getByRole('alert').filter({ hasText: 'params.to' }).waitFor();
      expect((await client.policy.get()).version).toBe(0);

      await page.getByRole('button', { name: 'Edit deny rule 1' }).click();
      await page.getByLabel('Pattern of parameter 1').fill('press');
      await page.getByRole('button', { name: 'Apply' }).click();
      await page.getByRole('button', { name: 'Review and save' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByText('Would change 1 of the last 1 call').waitFor();
      const changed = dialog.getByRole('listitem').filter({ hasText: 'send_note' });
      expect(await changed.innerText()).toMatch(/Asks\s*Denied/);
      expect(await changed.getByRole('link').getAttribute('href')).toBe(`/console/runs/${runId}`);
      await dialog.getByRole('button', { name: 'Save version 1' }).click();
      await page.getByText('Version 1 is saved').waitFor();
      expect((await client.policy.get()).deny).toEqual([
        { tool: 'send_note', params: { to: 'press' } },
      ]);

      await page.getByRole('link', { name: 'Tester' }).click();
      await page.getByLabel('Tool').fill('send_note');
      await page.getByLabel(/^to/).fill('press');
      await page.getByLabel(/^text/).fill('hello');
      await page.getByRole('button', { name: 'Explain' }).click();
      await page.getByText('Denied', { exact: true }).waitFor();
      await page.getByRole('link', { name: 'Policy, deny rule 1' }).click();
      const rule = page.locator('li[aria-current=location]');
      await rule.getByText('press').waitFor();
      await client.runs.cancel(runId);
    },
  );

  it('keeps the changes of both when two people edit the policy', { timeout: 60_000 }, async () => {
    const { version } = await client.policy.get();
    const { apiKey } = await client.keys.create({ name: 'Grace', owner: 'grace', role: 'admin' });
    const mine = await browser.signIn('/policy');
    const theirs = await browser.signIn('/policy', { apiKey });
    await addRule(mine, 'Deny', ['to', 'mine']);
    await addRule(theirs, 'Ask', ['to', 'theirs']);
    await save(theirs, version + 1);
    await mine.getByRole('button', { name: 'Review and save' }).click();
    await mine.getByRole('button', { name: `Save version ${version + 1}` }).click();
    const conflict = mine.getByRole('region', { name: 'Conflict' });
    await conflict.getByText(`grace has saved version ${version + 1}`).waitFor();
    await conflict.getByText('theirs').first().waitFor();
    // The draft is kept on the way through other pages.
    await mine.getByRole('link', { name: 'Tester' }).click();
    await mine.getByText('your changes to the policy for all agents').waitFor();
    await mine.getByLabel('Tool').fill('send_note');
    await mine.getByLabel(/^to/).fill('mined');
    await mine.getByRole('button', { name: 'Explain' }).click();
    const missed = mine.getByRole('region', { name: 'Rules that do not match' });
    await missed.getByText('The pattern `mine` does not match `to` from `d` on.').waitFor();
    await mine.getByLabel(/^to/).fill('mine');
    await mine.getByRole('button', { name: 'Explain' }).click();
    const decided = mine.locator('section', { hasText: 'Decision' });
    await decided.getByText('Denied', { exact: true }).waitFor();
    await decided
      .getByRole('link', { name: /^Draft of the policy, deny rule/ })
      .first()
      .waitFor();
    await mine.getByRole('link', { name: 'Rules' }).click();
    await conflict.getByRole('button', { name: 'Combine both' }).click();
    await save(mine, version + 2);
    const saved = await client.policy.get();
    expect(saved.ask).toEqual([{ tool: 'send_note', params: { to: 'theirs' } }]);
    expect(saved.deny).toContainEqual({ tool: 'send_note', params: { to: 'mine' } });

    // An earlier version comes back as a new one.
    await theirs.goto(`/console/policy/history?version=${version}`);
    await theirs.getByRole('button', { name: 'Restore as a new version' }).click();
    await save(theirs, version + 3);
    const restored = await client.policy.get();
    expect([restored.version, restored.ask]).toEqual([version + 3, []]);
  });

  it('shows the same rules as JSON, and refuses what is none', async () => {
    const { version } = await client.policy.get();
    const page = await browser.signIn('/policy?view=json');
    const text = page.getByLabel('All rules as JSON');
    await text.fill('{"allow": [{"tool": "calculator"}]');
    await page.getByText('This is not JSON').waitFor();
    await text.fill('{"allow": [{"tool": "calculator"}]}');
    await page.getByRole('button', { name: 'Rows' }).click();
    await page.getByText('every call').waitFor();
    await page.getByRole('button', { name: 'Discard' }).click();
    expect((await client.policy.get()).version).toBe(version);
  });

  it('revokes a grant, and its calls ask again', async () => {
    const grant = await client.grants.create({
      tool: 'send_note',
      params: { to: 'operator' },
      scope: 'tenant',
      uses: 5,
    });
    const page = await browser.signIn('/policy/grants');
    const row = page.getByRole('list', { name: 'Grants' }).getByRole('listitem');
    await row.getByText('5 of 5 uses left').waitFor();
    await row.getByRole('button', { name: 'Revoke' }).click();
    await page.getByRole('button', { name: 'Revoke the grant' }).click();
    await page.getByText('There are no grants').waitFor();
    const { items } = await client.grants.list({ status: 'all' }).page();
    expect(items.find(({ id }) => id === grant.id)?.status).toBe('revoked');
    await askingRun('operator');
  });

  it(
    'creates a key that a viewer uses, who sees no actions of administrators, and revokes it',
    { timeout: 60_000 },
    async () => {
      const page = await browser.signIn('/settings/keys');
      await page.getByRole('button', { name: 'Create a key' }).click();
      await page.getByLabel('Name').fill('Dashboard');
      await page.getByLabel('Owner').fill('vera');
      await page.getByRole('button', { name: 'Create the key' }).click();
      const apiKey = await page.getByLabel('API key', { exact: true }).innerText();
      await page.getByRole('button', { name: 'I have stored it' }).click();
      expect(await page.content()).not.toContain(apiKey);

      const viewer = await browser.signIn('/policy', { apiKey });
      await viewer.getByText('You can read the policy').waitFor();
      expect(await viewer.getByRole('button', { name: /Add a rule|Edit|Remove/ }).count()).toBe(0);
      await viewer.goto('/console/audit');
      await viewer.getByText('The audit trail is not available').waitFor();
      for (const part of ['keys', 'credentials', 'webhooks', 'budgets', 'pause']) {
        await viewer.goto(`/console/settings/${part}`);
        await viewer.getByText('Your key does not have the scope admin').waitFor();
      }
      await viewer.goto('/console/settings');
      await viewer.getByText('vera').first().waitFor();

      await page.getByRole('button', { name: 'Revoke Dashboard' }).click();
      await page.getByRole('button', { name: 'Revoke the key' }).click();
      await viewer.getByText('Your sign-in has ended').waitFor();
      const theirs = createClient({ baseUrl: server.url, apiKey });
      await expect(theirs.runs.list().page()).rejects.toMatchObject({ status: 401 });
    },
  );

  it('shows a webhook delivery that failed, and sends it again', { timeout: 60_000 }, async () => {
    let status = 500;
    const receiver = await listen(() => status);
    const { port } = receiver.address() as AddressInfo;
    try {
      const page = await browser.signIn('/settings/webhooks');
      await page.getByRole('button', { name: 'Create a webhook' }).click();
      await page.getByLabel('URL').fill(`http://127.0.0.1:${port}/hook`);
      await page.getByLabel('An approval is requested').uncheck();
      await page.getByRole('button', { name: 'Create the webhook' }).click();
      expect(await page.getByLabel('signing secret', { exact: true }).innerText()).toMatch(
        /^whsec_/,
      );
      await page.getByRole('button', { name: 'I have stored it' }).click();
      const run = await client.runs.create({ model: 'demo', input: 'say 1' });
      await run.result();
      const [webhook] = (await client.webhooks.list().page()).items;
      const deliveries = () => client.webhooks.deliveries(webhook?.id ?? '').page();
      await expect.poll(async () => (await deliveries()).items[0]?.lastStatus).toBe(500);
      await page.getByRole('link', { name: 'Deliveries' }).click();
      const delivery = page.getByRole('list', { name: 'Deliveries' }).getByRole('listitem');
      await delivery.getByText('answered 500').waitFor();
      status = 200;
      await delivery.getByRole('button', { name: 'Send again' }).click();
      await expect.poll(async () => (await deliveries()).items[0]?.status).toBe('delivered');
      await page.getByRole('button', { name: 'Read again' }).click();
      await delivery.getByText('Delivered', { exact: true }).waitFor();
    } finally {
      receiver.close();
    }
  });

  it('pauses the tenant only after the word was typed, and no run starts meanwhile', async () => {
    await askingRun('operator');
    const page = await browser.signIn('/settings/pause');
    await page.getByRole('button', { name: 'Pause the tenant' }).click();
    const confirm = page.getByRole('alertdialog').getByRole('button', { name: 'Pause the tenant' });
    expect(await confirm.isDisabled()).toBe(true);
    await page.getByLabel('Type pause to confirm').fill('pause');
    await confirm.click();
    await page.getByText('The tenant is paused.').first().waitFor();
    await expect(client.runs.create({ model: 'demo', input: 'say 1' })).rejects.toMatchObject({
      code: 'tenant_paused',
    });
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByRole('button', { name: 'Pause the tenant' }).waitFor();
    await page.getByRole('button', { name: 'Cancel all runs' }).click();
    await page.getByLabel('Type cancel all to confirm').fill('cancel all');
    await page.getByRole('alertdialog').getByRole('button', { name: 'Cancel all runs' }).click();
    await page.getByText('No run is open').waitFor();
    expect((await client.runs.list({ status: 'waiting' }).page()).items).toEqual([]);
  });

  it('sets a budget that runs are held to', async () => {
    const page = await browser.signIn('/settings/budgets');
    await page.getByRole('button', { name: 'Set a budget' }).click();
    await page.getByLabel('Tokens').fill('0');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('0 tokens per day').waitFor();
    await expect(client.runs.create({ model: 'demo', input: 'say 1' })).rejects.toMatchObject({
      code: 'budget_exceeded',
    });
    await page.getByRole('button', { name: 'Change the budget' }).click();
    await page.getByRole('button', { name: 'Remove the budget' }).click();
    await page.getByText('No budget is set').waitFor();
    expect((await client.tenant.get()).budgets.tenant).toBeUndefined();
  });

  it('deletes memories and credentials', async () => {
    await client.memories.add({ namespace: 'team', text: 'The release is on Friday' });
    await client.memories.add({ namespace: 'team', text: 'Ada likes tea' });
    const page = await browser.signIn('/settings/memories?namespace=team&q=release');
    const found = page.getByRole('list', { name: 'Memories' }).getByRole('listitem');
    await found.getByText('The release is on Friday').waitFor();
    expect(await found.count()).toBe(1);
    await page.getByRole('button', { name: 'Clear the namespace' }).click();
    await page.getByRole('button', { name: 'Delete them all' }).click();
    await page.getByText('No memory is found').waitFor();

    await page.getByRole('link', { name: 'Credentials' }).click();
    await page.getByRole('button', { name: 'Add a provider' }).click();
    await page.getByRole('textbox', { name: 'Provider' }).fill('openai');
    await page.getByLabel('API key').fill('sk-secret-1234');
    await page.getByRole('button', { name: 'Set the key' }).click();
    await page.getByText('…1234').waitFor();
    expect(await page.content()).not.toContain('sk-secret');
    await page.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('button', { name: 'Delete the key' }).click();
    await page.getByText('No provider has a key').waitFor();
  });

  it(
    'records all of it in the audit trail, which is verified and exported',
    { timeout: 60_000 },
    async () => {
      const { id: keyId } = await client.keys.create({ name: 'Short-lived', role: 'viewer' });
      await client.keys.revoke(keyId);
      const grant = await client.grants.create({ tool: 'send_note', exact: {}, scope: 'tenant' });
      await client.grants.revoke(grant.id);
      await client.policy.put({ deny: [], version: (await client.policy.get()).version });
      await client.tenant.update({ paused: true });
      await client.tenant.update({ paused: false });
      const page = await browser.signIn('/audit');
      await page.getByText(/All \d+ entries verified/).waitFor();
      const entries = page.getByLabel('Audit entries');
      for (const action of [
        'Key created',
        'Key revoked',
        'Grant created',
        'Grant revoked',
        'Policy changed',
        'Tenant paused',
        'Signed in to the console',
      ]) {
        await page.getByLabel('Action', { exact: true }).selectOption({ label: action });
        await entries.getByText(action).first().waitFor();
        await expect
          .poll(async () => new Set(await entries.locator('.font-medium').allInnerTexts()))
          .toEqual(new Set([action]));
      }
      await page.getByRole('button', { name: 'Remove the filters' }).click();
      await entries.getByRole('link').first().click();
      await page.getByText('Who and when').waitFor();

      const downloaded = page.waitForEvent('download');
      await page.getByRole('link', { name: 'Export' }).click();
      const lines = readFileSync(await (await downloaded).path(), 'utf8')
        .trim()
        .split('\n');
      const { type, ...head } = JSON.parse(lines.at(-1) ?? '') as {
        type: string;
        seq: number;
        hash: string;
      };
      expect([type, head.seq]).toEqual(['head', lines.length - 1]);

      await page.getByRole('button', { name: 'Head' }).click();
      await page.getByLabel('A head that you have kept').fill(JSON.stringify(head));
      await page.getByRole('button', { name: 'Verify against it' }).click();
      await page.getByText('The trail still contains this head').waitFor();
      await page
        .getByLabel('A head that you have kept')
        .fill(JSON.stringify({ ...head, hash: '0'.repeat(64) }));
      await page.getByRole('button', { name: 'Verify against it' }).click();
      await page.getByText(`Entry ${head.seq}:`).waitFor();
    },
  );

  it('shows nothing of another tenant', { timeout: 60_000 }, async () => {
    await client.memories.add({ namespace: 'team', text: 'ours alone' });
    await client.keys.create({ name: 'Ours alone', role: 'viewer' });
    await client.policy.put({ deny: [], version: (await client.policy.get()).version });
    const output = execFileSync(
      process.execPath,
      ['packages/server/src/bootstrap.ts', '--tenant', 'other', '--json'],
      {
        cwd: root,
        env: { ...process.env, RELAY_DATA_DIR: server.dataDir },
        stdio: ['ignore', 'pipe', 'ignore'],
      },
    );
    const { apiKey } = JSON.parse(output.toString()) as { apiKey: string };
    const page = await browser.signIn('/policy', { apiKey });
    await page.getByText('No version is saved yet').waitFor();
    await page.goto('/console/policy/grants?status=all');
    await page.getByText('No grants are found').waitFor();
    await page.goto('/console/settings/webhooks');
    await page.getByText('There are no webhooks').waitFor();
    await page.goto('/console/settings/memories');
    await page.getByText('Nothing is remembered').waitFor();
    await page.goto('/console/settings/keys');
    await page.getByText('(your key)').waitFor();
    expect(await page.getByText('Ours alone').count()).toBe(0);
    await page.goto('/console/audit');
    await page.getByLabel('Audit entries').getByRole('link').first().waitFor();
    expect(await page.getByLabel('Audit entries').getByText('Policy changed').count()).toBe(0);
  });
});

/** A receiver of webhooks that answers with a status. */
async function listen(status: () => number): Promise<Server> {
  const receiver = createServer((request, response) => {
    request.resume();
    response.writeHead(status()).end();
  });
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  return receiver;
}
