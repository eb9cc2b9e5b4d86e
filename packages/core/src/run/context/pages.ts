import type { StoredEvent } from '@relay/protocol';
import type { TenantStore } from '../../ports/index.ts';

const pageSize = 2000;

/** A journal from one place to another, page by page; it may end before `to`. */
export async function* pagesOf(
  store: TenantStore,
  runId: string,
  span: { after: number; to: number },
): AsyncGenerator<StoredEvent[], void> {
  let { after } = span;
  while (after < span.to) {
    const limit = Math.min(pageSize, span.to - after);
    const page = await store.readEvents(runId, { after, limit });
    if (page.length === 0) return;
    yield page;
    after += page.length;
  }
}
