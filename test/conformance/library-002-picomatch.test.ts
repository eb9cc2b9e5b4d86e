/** 002: the matcher of the document itself, with picomatch, beside ours on the syntax it documents. */
import { matchesPermission, type ToolCallLike, type ToolPermission } from '@relay/agents';
import fc from 'fast-check';
import picomatch from 'picomatch';
import { expect, test } from 'vitest';
import { verifies } from './verifies.ts';

// As it stands in the document.
// oxfmt-ignore
function asInTheDocument(toolCall: ToolCallLike, permission: ToolPermission): boolean {
  if (toolCall.name !== permission.tool) {
    return false;  // Tool name must match exactly
  }

  if (!permission.params) {
    return true;  // No param constraints, allow all calls to this tool
  }

  for (const [paramName, pattern] of Object.entries(permission.params)) {
    const value = toolCall.arguments?.[paramName];
    if (value === undefined) {
      return false;  // Param is required but missing
    }
    // oxlint-disable-next-line typescript/no-base-to-string
    if (!picomatch.isMatch(String(value), pattern, { bash: true })) {
      return false;  // Param doesn't match pattern
    }
  }

  return true;  // All patterns matched
}

/** Every pattern of the document, and some that are made of the same signs. */
const patterns = [
  'ls*',
  '*.txt',
  'src/**/*.ts',
  '{read,write}',
  'file[0-9].txt',
  '100',
  'cat *',
  '/app/data/**',
  'ls /app/data*',
  '@(ls|cat|grep|find|head|tail) *',
  'rm -rf /tmp/cache',
  '**',
  '*',
  'src/*',
  'src/**',
  '**/*.ts',
  'file[a-c]*.{txt,md}',
  '{src,lib}/**/*.{ts,tsx}',
  '@(git|npm) @(status|test)',
  '*[0-9]',
];

const words =
  'ls cat grep rm git npm status test read write file data src lib app a b 0 9 100 ' +
  '.txt .md .ts .tsx .hidden ..';
const word = fc.constantFrom(...words.split(' '));
const sign = fc.constantFrom('/', ' ', '', '', '-la', '/app/data', '; ', ' | ', '*', '.', '-');
const text = fc
  .array(fc.tuple(word, sign), { minLength: 1, maxLength: 5 })
  .map((pairs) => pairs.flat().join(''));
const value = fc.oneof(
  { weight: 8, arbitrary: text },
  { weight: 1, arbitrary: fc.integer() },
  { weight: 1, arbitrary: fc.boolean() },
  { weight: 1, arbitrary: fc.constantFrom(...patterns) },
);
const tool = fc.constantFrom('bash', 'bash', 'bash', 'read');
const pattern = fc.constantFrom(...patterns);
const call = fc.record({
  name: tool,
  arguments: fc.record({ command: value, filePath: value }, { requiredKeys: [] }),
});
const permission = fc.record(
  { tool, params: fc.record({ command: pattern, filePath: pattern }, { requiredKeys: [] }) },
  { requiredKeys: ['tool'] },
);

test('ours answers as that of the document does, on 20,000 calls', () => {
  verifies('002:usage:picomatch-bash');
  let matched = 0;
  fc.assert(
    fc.property(call, permission, (made, rule) => {
      const expected = asInTheDocument(made, rule);
      if (expected) matched += 1;
      expect(matchesPermission(made, rule)).toBe(expected);
    }),
    { numRuns: 20_000 },
  );
  expect(matched).toBeGreaterThan(1_000);
});

test('ours answers alike for each pattern and a text that is made for it', () => {
  verifies('002:usage:picomatch-bash');
  const made =
    'ls,ls -la,ls /tmp,l,cat ls,file.txt,data.txt,a/file.txt,.txt,src/a.ts,src/a/b/c.ts,' +
    'src/.a.ts,src/a.js,lib/a.tsx,src,src/,read,write,reads,file0.txt,filea.txt,file10.txt,' +
    'fileb1.md,100,1000,cat x,cat,/app/data/a/b,/app/data,/app/data/.x,ls /app/data/a,tail f,' +
    'rm x,rm -rf /tmp/cache,rm -rf /tmp/cache/x,git status,npm test,git push,ls\nrm,, ,' +
    'src/../../../../etc/passwd.ts,ls; rm -rf /,x9,a/9';
  const texts = made.split(',');
  const differing = patterns.flatMap((each) =>
    texts
      .filter((command) => {
        const asked = { name: 'bash', arguments: { command } };
        const rule = { tool: 'bash', params: { command: each } };
        return matchesPermission(asked, rule) !== asInTheDocument(asked, rule);
      })
      .map((command) => `${each} against ${JSON.stringify(command)}`),
  );
  expect(differing).toEqual([]);
});
