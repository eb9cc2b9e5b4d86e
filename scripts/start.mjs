import { spawn } from 'node:child_process';
import { projectNode, root, setUp } from './setup.mjs';

const parent = process.ppid;
setUp();
const server = spawn(projectNode, ['packages/server/src/main.ts'], {
  cwd: root,
  // The server stops when the channel closes: also if this process is killed.
  stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
  // Speeds up the next start: types are already stripped and the code is compiled.
  env: { NODE_COMPILE_CACHE: `${root}/node_modules/.cache/relay`, ...process.env },
});
// The server listens meanwhile, and serves the console as soon as it is there.
const building = spawn(projectNode, ['packages/console/build.mjs'], {
  cwd: root,
  stdio: ['ignore', 'inherit', 'inherit'],
});
building.on('exit', (code) => {
  if (code === null || code === 0) return;
  console.error('The console was not built. Everything else works; `npm start` tries again.');
});
// Forward signals; the server shuts down gracefully on its own.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => server.kill(signal));
// npm is its parent, because its script begins with `exec`, and may be killed too. Other parents may end.
if (process.env.npm_lifecycle_event === 'start') {
  const watching = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(watching);
    server.kill('SIGTERM');
  }, 500);
  watching.unref();
}
server.on('exit', (code, signal) => {
  building.kill();
  process.exitCode = code ?? (signal === null ? 1 : 130);
});
