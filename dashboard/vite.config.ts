import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

const api = process.env.CRONFLOW_API ?? 'http://127.0.0.1:8500';

// Builds into the Python package, which serves the page. A test reads the manifest to measure the first page.
export default defineConfig({
  plugins: [svelte()],
  build: { outDir: '../cronflow/_ui', emptyOutDir: true, manifest: 'manifest.json', target: 'es2022', assetsInlineLimit: 0, rolldownOptions: { checks: { pluginTimings: false } } },
  server: { proxy: { '/api': { target: api, ws: true }, '/openapi.json': api } },
  test: { include: ['tests/unit/**/*.test.ts'] },
});
