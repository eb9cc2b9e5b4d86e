import { fileURLToPath } from 'node:url';
import { defineConfig } from 'relay-kit';

export default defineConfig({
  mcpServers: {
    wardrobe: {
      command: process.execPath,
      args: ['--no-warnings', fileURLToPath(new URL('wardrobe.ts', import.meta.url))],
    },
  },
});
