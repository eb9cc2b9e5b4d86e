import { explainStartError, serveProcess } from './serve.ts';

try {
  await serveProcess({ env: process.env, cwd: process.cwd() });
} catch (error) {
  console.error(explainStartError(error) ?? (error instanceof Error ? error.stack : String(error)));
  process.exitCode = 1;
}
