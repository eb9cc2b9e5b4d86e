import {
  errorTable,
  openApiDocument,
  type OpenApiDocument,
  type Route,
  routes,
} from '@relay/protocol';
import { describe, expect, it } from 'vitest';
import { docsPage, shapeOf } from '../../../src/http/views/docs-page.ts';

const page = docsPage(openApiDocument('1.2.3'));
const table = Object.entries(routes) as [string, Route][];

/** The part of the page that is about one route. */
function articleOf(name: string, of = page): string {
  const [, article] = new RegExp(`<article id="${name}">([^]*?)</article>`).exec(of) ?? [];
  if (article === undefined) throw new Error(`There is nothing about ${name}`);
  return article;
}

describe('docsPage', () => {
  it('shows the version and links to the document', () => {
    expect(page).toMatch(/^<!doctype html>\n<html lang="en">/);
    expect(page).toContain('Version 1.2.3');
    expect(page).toContain('<a href="/openapi.json">');
  });

  it('starts with the authentication and ends with the system routes', () => {
    expect(page).toContain('<code>Authorization: Bearer relay_live_…</code>');
    const sections = [...page.matchAll(/<section id="([^"]+)">/g)].map(([, tag]) => tag);
    expect(sections.slice(0, 3)).toEqual(['models', 'agents', 'tools']);
    expect(sections.slice(-2)).toEqual(['system', 'types']);
  });

  it.each(table)('shows %s with its method, path and summary', (name, route) => {
    const article = articleOf(name);
    const path = route.path.replaceAll(/:(\w+)/g, '{$1}');
    expect(article).toContain(`>${route.method}</span> <code>${path}</code>`);
    expect(article).toContain(`<p>${route.summary}. `);
    for (const code of route.errors) {
      expect(article).toContain(`<b>${errorTable[code].status}</b>`);
      expect(article).toContain(`<code>${code}</code>: ${errorTable[code].title}`);
    }
  });

  it('shows the required scopes', () => {
    expect(articleOf('health')).toContain('<em>Public.</em>');
    expect(articleOf('startRun')).toContain(
      '<em>Needs a key with the scope <code>runs</code>.</em>',
    );
    expect(articleOf('startChat')).toContain('<code>runs</code>, or none on this machine.</em>');
  });

  it('shows bodies, parameters and responses', () => {
    const start = articleOf('startRun');
    expect(start).toContain('<summary>Body</summary>');
    expect(start).toContain('labels?: { [name]: string (0–256 characters) }');
    expect(start).toContain('permissions?: <a href="#type-Permissions">Permissions</a>');
    expect(start).toContain('<code>Idempotency-Key</code> <i>optional</i>');
    const list = articleOf('listRuns');
    expect(list).toContain('<code>limit</code> <i>optional</i>');
    expect(list).toContain('Page size, from 1 to 200. Default: 50');
    expect(list).toContain('<summary>Response</summary>');
    expect(articleOf('getRun')).toContain('<code>id</code></td>');
    expect(articleOf('revokeKey')).not.toContain('<summary>');
  });

  it('links to one section per tag', () => {
    const [, nav = ''] = /<nav>(.*)<\/nav>/.exec(page) ?? [];
    const linked = [...nav.matchAll(/<a href="#([^"]+)">/g)].map(([, id]) => id);
    const sections = [...page.matchAll(/<section id="([^"]+)">/g)].map(([, id]) => id);
    expect(linked).toEqual(sections);
    expect(new Set(sections).size).toBe(sections.length);
    expect(sections).toContain('api/chat');
    const ids = [...page.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id);
    const targets = [...page.matchAll(/ href="#([^"]+)"/g)].map(([, id]) => id);
    expect(targets.filter((target) => !ids.includes(target))).toEqual([]);
    expect(new Set(ids).size).toBe(ids.length);
  });

  it('has no external resources and no scripts', () => {
    const markup = page.replace(/<style>[^]*<\/style>/, '');
    expect(markup).not.toMatch(/<(script|link|img|iframe|object|embed|base|form)\b/i);
    expect(markup).not.toMatch(/\s(src|on\w+|style)=/i);
    expect(markup).not.toMatch(/href="(?!#|\/openapi\.json")/);
    expect(page).not.toMatch(/url\(|@import/);
  });

  it('is well-formed', () => {
    expect(unbalanced(page)).toEqual([]);
  });
});

const hostile = `"'><script>alert(1)</script>&lt;`;

/** The same document with something hostile in every text and in every name. */
function poisoned(value: unknown, key = ''): unknown {
  if (typeof value === 'string') return key === 'openapi' ? value : `${value}${hostile}`;
  if (Array.isArray(value)) return value.map((each) => poisoned(each));
  if (typeof value !== 'object' || value === null) return value;
  const kept = ['application/json', 'properties', 'schema', 'content'];
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => {
      const isOurs = /^[a-z]+$/i.test(name) || kept.includes(name);
      return [isOurs ? name : `${name}${hostile}`, poisoned(inner, name)];
    }),
  );
}

describe('text of the document', () => {
  const poisonedPage = docsPage(poisoned(openApiDocument('1.2.3')) as OpenApiDocument);

  it('is escaped', () => {
    expect(poisonedPage).toContain('alert(1)');
    expect(poisonedPage).not.toContain('<script');
    expect(poisonedPage).not.toContain(`"'>`);
    // An entity in the text is escaped again.
    expect(poisonedPage).toContain('&#38;lt;');
    expect(unbalanced(poisonedPage)).toEqual([]);
    const tags = new Set([...poisonedPage.matchAll(/<\/?([a-z0-9!]+)/g)].map(([, tag]) => tag));
    expect([...tags].filter((tag) => !allowed.includes(tag ?? ''))).toEqual([]);
  });

  it('does not break out of an attribute', () => {
    for (const [tag] of poisonedPage.matchAll(/<[a-z][^>]*>/g)) {
      expect(tag).toMatch(/^<[a-z0-9]+( [a-z-]+="[^"<>]*")*>$/);
    }
  });
});

const allowed =
  '!doctype html head meta title style body header h1 p a nav main section h2 article h3 span code em table tr th td i details summary pre b br'.split(
    ' ',
  );

/** Tags that are not closed, or closed without having been opened. */
function unbalanced(html: string): string[] {
  const open: string[] = [];
  const odd: string[] = [];
  for (const [, slash, tag = ''] of html.matchAll(/<(\/?)([a-z0-9]+)[^>]*>/g)) {
    if (['meta', 'br'].includes(tag)) continue;
    if (slash === '') open.push(tag);
    else if (open.pop() !== tag) odd.push(tag);
  }
  return [...odd, ...open];
}

type Schema = Parameters<typeof shapeOf>[0];

describe('shapeOf', () => {
  it.each<[Schema, string]>([
    [{ type: 'string' }, 'string'],
    [{ type: 'string', format: 'uuid', pattern: '^x$' }, 'uuid'],
    [{ type: 'string', minLength: 1, maxLength: 64 }, 'string (1–64 characters)'],
    [{ type: 'integer', minimum: 1 }, 'integer (at least 1)'],
    [{ type: 'integer', minimum: Number.MIN_SAFE_INTEGER }, 'integer'],
    [{ type: ['string', 'null'] }, 'string | null'],
    [{ const: 'a<b' }, '&#34;a&#60;b&#34;'],
    [{ enum: ['a', 1] }, '&#34;a&#34; | 1'],
    [{ anyOf: [{ type: 'string' }, { type: 'string' }, { type: 'null' }] }, 'string | null'],
    [{ allOf: [{ type: 'string' }, { const: 1 }] }, 'string & 1'],
    [{ type: 'array', items: { enum: [1, 2] }, maxItems: 9 }, '(1 | 2)[] (0–9)'],
    [{ type: 'object', additionalProperties: { type: 'boolean' } }, '{ [name]: boolean }'],
    [{ type: 'object', additionalProperties: false }, '{}'],
    [{ $ref: '#/components/schemas/Run' }, '<a href="#type-Run">Run</a>'],
    [{ $ref: '#/components/schemas/Json' }, 'JSON'],
    [{}, 'JSON'],
    [true, 'JSON'],
  ])('%j is %s', (schema, shape) => {
    expect(shapeOf(schema)).toBe(shape);
  });

  it('writes one field per line, marks optional ones and adds descriptions', () => {
    const inner: Schema = {
      type: 'object',
      properties: { b: { type: 'boolean' } },
      required: ['b'],
    };
    const schema: Schema = {
      type: 'object',
      properties: { a: { type: 'string', description: 'A <name>' }, inner },
      required: ['inner'],
    };
    expect(shapeOf(schema)).toBe(
      '{\n  a?: string <i>A &#60;name&#62;</i>\n  inner: {\n    b: boolean\n  }\n}',
    );
  });
});
