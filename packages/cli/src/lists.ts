/** Lists of the API, as far as they were asked for. */
import type { Listing } from '@relay/sdk';

/** The server gives no larger pages. */
const largestPage = 200;

export function pageSize(limit: number): number {
  return Math.min(limit, largestPage);
}

export async function take<Item>(listing: Listing<Item>, limit: number): Promise<Item[]> {
  const items: Item[] = [];
  for await (const item of listing) {
    items.push(item);
    if (items.length >= limit) break;
  }
  return items;
}
