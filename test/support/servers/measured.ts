/** A server that prints its memory use, after a garbage collection, and its CPU time on SIGUSR2. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { serve } from '@relay/server';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

// First, since the signal may come as soon as the server listens.
process.on('SIGUSR2', () => {
  for (let n = 0; n < 3; n += 1) collect();
  const { heapUsed, external, rss } = process.memoryUsage();
  const { user, system } = process.cpuUsage();
  const cpuMs = (user + system) / 1000;
  console.log(`holds ${JSON.stringify({ bytes: heapUsed + external, rss, cpuMs })}`);
});
const { env } = process;
await serve({ env, cwd: process.cwd(), terminal: false, print: (line) => console.log(line) });
