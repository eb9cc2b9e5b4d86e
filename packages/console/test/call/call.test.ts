import fc from 'fast-check';
import { createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { describe, expect, it } from 'vitest';
import { ArgumentsDiff } from '../../src/call/arguments-diff.tsx';
import { CallView } from '../../src/call/call-view.tsx';
import { changesBetween } from '../../src/call/changes.ts';
import { wordsOfCommand } from '../../src/call/command-words.ts';
import { summaryOf } from '../../src/call/summary.ts';

const render = (props: Parameters<typeof CallView>[0]) =>
  renderToStaticMarkup(createElement(CallView, props));
/** What a person reads. */
const textOf = (html: string) =>
  html
    .replaceAll(/<[^>]*>/g, '')
    .replaceAll('&quot;', '"')
    .replaceAll('&amp;', '&')
    .replaceAll('&gt;', '>');

const segments = [
  { text: 'rm', role: 'command' },
  { text: ' ', role: 'space' },
  { text: '-rf', role: 'option' },
  { text: ' ', role: 'space' },
  { text: '"', role: 'argument' },
  { text: '$X', role: 'expansion' },
  { text: '"', role: 'argument' },
  { text: ';', role: 'operator' },
  { text: 'npm', role: 'command' },
  { text: '\n', role: 'operator' },
  { text: '<(', role: 'unparsed' },
] as const;
const command = segments.map(({ text }) => text).join('');

describe('A command', () => {
  it('is shown word by word, each with what it is', () => {
    const words = wordsOfCommand(segments).map((word) =>
      typeof word === 'string' ? word : [word.pieces.map(({ text }) => text).join(''), word.label],
    );
    expect(words).toEqual([
      ['rm', 'command'],
      ' ',
      ['-rf', 'option'],
      ' ',
      ['"$X"', 'filled in by the shell'],
      [';', ''],
      ['npm', 'command'],
      '\n',
      ['<(', 'not understood'],
    ]);
  });

  it('is shown completely, and says which part was not understood', () => {
    const html = render({
      tool: 'bash',
      params: { command },
      parameters: {
        command: {
          kind: 'command',
          segments: [...segments],
          understood: false,
          effects: [],
        },
      },
    });
    expect(textOf(html)).toContain(command.replace('<', '&lt;'));
    expect(html).toContain('data-label="not understood"');
    expect(html).toContain('does not understand the marked part');
  });

  it('is shown with what it may do, and where it runs', () => {
    const shown = (sandboxed: boolean) =>
      textOf(
        render({
          tool: 'bash',
          params: { command: 'rm x' },
          parameters: {
            command: {
              kind: 'command',
              segments: [{ text: 'rm x', role: 'command' }],
              understood: true,
              effects: ['deletes', 'rewrites-history'],
            },
          },
          preview: { execution: { folder: '/srv/acme', sandboxed } },
        }),
      );
    expect(shown(false)).toContain('deletesrewrites git history');
    expect(shown(false)).toContain('what is not marked may still do harm');
    expect(shown(false)).toMatch(/Runs in \/srv\/acme.*Outside the sandbox/);
    expect(shown(true)).toContain('Runs in /srv/acme, in the sandbox');
    expect(shown(true)).not.toContain('Outside');
  });

  it('is not shown by an explanation of another command', () => {
    const html = render({
      tool: 'bash',
      params: { command: 'rm -rf /' },
      parameters: {
        command: {
          kind: 'command',
          segments: [{ text: 'ls', role: 'command' }],
          understood: true,
          effects: [],
        },
      },
    });
    expect(textOf(html)).toContain('rm -rf /');
    expect(html).not.toContain('data-label');
  });
});

describe('A call', () => {
  it('shows every parameter, with types and hidden characters visible', () => {
    const name = fc.stringMatching(/^[a-z]{1,8}$/);
    const value = fc.oneof(fc.stringMatching(/^[A-Za-z0-9 ]{1,50}$/), fc.integer(), fc.boolean());
    fc.assert(
      fc.property(fc.dictionary(name, value, { noNullPrototype: true }), (params) => {
        const text = textOf(render({ tool: 't', params }));
        for (const [each, content] of Object.entries(params)) {
          expect(text).toContain(
            `${each}${typeof content === 'string' ? `"${content}"` : content}`,
          );
        }
      }),
      { numRuns: 30 },
    );
    expect(render({ tool: 't', params: { a: '\u202ex', b: { c: '\u200b' } } })).toMatch(
      /RLO.*ZWSP/,
    );
  });

  it('shows where paths lead, and that one is outside of the workspace', () => {
    const html = render({
      tool: 'read',
      params: { filePath: './tmp', other: 'x' },
      parameters: { filePath: { kind: 'path', path: './tmp', resolved: '/etc', outside: true } },
      resolvedPaths: { other: '/srv/x' },
      preview: { links: [{ name: 'other', path: 'x', target: '/srv/secret' }] },
    });
    expect(textOf(html)).toMatch(
      /\.\/tmp\s+\/etc.*outside of the workspace.*\/srv\/x.*\/srv\/secret/s,
    );
  });

  it('shows the host of an address in bold, whatever is before it', () => {
    const url = 'https://bank.example@evil.example:8443/a?b=https://bank.example/';
    const html = render({
      tool: 'fetch',
      params: { url },
      parameters: { url: { kind: 'url', url, credentials: true, understood: true } },
    });
    expect(html).toMatch(/<strong[^>]*>evil\.example:8443<\/strong>/);
    expect(html).not.toMatch(/<strong[^>]*>bank/);
    expect(textOf(html)).toContain('A user name or a password is part of this address');
  });

  it('shows an address as it is sent, and as a browser reads it', () => {
    const text = textOf(
      render({ tool: 'fetch', params: { url: 'https://BÜCHER.example/a/../b' } }),
    );
    expect(text).toContain('https://BÜCHER.example/a/../b');
    expect(text).toContain('https://xn--bcher-kva.example/b');
  });

  it('quotes a path that could be read as something else', () => {
    const resolvedPaths = { filePath: '/srv/a b' };
    const text = textOf(render({ tool: 'read', params: { filePath: 'a b ' }, resolvedPaths }));
    expect(text).toContain('"a b "');
    expect(text).toContain('"/srv/a b"');
  });

  it('says which words look like others', () => {
    const params = { text: 'p\u0430ypal' };
    const text = textOf(render({ tool: 't', params, flags: ['mixed-scripts'] }));
    expect(text).toMatch(/Warning: .*p\u0430ypal/);
  });

  it('hides no line of a text that only claims to be a diff', () => {
    const lines = Array.from({ length: 30 }, (_, at) => ` pay ${at} to eve`);
    const text = `@@ -1,30 +1,30 @@\n${lines.join('\n')}`;
    const html = render({ tool: 'send_note', params: { text } });
    for (const line of lines) expect(textOf(html)).toContain(line.trim());
  });

  it('shows its change as a diff, and the parameters as well', () => {
    const html = render({
      tool: 'patch',
      params: { filePath: 'a.txt', diff: '@@ -1 +1 @@\n-a\n+b' },
      preview: { diff: '--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+b' },
    });
    expect(html).toContain('Lines added: 1, removed: 1');
    expect(textOf(html)).toContain('@@ -1 +1 @@\n-a\n+b');
  });

  it('says in words what its flags mean', () => {
    const text = textOf(render({ tool: 't', params: {}, flags: ['bidi', 'newer'] }));
    expect(text).toContain('The request contains characters that reverse the direction of text');
    expect(text).toContain('The request is flagged as newer');
  });

  it('fits on one line', () => {
    expect(summaryOf({ command: 'rm -rf ./tmp && npm publish' })).toBe(
      'rm -rf ./tmp && npm publish',
    );
    expect(summaryOf({ timeoutMs: 5, command: 'a\n  b' })).toBe('a ⏎ b  timeoutMs: 5');
    expect(summaryOf({ to: 'ada', n: '5', m: 5, list: [1, 2], more: { a: 1 } })).toBe(
      'to: "ada"  n: "5"  m: 5  list: [2]  more: {…}',
    );
    expect(summaryOf({ command: 'x'.repeat(1_000_000) })).toMatch(/^x{300}…$/);
    expect(summaryOf('text')).toBe('text');
  });
});

describe('Changed arguments', () => {
  it('are listed field by field', () => {
    expect(
      changesBetween(
        { a: 1, b: { c: [1, 2], d: 'x' }, gone: null, list: [1] },
        { a: '1', b: { c: [1, 3], d: 'x' }, added: '', list: [1, 2] },
      ),
    ).toEqual([
      { path: 'a', before: 1, after: '1' },
      { path: 'b.c[1]', before: 2, after: 3 },
      { path: 'gone', before: null, after: undefined },
      { path: 'list', before: [1], after: [1, 2] },
      { path: 'added', before: undefined, after: '' },
    ]);
  });

  it('are none between equal values, and some between others', () => {
    const json = fc.jsonValue().map((value) => JSON.parse(JSON.stringify(value)) as unknown);
    fc.assert(
      fc.property(json, json, (a, b) => {
        expect(changesBetween(a, structuredClone(a))).toEqual([]);
        expect(changesBetween(a, b).length === 0).toBe(equal(a, b));
      }),
    );
  });

  it('say when a type changes', () => {
    const html = renderToStaticMarkup(
      createElement(ArgumentsDiff, { before: { n: '5' }, after: { n: 5 } }),
    );
    expect(textOf(html)).toContain('text → number');
    expect(textOf(html)).toMatch(/Before: "5".*After: 5/);
  });
});

function equal(a: unknown, b: unknown): boolean {
  try {
    expect(a).toEqual(b);
    return true;
  } catch {
    return false;
  }
}
