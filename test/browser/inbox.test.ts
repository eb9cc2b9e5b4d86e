/** Deciding in the inbox, in a browser. */
import { createClient, type Approval, type RelayClient } from '@relay/sdk';
import type { Page } from 'playwright-core';
import { afterAll, describe, expect, it } from 'vitest';
import { TestServer } from '../support/server.ts';
import {
  closeBrowser,
  type ContextOptions,
  inBrowser,
  startServer,
  TestBrowser,
} from './support/console.ts';

const config = 'test/support/configs/inbox.config.ts';
const server = new TestServer({ RELAY_CONFIG: config });
const browser = new TestBrowser(server);
let client: RelayClient;
const people = { ada: '', grace: '' };

startServer(server, async () => {
  client = createClient({ baseUrl: server.url, apiKey: server.apiKey });
  for (const owner of ['ada', 'grace'] as const) {
    const body = { name: owner, owner, scopes: ['approve', 'runs'] as const };
    people[owner] = (await client.keys.create({ ...body, scopes: [...body.scopes] })).apiKey;
  }
});

afterAll(async () => {
  await browser.dispose();
  await closeBrowser();
  await server.dispose();
});

/** Starts a run of the demo model, and returns its approval. */
async function ask(message: string, on: RelayClient = client): Promise<Approval> {
  const { id: runId } = await on.runs.sendMessage({ message, model: 'demo' });
  let found: Approval | undefined;
  await expect
    .poll(async () => {
      const { items } = await on.approvals.list({ runId, status: 'pending' }).page();
      found = items[0];
      return found;
    })
    .toBeDefined();
  if (found === undefined) throw new Error('The run has no approval');
  return found;
}

function open(id: string, options: ContextOptions & { person?: keyof typeof people } = {}) {
  const { person = 'ada', ...rest } = options;
  return browser.signIn(`/inbox/${id}`, { ...rest, apiKey: people[person] });
}

const button = (page: Page, name: string) =>
  page.getByRole('button', { name, exact: false }).first();

/** The call can be read, and decided with a key. */
const canApprove = (page: Page) =>
  page.locator('button:enabled', { hasText: 'Approve once' }).waitFor();

/** What the card says has become of the approval. */
async function verdict(page: Page): Promise<string> {
  const shown = page.locator('[data-verdict]');
  await shown.waitFor();
  return shown.innerText();
}

/** The input with which a tool really ran. */
async function executedInput({ runId = '', toolCallId }: Approval): Promise<unknown> {
  let input: unknown;
  await expect
    .poll(async () => {
      for await (const event of client.runs.events(runId)) {
        if (event.type === 'tool.started' && event.toolCallId === toolCallId) input = event.input;
      }
      return input;
    })
    .toBeDefined();
  return input;
}

const waitingRow = (page: Page, { id }: Approval) => page.locator(`[data-approval="${id}"]`);

// Several browsers at once take their time on a busy machine.
describe('The inbox', { ...inBrowser, timeout: 60_000 }, () => {
  it('offers a newcomer a run that asks, which then appears', async () => {
    const page = await browser.signIn('/inbox', { apiKey: people.ada });
    await page.getByText('Nothing waits for you').waitFor();
    await button(page, 'Start a demo run that asks').click();
    await page.locator('[data-approval]', { hasText: 'send_note' }).click();
    await page.getByText('No rule allows this call').waitFor();
    await page.getByText('notify hello').waitFor();
    await expect.poll(() => page.title()).toBe('(1) Relay');
    await button(page, 'Approve once').click();
    expect(await verdict(page)).toMatch(/^Approved by you/);
    await expect.poll(() => server.notes.map(({ text }) => text)).toEqual(['hello']);
    await expect.poll(() => page.title()).toBe('Relay');
  });

  it('edits a call in a form that keeps its types, and runs what was approved', async () => {
    const approval = await ask('use transfer {"to":"bob","amount":1000}');
    const page = await open(approval.id);
    await button(page, 'Edit').click();
    const amount = page.getByRole('dialog').getByLabel('amount');
    await amount.fill('12.5');
    // A key that is pressed by mistake does not discard it.
    await page.keyboard.press('Escape');
    await page.getByRole('alert').getByText('Discard your changes?').waitFor();
    await button(page, 'Keep editing').and(page.locator(':focus')).click();
    const changes = page.getByLabel('What changes');
    await changes.getByText('1000').waitFor();
    await changes.getByText('12.5').waitFor();
    await changes.getByText('Your approval lets the changed call run').waitFor();
    await button(page, 'Approve with changes').click();
    expect(await verdict(page)).toMatch(/^Approved with changes by you/);
    expect(await executedInput(approval)).toEqual({ to: 'bob', amount: 12.5 });
    // The card keeps both versions.
    await page.getByText('Changed by an approver').waitFor();
  });

  it('allows calls like it from now on, after it has shown what that would have answered', async () => {
    const first = await ask('use transfer {"to":"carol","amount":1}');
    await client.approvals.deny(first.id, 'not on Fridays');
    const approval = await ask('use transfer {"to":"carol","amount":2}');
    const page = await open(approval.id);
    await page.getByText(/denied 1×.*“not on Fridays”/).waitFor();
    await button(page, 'Always').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Calls that match').check();
    await dialog.getByLabel('Where').selectOption('tenant');
    await dialog.getByLabel('Number of uses').fill('5');
    await dialog.getByText(/would have answered 2 of the last \d+ requests/).waitFor();
    await button(page, 'Approve and always allow').click();
    expect(await verdict(page)).toMatch(/^Approved by you/);
    const { items } = await client.grants.list().page();
    expect(items).toMatchObject([
      { tool: 'transfer', params: { to: 'carol' }, scope: 'tenant', uses: 5 },
    ]);
    for (const { id } of items) await client.grants.revoke(id);
  });

  it('denies with a reason, which the agent reads', async () => {
    const approval = await ask('notify everybody');
    const page = await open(approval.id);
    await button(page, 'Deny').click();
    await page.getByLabel('Why not? The agent reads this.').fill('Not at night');
    await page.keyboard.press('Enter');
    expect(await verdict(page)).toMatch(/^Denied by you[\s\S]*Not at night/);
    expect(await client.approvals.get(approval.id)).toMatchObject({
      status: 'denied',
      reason: 'Not at night',
      decidedBy: { owner: 'ada' },
    });
  });

  it('asks the question of a tool as a form, and sends no answer that does not fit', async () => {
    const approval = await ask('use order {"what":"shirt"}');
    const page = await open(approval.id);
    await page.locator('#approval p', { hasText: 'Which size, and how many?' }).waitFor();
    await page.getByLabel('count').fill('2');
    await button(page, 'Send the answer').click();
    await page.getByRole('alert').filter({ hasText: 'size' }).waitFor();
    await page.getByLabel('size').selectOption({ label: 'M' });
    await button(page, 'Send the answer').click();
    expect(await verdict(page)).toMatch(/^Answered by you/);
    expect(await client.approvals.get(approval.id)).toMatchObject({
      input: { size: 'M', count: 2 },
    });
  });

  it('still shows an approval after a reload of the page', async () => {
    const approval = await ask('notify again');
    const page = await open(approval.id);
    await button(page, 'Approve once').waitFor();
    await page.reload();
    await waitingRow(page, approval).waitFor();
    await button(page, 'Approve once').click();
    expect(await verdict(page)).toMatch(/^Approved by you/);
  });

  it('makes hidden characters visible, and warns of them', async () => {
    const approval = await ask('notify abc\u202edef');
    const page = await open(approval.id);
    await page.getByText('characters that reverse the direction of text').waitFor();
    const call = page.getByRole('group', { name: 'Call of send_note' });
    await call.waitFor();
    expect(await call.innerText()).not.toContain('\u202e');
    expect(await call.innerText()).toMatch(/202e|RLO/i);
    await client.approvals.deny(approval.id);
  });

  it('is decided with the keyboard alone', async () => {
    const approvals = [await ask('notify one'), await ask('notify two')];
    const page = await browser.signIn('/inbox', { apiKey: people.ada });
    await page.locator('[data-approval]').nth(1).waitFor();
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Shortcuts' }).waitFor();
    // Keys belong to the dialog while it is open.
    await page.keyboard.press('a');
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.keyboard.press('j');
    await canApprove(page);
    await page.keyboard.press('a');
    expect(await verdict(page)).toMatch(/^Approved by you/);
    // The decided one stays open: the same key does not decide the next one.
    await page.keyboard.press('a');
    await page.keyboard.press('j');
    await canApprove(page);
    await page.keyboard.press('d');
    await page.keyboard.type('no');
    await page.keyboard.press('Enter');
    expect(await verdict(page)).toMatch(/^Denied by you/);
    const stored = await Promise.all(approvals.map(({ id }) => client.approvals.get(id)));
    expect(stored.map(({ status }) => status).toSorted()).toEqual(['approved', 'denied']);
  });

  it('lets one of two persons win who decide at once, and tells the other who it was', async () => {
    const approval = await ask('notify both');
    const [ada, grace] = await Promise.all([
      open(approval.id),
      open(approval.id, { person: 'grace' }),
    ]);
    await button(grace, 'Deny').click();
    await button(ada, 'Approve once').waitFor();
    // Both have decided before either is answered.
    let sent = 0;
    for (const page of [ada, grace]) {
      await page.route(`**/v1/approvals/${approval.id}`, async (route) => {
        if (route.request().method() === 'POST') {
          sent += 1;
          await expect.poll(() => sent).toBe(2);
        }
        await route.continue();
      });
    }
    await Promise.all([
      button(ada, 'Approve once').click(),
      grace.getByRole('button', { name: 'Deny', exact: true }).click(),
    ]);
    const [seenByAda, seenByGrace] = await Promise.all([verdict(ada), verdict(grace)]);
    const { status } = await client.approvals.get(approval.id);
    const isAda = status === 'approved';
    expect(seenByAda).toMatch(isAda ? /^Approved by you/ : /^Denied by grace/);
    expect(seenByGrace).toMatch(isAda ? /^Approved by ada/ : /^Denied by you/);
    await (isAda ? grace : ada).getByText('Your decision was not used').waitFor();
    expect(server.notes.some(({ text }) => text === 'both')).toBe(isAda);
  });

  it('shows a decision in another browser as it is made, without a reload', async () => {
    const approval = await ask('notify quickly');
    const page = await open(approval.id, { person: 'grace' });
    await button(page, 'Approve once').waitFor();
    await page.getByText('live', { exact: true }).waitFor();
    const seenAt = page.evaluate<number>(`new Promise((resolve) => {
      const look = () =>
        document.querySelector('[data-verdict]') ? resolve(Date.now()) : requestAnimationFrame(look);
      look();
    })`);
    const startedAt = Date.now();
    await client.approvals.approve(approval.id);
    const decidedAt = Date.now();
    const [all, after] = [(await seenAt) - startedAt, (await seenAt) - decidedAt];
    console.info(
      `Another browser showed a decision ${all} ms after it was sent (${after} ms after its response)`,
    );
    expect(await verdict(page)).toMatch(/^Approved by bootstrap/);
    // It does not vanish from the list while it is open.
    await waitingRow(page, approval).getByText('Approved by bootstrap').waitFor();
  });

  it('does not move rows under the pointer when something more urgent arrives', async () => {
    const first = await ask('notify calm');
    const page = await browser.signIn('/inbox', { apiKey: people.ada });
    await waitingRow(page, first).hover();
    const before = await waitingRow(page, first).boundingBox();
    const urgent = await ask('notify ab\u202ec');
    await button(page, '1 new request').waitFor();
    expect(await waitingRow(page, first).boundingBox()).toEqual(before);
    await button(page, '1 new request').click();
    await waitingRow(page, urgent).waitFor();
    const moved = await waitingRow(page, first).boundingBox();
    expect(moved?.y).toBeGreaterThan(before?.y ?? 0);
    for (const { id } of [first, urgent]) await client.approvals.deny(id);
  });

  it('decides identical calls together, each on its own, without a rule', async () => {
    const same = [await ask('notify twin'), await ask('notify twin'), await ask('notify twin')];
    const other = await ask('notify other');
    const page = await open(same[0]?.id ?? '');
    await button(page, 'Choose all 3').click();
    await button(page, 'Approve 3 identical calls').click();
    await page.getByText('Approved 3 calls').waitFor();
    for (const { id } of same) expect((await client.approvals.get(id)).status).toBe('approved');
    expect((await client.approvals.get(other.id)).status).toBe('pending');
    expect((await client.grants.list().page()).items).toEqual([]);
    // A different call cannot be chosen with another one.
    const third = await ask('notify third');
    await waitingRow(page, third).waitFor();
    await page.getByLabel('Choose send_note').nth(0).check();
    // The row shows only the beginning of a call.
    expect(await button(page, 'Approve 1 identical call').isDisabled()).toBe(true);
    await page.getByText('Open one of them first').waitFor();
    await page.getByLabel('Choose send_note').nth(1).click();
    await page.getByText('Only identical calls can be decided together.').waitFor();
    for (const { id } of [other, third]) await client.approvals.deny(id);
  });

  it('does not approve a call that has changed since it was shown', async () => {
    const { version } = await client.policy.get();
    const approvers = [{ tool: 'transfer', quorum: 2 }];
    await client.policy.put({ version, approvers });
    const approval = await ask('use transfer {"to":"dan","amount":5}');
    const page = await open(approval.id);
    await page.getByText('0 of 2 votes').waitFor();
    const grace = createClient({ baseUrl: server.url, apiKey: people.grace });
    const input = { to: 'dan', amount: 5_000 };
    await grace.approvals.approve(approval.id, { input, digest: approval.digest });
    await page.getByText('This call was changed while you looked at it').waitFor();
    await page.keyboard.press('a');
    await page.getByText('Look at the changed call first').waitFor();
    await page.getByRole('group', { name: 'Call of transfer' }).getByText('5000').waitFor();
    expect((await client.approvals.get(approval.id)).votes).toHaveLength(1);
    const other = await open(approval.id, { person: 'grace' });
    await other.getByText('You have approved it. It waits for 1 more person.').waitFor();
    await other.getByLabel('Only mine to decide').check();
    await other.getByText('Nothing matches these filters').waitFor();
    await button(page, 'I have seen the change').click();
    await page.keyboard.press('a');
    expect(await verdict(page)).toMatch(/^Approved with changes by you/);
    expect(await executedInput(approval)).toEqual(input);
    await client.policy.put({ version: version + 1, approvers: [] });
  });

  it('shows a person without the scope approve everything but the buttons, and says why', async () => {
    const approval = await ask('notify viewers');
    const { apiKey } = await client.keys.create({ name: 'viewer', role: 'viewer' });
    const page = await browser.signIn(`/inbox/${approval.id}`, { apiKey });
    await page.getByText('your key does not have the scope approve').waitFor();
    expect(await page.getByRole('button', { name: /Approve|Deny|Edit|Always/ }).count()).toBe(0);
    await page.keyboard.press('a');
    expect((await client.approvals.get(approval.id)).status).toBe('pending');
    await client.approvals.deny(approval.id);
  });

  it('is usable with a thumb', async () => {
    const approval = await ask('notify phone');
    const page = await browser.signIn('/inbox', { apiKey: people.ada, width: 375, height: 700 });
    await waitingRow(page, approval).click();
    const approve = button(page, 'Approve once');
    await approve.waitFor();
    const box = await approve.boundingBox();
    expect(box?.height).toBeGreaterThanOrEqual(44);
    expect((box?.y ?? 0) + (box?.height ?? 0)).toBeLessThanOrEqual(700);
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(375);
    await page.getByRole('link', { name: 'Back' }).click();
    await waitingRow(page, approval).click();
    await approve.click();
    expect(await verdict(page)).toMatch(/^Approved by you/);
  });

  it('lists what was decided, by whom and when, each with an address', async () => {
    const approval = await ask('notify history');
    await client.approvals.deny(approval.id, 'old');
    const page = await browser.signIn('/inbox?tab=decided&tool=send_note', { apiKey: people.ada });
    await page.getByText('Denied by bootstrap').first().click();
    await expect.poll(() => page.url()).toContain('/console/inbox/');
    expect(page.url()).toContain('tab=decided');
    await page.locator('[data-verdict]').waitFor();
  });

  it('notifies a person who has turned that on and looks elsewhere', async () => {
    const page = await browser.open();
    await page.addInitScript(`
      window.shown = [];
      window.Notification = class extends EventTarget {
        static permission = 'granted';
        static requestPermission = async () => 'granted';
        constructor(title, { body }) { super(); window.shown.push(title + ': ' + body); }
      };
      document.hasFocus = () => false;
    `);
    await page.request.post('/console/login', {
      data: { apiKey: people.ada },
      headers: { origin: server.url },
    });
    await page.goto('/console/inbox');
    await page.getByText('live', { exact: true }).waitFor();
    await button(page, 'Notify me of new requests').click();
    const approval = await ask('notify desktop');
    await expect
      .poll(() => page.evaluate('window.shown'))
      .toEqual(['send_note waits for a decision: to: "operator"  text: "desktop"']);
    await client.approvals.deny(approval.id);
  });

  it('says what happened when the time is over', async () => {
    const shortLived = new TestServer({ RELAY_APPROVAL_TTL_MS: '8000' });
    const visitor = new TestBrowser(shortLived);
    try {
      await shortLived.start();
      const own = createClient({ baseUrl: shortLived.url, apiKey: shortLived.apiKey });
      const page = await visitor.signIn('/inbox');
      await page.getByText('live', { exact: true }).waitFor();
      const approval = await ask('notify late', own);
      await waitingRow(page, approval).click();
      await page.getByText(/expires in \d/).waitFor();
      expect(await verdict(page)).toMatch(/^Expired[\s\S]*no approver decided in time/);
      expect(await page.getByRole('button', { name: /Approve/ }).count()).toBe(0);
      expect(shortLived.notes).toEqual([]);
    } finally {
      await visitor.dispose();
      await shortLived.dispose();
    }
  });

  it('asks whether a call took effect that a crash has interrupted', async () => {
    const orders = ['completed', 'rerun', 'failed'] as const;
    const runs = new Map<string, string>();
    for (const order of orders) {
      const message = `use refund {"order":"${order}"}`;
      const { id } = await client.runs.sendMessage({ message, model: 'demo' });
      runs.set(order, id);
      await expect
        .poll(async () => {
          const { items } = await client.runs.events(id).page();
          return items.some(({ type }) => type === 'tool.started');
        })
        .toBe(true);
    }
    const page = await browser.signIn('/inbox', { apiKey: people.ada });
    await page.getByText('live', { exact: true }).waitFor();
    await server.kill();
    await page.getByText('reconnecting').waitFor();
    await server.start({ RELAY_PORT: new URL(page.url()).port });
    // The page recovers by itself.
    for (const order of orders) {
      const row = page.locator('[data-approval]', { hasText: order });
      await row.waitFor({ timeout: 30_000 });
      await row.click();
      await page
        .getByText(
          'This tool was started before a crash or a stop of the server. Did it take effect?',
        )
        .waitFor();
      await page.getByText('No result was stored.').waitFor();
      await page.getByText(/entry #\d+ of the journal/).waitFor();
      // A key that approves does not answer it.
      await page.keyboard.press('a');
      if (order === 'completed') {
        await button(page, 'It took effect…').click();
        await page.getByLabel('What did it return?').fill('{"refunded":"by hand"}');
        await button(page, 'It took effect, with this result').click();
        expect(await verdict(page)).toMatch(/^Recorded as completed by you/);
      } else if (order === 'rerun') {
        await button(page, 'It did not: run it again').click();
        expect(await verdict(page)).toMatch(/^Run again by you/);
      } else {
        await button(page, 'Treat as failed…').click();
        await button(page, 'Treat as failed').click();
        expect(await verdict(page)).toMatch(/^Recorded as failed by you/);
      }
    }
    for (const [order, id] of runs) {
      await expect.poll(async () => (await client.runs.get(id)).status).toBe('completed');
      const { output } = await client.runs.get(id);
      if (order === 'completed') expect(output).toContain('by hand');
      if (order === 'rerun') expect(output).toContain('rerun');
    }
  });

  it('reports no error and no violation of the content security policy', () => {
    expect(browser.problems).toEqual([]);
  });
});
