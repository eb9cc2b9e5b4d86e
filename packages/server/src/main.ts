import { enableCompileCache } from 'node:module';
import { fileURLToPath } from 'node:url';

// Before the rest is loaded: types are stripped and code is compiled only once.
enableCompileCache(fileURLToPath(new URL('../../../node_modules/.cache/relay', import.meta.url)));
const { explainStartError, serveProcess, startErrorExcerpt } = await import('./serve.ts');

try {
  await serveProcess({ env: process.env, cwd: process.cwd() });
} catch (error) {
  console.error(explainStartError(error) ?? (error instanceof Error ? error.stack : String(error)));
  const excerpt = startErrorExcerpt(error);
  if (excerpt !== undefined) console.error(`\n${excerpt}\n`);
  process.exitCode = 1;
}
