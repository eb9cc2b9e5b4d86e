import { explainStart, serveProcess } from './process.ts';

try {
  await serveProcess({ env: process.env, cwd: process.cwd() });
} catch (error) {
  console.error(explainStart(error) ?? (error instanceof Error ? error.stack : String(error)));
  process.exitCode = 1;
}
