import { execFileSync } from 'node:child_process';
import type { Run } from '@relay/protocol/wire';
import { expect, it } from 'vitest';
import { codeSamples } from '../../src/pages/runs/run/code-sample.ts';

it('quotes an input for a shell, and contains no key', () => {
  const input = `it's "$HOME" \`id\` \\ and\nmore`;
  const run = { id: 'r1', agent: 'support', model: 'demo', input, labels: {} } as Run;
  const [start, follow] = codeSamples(run, 'http://127.0.0.1:4000', ['calculator']);
  // The shell itself says what curl would receive.
  const script = `curl() { printf '%s\\n' "\${@: -1}"; }\n${start?.code}`;
  const body = execFileSync('bash', ['-c', script], { encoding: 'utf8' });
  expect(JSON.parse(body)).toEqual({
    agent: 'support',
    model: 'demo',
    input,
    tools: [{ kind: 'builtin', name: 'calculator' }],
  });
  expect(start?.code).toContain('Bearer $RELAY_API_KEY');
  expect(follow?.code).toContain('http://127.0.0.1:4000/v1/runs/r1/stream');
});
