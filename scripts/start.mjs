import { spawn } from 'node:child_process';
import { projectNode, root, setUp } from './setup.mjs';

setUp();
const server = spawn(projectNode, ['packages/server/src/main.ts'], {
  cwd: root,
  stdio: 'inherit',
  // The next start need not strip types and compile again.
  env: { NODE_COMPILE_CACHE: `${root}/node_modules/.cache/relay`, ...process.env },
});
// The server leaves in its own time; this process only passes the word on.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => server.kill(signal));
server.on('exit', (code, signal) => {
  process.exitCode = code ?? (signal === null ? 1 : 130);
});
