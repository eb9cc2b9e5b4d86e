import tailwind from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

const server = process.env['RELAY_URL'] ?? 'http://127.0.0.1:4000';
const proxied = ['/v1', '/chat', '/api', '/models', '/health', '/console/login', '/console/logout'];

export default defineConfig({
  root: import.meta.dirname,
  base: '/console/',
  plugins: [react(), tailwind()],
  build: {
    target: 'es2023',
    // The policy of the pages allows no data URLs for scripts and styles.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 600,
    reportCompressedSize: false,
  },
  // `npm run dev` in this folder: pages from the sources, data from a running server.
  server: { proxy: Object.fromEntries(proxied.map((path) => [path, { target: server }])) },
});
