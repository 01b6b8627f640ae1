import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

// Two pages, nothing inlined: the server's policy is `default-src 'self'`, which forbids data: URLs and inline text.
export default defineConfig({
  plugins: [svelte()],
  base: './',
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rollupOptions: { input: { index: 'index.html', speed: 'speed.html' } },
  },
  server: { proxy: { '/api': 'http://127.0.0.1:9348' } },
  resolve: { conditions: process.env.VITEST ? ['browser'] : undefined },
  test: { include: ['test/unit/**/*.test.ts'], environment: 'node' },
});
