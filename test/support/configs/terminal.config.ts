/** Terminals as sessions. */
import { defineConfig, pty } from '@relay/server';

export default defineConfig({
  harnesses: [pty({ name: 'shell', command: ['bash', '--norc', '--noprofile'] })],
});
