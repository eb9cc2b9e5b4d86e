import type { Tokens } from 'marked';
import { createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { describe, expect, it } from 'vitest';
import { targetOf } from '../../src/text/link-text.tsx';
import {
  continueMarkdown,
  decodeEntities,
  type Lexed,
  lexMarkdown,
  markdownLength,
} from '../../src/text/markdown-tokens.ts';
import { MarkdownView } from '../../src/text/markdown-view.tsx';

const render = (text: string) =>
  renderToStaticMarkup(createElement(MarkdownView, { text, isStreaming: false }));

describe('Markdown', () => {
  it('shows HTML as text', () => {
    const html = render('<script>alert(1)</script>\n\nA <img src=x onerror=alert(1)> b <b>c</b>');
    expect(html).not.toMatch(/<script|<img|<b>/);
    expect(html).toContain('&lt;script&gt;alert(1)&lt;/script&gt;');
    expect(html).toContain('&lt;img src=x onerror=alert(1)&gt;');
  });

  it('shows images as their addresses, and loads none', () => {
    const html = render('![A cat](https://tracker.example/cat.png)');
    expect(html).not.toContain('<img');
    expect(html).toContain('A cat');
    expect(html).toContain('https://tracker.example/cat.png');
  });

  it('makes no link of an address that runs a script or is not of the web', () => {
    const hrefs = [
      'javascript:alert(1)',
      'JaVaScRiPt:alert(1)',
      'java&#115;cript:alert(1)',
      'data:text/html,x',
      'vbscript:x',
      'file:///etc/passwd',
      '/relative',
    ];
    for (const href of hrefs) {
      const html = render(`[click](${href})`);
      expect(html).not.toMatch(/<a|<button|href/);
      expect(html).toContain(decodeEntities(href));
    }
    expect(targetOf('\tjavascript:alert(1)')).toBeUndefined();
  });

  it('shows where a link leads, and does not open it at once', () => {
    const html = render('[bank.example](https://evil.example/login)');
    expect(html).not.toContain('<a');
    expect(html).toMatch(/<button[^>]*>bank\.example<\/button>.*\(evil\.example\)/);
  });

  it('shows the text of a link without the images and links in it', () => {
    const html = render('[![my_build_badge](https://a.example/b.png) `ok_1`](https://b.example/)');
    expect(html).toMatch(/<button[^>]*>my_build_badge ok_1<\/button>/);
    expect(html.match(/<button/g)).toHaveLength(1);
    const long = render(`[${'a'.repeat(2_000)}](https://b.example/)`);
    expect(long).toContain('… (+1,700 characters)</button>');
  });

  it('marks hidden characters, also those that are written as character references', () => {
    expect(render('a\u202eb')).toContain('U+202E RLO');
    expect(render('a&#x202e;b')).toContain('U+202E RLO');
    expect(render('`a\u200bb`')).toContain('U+200B ZWSP');
    expect(render('```\na\u200bb\n```')).toContain('U+200B ZWSP');
    expect(render('1 &lt; 2 &amp;&amp; 3')).toContain('1 &lt; 2 &amp;&amp; 3');
  });

  it('has headings below those of the page', () => {
    expect(render('# One\n\n###### Six')).toMatch(/<h3[^>]*>One<\/h3>.*<h6[^>]*>Six<\/h6>/);
  });

  it.each([
    ['quotes', '>'.repeat(10_000)],
    ['lists', '- '.repeat(10_000)],
    [
      'indented lists',
      Array.from({ length: 200 }, (_, at) => `${' '.repeat(at * 2)}- x`).join('\n'),
    ],
    ['emphasis', `${'*a _b '.repeat(300)}${'_ *'.repeat(300)}`],
    ['cells', `${'|a'.repeat(5_000)}\n${'|-'.repeat(5_000)}\n${'|a\n'.repeat(1_000)}`],
  ])('shows too deeply nested or too many %s as plain text', (_, text) => {
    expect(lexMarkdown(text)).toBeUndefined();
    expect(render(text)).toContain('whitespace-pre-wrap');
  });

  it('reads only the beginning of a very long text as Markdown', () => {
    expect(markdownLength('a\n'.repeat(100_000))).toBeLessThan(5_000);
    expect(markdownLength('a'.repeat(1_000_000))).toBe(40_000);
    const html = render('word '.repeat(200_000));
    expect(html.length).toBeLessThan(100_000);
    expect(html).toContain('characters are not shown');
  });
});

describe('Streamed Markdown', () => {
  const text = [
    '# Title',
    'A paragraph with **bold** text\nand a second line.',
    '- one\n- two\n\n- three',
    '```ts\nconst a = 1;\n\nconst b = 2;\n```',
    '| a | b |\n|---|---|\n| 1 | 2 |',
    '> quote\n> more',
    'The end.',
  ].join('\n\n');

  it('ends as the same tokens as the whole text', () => {
    for (const step of [1, 3, 17]) {
      let lexed: Lexed | undefined;
      for (let end = step; end < text.length + step; end += step) {
        lexed = continueMarkdown(lexed, text.slice(0, end));
      }
      expect(lexed?.tokens?.map(({ type, raw }) => [type, raw])).toEqual(
        lexMarkdown(text)?.map(({ type, raw }) => [type, raw]),
      );
    }
  });

  it('keeps the blocks that are complete as they are', () => {
    const before = continueMarkdown(undefined, text);
    const after = continueMarkdown(before, `${text} And more.`);
    const kept = after.tokens?.filter((token) => before.tokens?.includes(token)).length ?? 0;
    expect(kept).toBeGreaterThan((before.tokens?.length ?? 0) - 5);
    expect(after.tokens?.at(-1)?.raw).toBe('The end. And more.');
  });

  it('takes only the last row of a table apart again, in any pieces', () => {
    const rows = Array.from({ length: 40 }, (_, row) => `| ${row} | **b** \\| c |`);
    const table = ['| a | b |', '|:--|--:|', ...rows].join('\n');
    const whole = `Before.\n\n${table}\n#no heading\nno cells\n\nAfter it\n===\n\n${table}`;
    for (const step of [1, 2, 7, 50]) {
      let lexed: Lexed | undefined;
      for (let end = step; end < whole.length + step; end += step) {
        lexed = continueMarkdown(lexed, whole.slice(0, end));
      }
      expect(lexed?.tokens).toEqual(lexMarkdown(whole));
    }
    const before = continueMarkdown(undefined, table);
    const after = continueMarkdown(before, `${table}\n| 40 | d |`);
    const [first, second] = [before, after].map(({ tokens }) => tokens?.[0] as Tokens.Table);
    expect(second?.rows).toHaveLength(41);
    expect(second?.rows.slice(0, 39).every((row, index) => row === first?.rows[index])).toBe(true);
  });

  it('starts again if the text is another one', () => {
    const before = continueMarkdown(undefined, text);
    expect(continueMarkdown(before, 'Other').tokens?.map(({ raw }) => raw)).toEqual(['Other']);
  });
});
