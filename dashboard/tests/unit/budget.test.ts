import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';

const UI = fileURLToPath(new URL('../../../cronflow/_ui/', import.meta.url));
const BUDGET = 90 * 1024;

interface Chunk {
  file: string;
  imports?: string[];
}

describe('the build', () => {
  it.skipIf(!existsSync(`${UI}manifest.json`))('loads at most 90 KB of gzipped JavaScript for the first page', () => {
    const manifest = JSON.parse(readFileSync(`${UI}manifest.json`, 'utf8')) as Record<string, Chunk>;
    const wanted = new Set<string>();
    const add = (key: string) => {
      if (wanted.has(key)) return;
      wanted.add(key);
      manifest[key]?.imports?.forEach(add);
    };
    add('index.html');
    add('src/views/Overview.svelte');
    const size = [...wanted].reduce((sum, key) => sum + gzipSync(readFileSync(UI + (manifest[key]?.file ?? ''))).length, 0);
    expect(wanted.size).toBeGreaterThan(2);
    expect(size).toBeLessThanOrEqual(BUDGET);
    console.info(`first page: ${(size / 1024).toFixed(1)} KB gzipped in ${wanted.size} files`);
  });
});
