/** A part of the console that is loaded when it is first shown. */
import { type ComponentType, lazy, type LazyExoticComponent } from 'react';

/** Between two attempts while the server does not answer. */
const retryMs = 1_000;

/**
 * The rest of the page stays while the server does not answer: the part is loaded when it is back. A file
 * that the server does not have, as after an update, is an error of the page.
 */
export function lazyPart<Props>(
  load: () => Promise<ComponentType<Props>>,
): LazyExoticComponent<ComponentType<Props>> {
  return lazy(async () => ({ default: await loadWhenReachable(load) }));
}

async function loadWhenReachable<Part>(load: () => Promise<Part>): Promise<Part> {
  try {
    return await load();
  } catch {
    while (!(await isReachable())) await new Promise((resolve) => setTimeout(resolve, retryMs));
    return load();
  }
}

async function isReachable(): Promise<boolean> {
  try {
    await fetch('/console/', { method: 'HEAD', cache: 'no-store' });
    return true;
  } catch {
    return false;
  }
}
