/**
 * Preloaded by `relay dev` into its server: reports each file of the project that is imported, also one that does
 * not exist yet or does not parse, so that `relay dev` can watch it.
 */
import { registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';
import { tellDev } from './messages.ts';

/** Relay itself, and other dependencies, do not change while somebody works on a project. */
const isDependency = (url: string) => url.includes('/node_modules/') || url.startsWith(relay);
const relay = new URL('../../../', import.meta.url).href;
const reported = new Set<string>();

function report(url: string): void {
  if (!url.startsWith('file:') || isDependency(url) || reported.has(url)) return;
  reported.add(url);
  tellDev({ imported: fileURLToPath(url) });
}

registerHooks({
  resolve(specifier, context, next) {
    try {
      return next(specifier, context);
    } catch (error) {
      if (/^\.{0,2}\//.test(specifier)) report(new URL(specifier, context.parentURL).href);
      throw error;
    }
  },
  load(url, context, next) {
    report(url);
    return next(url, context);
  },
});
