/** The pending approvals in memory: order, single changes, reloads and races. */
import type { Approval } from '@relay/protocol/wire';
import type { Page } from '@relay/sdk';
import { describe, expect, it, vi } from 'vitest';
import { ApprovalStore, byUrgency } from '../src/api/approval-store.ts';

function approval(id: string, change: Partial<Approval> = {}): Approval {
  return {
    id,
    status: 'pending',
    kind: 'permission',
    agentPath: ['assistant'],
    tool: 'send_note',
    params: { text: id },
    display: { text: id, flags: [] },
    digest: `digest of ${id}`,
    requestedAt: '2026-01-01T00:00:00.000Z',
    expiresAt: '2026-01-02T00:00:00.000Z',
    ...change,
  };
}

/** A server: what is in `stored` can be read until the test holds the responses back. */
class Server {
  readonly stored = new Map<string, Approval>();
  readonly perPage: number;
  pages = 0;
  gets = 0;
  #held: (() => void)[] | undefined;

  constructor(ids: readonly string[], perPage = 2) {
    for (const id of ids) this.set(approval(id));
    this.perPage = perPage;
  }

  set(each: Approval): void {
    this.stored.set(each.id, each);
  }

  hold(): void {
    this.#held = [];
  }

  release(): void {
    for (const respond of this.#held ?? []) respond();
    this.#held = undefined;
  }

  async page(cursor: string | undefined): Promise<Page<Approval>> {
    this.pages += 1;
    const all = [...this.stored.values()].filter(({ status }) => status === 'pending');
    const start = Number(cursor ?? 0);
    const end = start + this.perPage;
    const page = {
      items: all.slice(start, end),
      nextCursor: end < all.length ? String(end) : null,
    };
    return this.#respond(page);
  }

  async get(id: string) {
    this.gets += 1;
    const found = this.stored.get(id);
    if (found === undefined) throw new Error(`There is no approval ${id}`);
    return this.#respond({ approval: found, isListed: found.status === 'pending' });
  }

  async #respond<Value>(value: Value): Promise<Value> {
    const held = this.#held;
    if (held !== undefined) await new Promise<void>((resolve) => held.push(resolve));
    return value;
  }
}

const idsOf = (store: ApprovalStore) => store.state().pending.map(({ id }) => id);

describe('the order of pending approvals', () => {
  it('puts unknown outcomes first, then flagged calls, then what expires next', () => {
    const sorted = [
      approval('late', { expiresAt: '2026-01-03T00:00:00.000Z' }),
      approval('early', { expiresAt: '2026-01-01T12:00:00.000Z' }),
      approval('flagged', { display: { text: '', flags: ['bidi'] } }),
      approval('crashed', { kind: 'outcome', expiresAt: '2026-01-09T00:00:00.000Z' }),
      approval('b'),
      approval('a'),
    ].toSorted(byUrgency);
    expect(sorted.map(({ id }) => id)).toEqual(['crashed', 'flagged', 'early', 'a', 'b', 'late']);
  });
});

describe('the store of pending approvals', () => {
  it('loads one page for the count, and all pages while the inbox is open', async () => {
    const server = new Server(['a', 'b', 'c', 'd', 'e']);
    const store = new ApprovalStore(server);
    await store.reload();
    expect(idsOf(store)).toEqual(['a', 'b']);
    expect(store.state()).toMatchObject({ isComplete: false, isLoading: false });
    const stop = store.readAll();
    await vi.waitFor(() => expect(store.state().isComplete).toBe(true));
    expect(idsOf(store)).toEqual(['a', 'b', 'c', 'd', 'e']);
    expect(server.pages).toBe(3);
    stop();
    await store.reload();
    expect(idsOf(store)).toEqual(['a', 'b']);
  });

  it('reads the one approval that has changed, and keeps a decided one readable', async () => {
    const server = new Server(['a', 'b']);
    const store = new ApprovalStore(server);
    await store.reload();
    server.set(approval('a', { status: 'approved' }));
    store.change('a');
    await vi.waitFor(() => expect(idsOf(store)).toEqual(['b']));
    expect(store.get('a')?.status).toBe('approved');
    expect(server).toMatchObject({ pages: 1, gets: 1 });
  });

  it('reports approvals that are requested from now on, and not those that it has loaded', async () => {
    const server = new Server(['a']);
    const store = new ApprovalStore(server);
    const reported: string[] = [];
    store.onNew(({ id }) => reported.push(id));
    await store.reload();
    server.set(approval('b'));
    store.change('b');
    store.change('a');
    await vi.waitFor(() => expect(idsOf(store)).toEqual(['a', 'b']));
    await vi.waitFor(() => expect(server.gets).toBe(2));
    expect(reported).toEqual(['b']);
  });

  it('does not take in what was on its way when it was cleared', async () => {
    const server = new Server(['a']);
    const store = new ApprovalStore(server);
    await store.reload();
    const reported: string[] = [];
    store.onNew(({ id }) => reported.push(id));
    server.hold();
    store.change('a');
    store.change('gone');
    const reloaded = store.reload();
    store.clear();
    server.release();
    await reloaded;
    await vi.waitFor(() => expect(server.gets).toBe(2));
    expect([idsOf(store), store.get('a'), store.errorOf('gone'), reported]).toEqual([
      [],
      undefined,
      undefined,
      [],
    ]);
  });

  it('does not let a response that was read earlier overwrite a decision', async () => {
    const server = new Server(['a']);
    const store = new ApprovalStore(server);
    await store.reload();
    server.hold();
    const reloaded = store.reload();
    store.put(approval('a', { status: 'denied' }));
    server.release();
    await reloaded;
    expect(store.get('a')?.status).toBe('denied');
    expect(idsOf(store)).toEqual([]);
  });

  it('reads an approval again that changes while it is being read', async () => {
    const server = new Server(['a']);
    const store = new ApprovalStore(server);
    await store.reload();
    server.hold();
    store.change('a');
    server.set(approval('a', { status: 'expired' }));
    store.change('a');
    server.release();
    await vi.waitFor(() => expect(store.get('a')?.status).toBe('expired'));
    expect(server.gets).toBe(2);
  });

  it('forgets after a reload what is no longer pending, and reads what is shown again', async () => {
    const server = new Server(['a', 'b', 'c'], 10);
    const store = new ApprovalStore(server);
    store.show('a');
    await store.reload();
    // Both were decided while the connection was lost.
    server.set(approval('a', { status: 'approved' }));
    server.set(approval('b', { status: 'approved' }));
    await store.reload();
    await vi.waitFor(() => expect(store.get('a')?.status).toBe('approved'));
    expect(store.get('b')).toBeUndefined();
    expect(idsOf(store)).toEqual(['c']);
  });

  it('loads the list again instead of reading hundreds of changed approvals one by one', async () => {
    const ids = Array.from({ length: 300 }, (_, index) => `id ${index}`);
    const server = new Server([], 1_000);
    const store = new ApprovalStore(server);
    await store.reload();
    server.hold();
    for (const id of ids) server.set(approval(id));
    for (const id of ids) store.change(id);
    server.release();
    await vi.waitFor(() => expect(idsOf(store)).toHaveLength(300));
    expect(server.pages).toBe(2);
    expect(server.gets).toBeLessThan(110);
  });

  it('keeps what it knows when a reload fails, and says why', async () => {
    const server = new Server(['a']);
    const store = new ApprovalStore(server);
    await store.reload();
    vi.spyOn(server, 'page').mockRejectedValueOnce(new Error('The server does not answer'));
    await store.reload();
    expect(idsOf(store)).toEqual(['a']);
    expect(store.state().error).toMatchObject({ message: 'The server does not answer' });
    await store.reload();
    expect(store.state().error).toBeUndefined();
  });

  it('forgets everything at the end of a sign-in, also what is still being loaded', async () => {
    const server = new Server(['a']);
    const store = new ApprovalStore(server);
    server.hold();
    const reloaded = store.reload();
    store.clear();
    server.release();
    await reloaded;
    expect(idsOf(store)).toEqual([]);
    expect(store.get('a')).toBeUndefined();
  });
});
