/** A server with the options of a script, in a process of its own. */
import { serve } from '@relay/server';
import { scriptedOptions } from './scripted-options.ts';

await serve({
  env: process.env,
  cwd: process.cwd(),
  terminal: false,
  print: (line) => console.log(line),
  ...scriptedOptions(process.env['TEST_PROVIDER_URL'] ?? ''),
});
