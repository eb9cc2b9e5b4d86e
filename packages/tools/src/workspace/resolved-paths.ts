import type { Locating, ToolContext } from '@relay/core';
import { findPlace, PlaceRefused } from './place.ts';

/** Where path parameters lead, in a folder; one that is left out leads nowhere. */
export async function locateIn(
  root: string,
  given: Readonly<Record<string, string | undefined>>,
): Promise<Locating> {
  const paths: Record<string, string> = {};
  try {
    for (const [name, path] of Object.entries(given)) {
      if (path !== undefined) paths[name] = await findPlace(root, path);
    }
    return { ok: true, resolvedPaths: { root, paths } };
  } catch (error) {
    if (error instanceof PlaceRefused) return { ok: false, problem: error.message };
    throw error;
  }
}

/** The place that a call was allowed for; a path that leads elsewhere by now is refused. */
export async function placeOf(
  root: string,
  given: { readonly name: string; readonly path: string },
  { resolvedPaths }: ToolContext,
): Promise<string> {
  const place = await findPlace(root, given.path);
  const allowed = resolvedPaths?.[given.name];
  if (allowed === undefined || allowed === place) return place;
  throw new PlaceRefused(`${JSON.stringify(given.path)} leads elsewhere than when it was allowed`);
}
