/** What the docs promise is shown by tests that exist. */
import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';

const root = new URL('../../', import.meta.url);
const page = readFileSync(new URL('docs/reference/guarantees.md', root), 'utf8');
const cited = [...page.matchAll(/^- `([^`]+)`: (.+)$/gm)].map(([, file = '', name = '']) => ({
  file,
  name,
}));
const sections = page.split(/^## /m).slice(1);

describe('the guarantees', () => {
  test('are as many as the boundaries, and each is shown by something', () => {
    expect(sections.length).toBeGreaterThanOrEqual(9);
    for (const section of sections) expect(section).toMatch(/^- `/m);
  });

  test.each(cited)('are shown by $file: $name', ({ file, name }) => {
    expect(existsSync(new URL(file, root))).toBe(true);
    expect(readFileSync(new URL(file, root), 'utf8')).toContain(name);
  });
});
