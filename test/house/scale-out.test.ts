/** The files of the scale-out guide agree with the code and with each other. */
import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';

const root = new URL('../../', import.meta.url);
const read = (path: string) => readFileSync(new URL(path, root), 'utf8');
const example = (name: string) => read(`examples/scale-out/${name}`);
const config = read('packages/server/src/config/config.ts');
const files = ['compose.yaml', 'nginx.conf', 'Dockerfile'];

function matches(text: string, pattern: RegExp): string[] {
  return [...text.matchAll(pattern)].map(([, found = '']) => found);
}

describe('the files of the scale-out guide', () => {
  test('are all linked or named by it', () => {
    const guide = read('docs/guides/scale-out.md');
    expect(guide).toContain('examples/scale-out');
    for (const link of matches(guide, /\]\((\.\.\/[^)#]+)/g)) {
      expect([link, existsSync(new URL(`docs/guides/${link}`, root))]).toEqual([link, true]);
    }
  });

  test.each([...files.map((name) => `examples/scale-out/${name}`), 'docs/guides/scale-out.md'])(
    '%s names only variables that exist',
    (path) => {
      const known = new Set(matches(config, /'(RELAY_[A-Z_]+)'/g));
      const own = new Set(['RELAY_URL', 'RELAY_API_KEY']);
      const named = matches(read(path), /\b(RELAY_[A-Z_]+)\b/g);
      expect(named.filter((name) => !known.has(name) && !own.has(name))).toEqual([]);
    },
  );

  test('balance between exactly the nodes of the compose file', () => {
    const nodes = matches(example('compose.yaml'), /^ {2}(relay-\d+):/gm);
    expect(nodes).toHaveLength(3);
    const balanced = matches(example('nginx.conf'), /^ {4}server ([^:]+):4000/gm);
    expect(balanced).toEqual(nodes);
    expect(example('compose.yaml')).toContain(`depends_on: [${nodes.join(', ')}]`);
    // If all but one are down, a request still reaches the last one.
    const [tries] = matches(example('nginx.conf'), /proxy_next_upstream_tries (\d+)/g);
    expect(Number(tries)).toBe(nodes.length);
  });

  test('start an existing entry, and allow a graceful stop', () => {
    const [entry = ''] = matches(example('Dockerfile'), /^CMD \["node", "([^"]+)"\]/gm);
    expect(existsSync(new URL(entry, root))).toBe(true);
    const [grace] = matches(example('compose.yaml'), /stop_grace_period: (\d+)s/g);
    const [stopTimeout] = matches(read('examples/deploy/relay.service'), /TimeoutStopSec=(\d+)/g);
    const [tools] = matches(read('packages/core/src/engine.ts'), /stopTimeoutMs: (\d+)_000/g);
    const [closing] = matches(read('packages/server/src/serve.ts'), /closeTimeoutMs = (\d+)_000/g);
    for (const seconds of [grace, stopTimeout]) {
      expect(Number(seconds)).toBeGreaterThan(Number(tools) + Number(closing));
    }
  });

  test('do not buffer streams', () => {
    const nginx = example('nginx.conf');
    expect(nginx).toContain('proxy_buffering off;');
    const [wait] = matches(nginx, /proxy_read_timeout (\d+)s/g);
    expect(Number(wait)).toBeGreaterThan(15);
    const [largest] = matches(nginx, /client_max_body_size (\d+)m/g);
    expect(Number(largest)).toBeGreaterThanOrEqual(10);
  });
});
