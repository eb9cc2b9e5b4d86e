import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decideCall, type RuleSet } from '../../src/permission/decide.ts';
import { allowsUrl, deniesUrl, urlReadings } from '../../src/permission/url.ts';

const call = (url: unknown) => ({ toolCallId: 'tc-1', name: 'fetch', arguments: { url } });
const rules = (allow: string | undefined, deny?: string): RuleSet => ({
  permissions: {
    allowlist: [
      allow === undefined ? { tool: 'fetch' } : { tool: 'fetch', params: { url: allow } },
    ],
    denylist: deny === undefined ? [] : [{ tool: 'fetch', params: { url: deny } }],
  },
  usedOnce: [],
  grants: [],
  builtinAllow: false,
  kinds: { url: 'url' },
});
const on = (pattern: string, url: unknown): string =>
  decideCall(call(url), rules(pattern)).decision;
const API = 'https://api.example.com/*';

describe('a URL under a pattern', () => {
  it.each([
    [API, 'https://api.example.com/'],
    [API, 'https://api.example.com/v1/x?y=z#part'],
    [API, 'https://api.example.com/a%2Fb'],
    ['https://api.example.com', 'https://api.example.com'],
    ['https://api.example.com:443/*', 'https://api.example.com:443/x'],
    ['https://api.example.com:8443/*', 'https://api.example.com:8443/x'],
    ['https://*.example.com/*', 'https://a.b.example.com/x'],
    ['https://{a,b}.example.com/*', 'https://b.example.com/x'],
    ['http?(s)://example.com/*', 'http://example.com/x'],
    ['https://api.example.com*', 'https://api.example.com/x'],
    ['http://localhost:*/**', 'http://localhost:3000/x'],
    ['https://*', 'https://anywhere.example/'],
    ['https://*/**', 'https://anywhere.example/x'],
    ['*', 'http://anywhere.example/x'],
    ['**', 'http://anywhere.example/x'],
  ])('%s allows %s', (pattern, url) => {
    expect(on(pattern, url)).toBe('allow');
  });

  it.each([
    [API, 'https://api.example.com.evil.net/'],
    [API, 'https://api.example.com@evil.net/'],
    [API, 'https://api.example.com:x@evil.net/'],
    [API, 'https://user:pass@api.example.com/'],
    [API, 'https://api.example.com\\@evil.net/'],
    [API, 'https://api.example.com/\\evil'],
    [API, 'https:\\\\api.example.com/'],
    [API, 'https:/api.example.com/'],
    [API, 'https:///api.example.com/'],
    [API, ' https://api.example.com/'],
    [API, 'https://api.example.com/ x'],
    [API, 'https://api.example.com/\tx'],
    [API, 'https://api.example.com/x\n'],
    [API, 'https://api.example.com/\0'],
    [API, 'http://api.example.com/'],
    [API, 'https://api.example.com:8443/'],
    [API, '//api.example.com/'],
    [API, 'api.example.com/'],
    ['https://api.example.com/v1/*', 'https://api.example.com/v1/../admin'],
    ['https://api.example.com/v1/*', 'https://api.example.com/v1/%2e%2e/admin'],
    ['https://api.example.com/v1/*', 'https://api.example.com/v1/..%2fadmin'],
    ['https://api.example.com/v1/*', 'https://api.example.com/v1/%252e%252e%252fadmin'],
    ['https://api.example.com/v1/*', 'https://api.example.com/v1/..;/admin'],
    ['https://*.example.com/*', 'https://evil.net/.example.com/x'],
    ['https://*.example.com/*', 'https://evil.net/?.example.com/x'],
    ['https://*.example.com/*', 'https://evil.net#.example.com/x'],
    ['*://api.example.com/*', 'https://evil.net/?x=://api.example.com/y'],
    ['*api.example.com/*', 'https://evil.net/api.example.com/y'],
    ['https://api.example.com*', 'https://api.example.com.evil.net/'],
    ['https://{api.example.com*,b.com}/**', 'https://api.example.com.evil.net/x'],
    ['https://10.0.0.*', 'https://10.0.0.1.evil.net/'],
    ['*/x', 'https://evil.net/x'],
    ['*', 'file:///etc/passwd'],
    ['*', 'ftp://example.com/'],
    ['*', 'javascript:alert(1)'],
    ['*', 'data:text/html,x'],
    ['*', 'http://'],
    ['*', 'http://exämple.com/'],
    ['*', 'http://[::1'],
    ['*', ''],
    ['https://api.example.com/*#ok', 'https://api.example.com/admin#ok'],
  ])('%s does not allow %j', (pattern, url) => {
    expect(on(pattern, url)).toBe('ask');
  });

  it('never matches if it is not a scalar', () => {
    for (const url of [['https://api.example.com/'], { href: 'https://api.example.com/' }, null]) {
      expect(on('*', url)).toBe('ask');
    }
  });
});

describe('a URL under a deny pattern', () => {
  it.each([
    ['https://evil.net/*', 'https://evil.net/x'],
    ['https://evil.net/*', 'https://evil.net'],
    ['https://evil.net/*', 'HTTPS://EVIL.net/x'],
    ['https://EVIL.net/*', 'https://evil.net/x'],
    ['https://evil.net/*', 'https://evil.net:443/x'],
    ['https://evil.net:443/*', 'https://evil.net/x'],
    ['https://evil.net/*', 'https://user:pass@evil.net/x'],
    ['https://evil.net/*', 'https:\\\\evil.net\\x'],
    ['https://evil.net/*', ' https:/evil.net/x'],
    ['https://evil.net/*', 'https://ev\til.net/x'],
    ['https://evil.net/*', 'https://evil.net./x'],
    ['https://evil.net/admin*', 'https://evil.net/a/../admin'],
    ['http://127.0.0.1*', 'http://2130706433/'],
    ['http://127.0.0.1*', 'http://0x7f.1/'],
    ['file:*', 'FILE:///etc/passwd'],
    ['*@*', 'https://user@evil.net/'],
  ])('%s denies %j, however it is written', (deny, url) => {
    expect(decideCall(call(url), rules(undefined, deny)).decision).toBe('deny');
    expect(decideCall(call(url), rules('*', deny)).decision).toBe('deny');
  });

  it('is asked under a rule of the whole tool if it cannot be read', () => {
    const look = (url: unknown) =>
      decideCall(call(url), rules(undefined, 'https://evil.net/*')).decision;
    expect(look('https://example.com/x')).toBe('allow');
    expect(look('//evil.net/x')).toBe('ask');
    expect(look('evil.net/x')).toBe('ask');
    expect(look(['https://evil.net/x'])).toBe('ask');
    expect(decideCall(call('evil.net'), rules(undefined)).decision).toBe('allow');
  });
});

describe('whatever the URL', () => {
  it('an allowed one leads to the host that the pattern names', () => {
    const piece = fc.constantFrom(
      'https://',
      'http://',
      'api.example.com',
      'evil.net',
      '/',
      '\\',
      '@',
      ':',
      '.',
      '?',
      '#',
      '%2f',
      '..',
      'x',
      ' ',
      '//',
    );
    const tail = fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join(''));
    fc.assert(
      fc.property(
        fc.constantFrom('', 'https://', 'https://api.example.com'),
        tail,
        (front, end) => {
          const url = front + end;
          if (on(API, url) !== 'allow') return;
          expect(new URL(url).host).toBe('api.example.com');
        },
      ),
      { numRuns: 5_000 },
    );
  });

  it('nothing throws', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary' }),
        fc.oneof(fc.webUrl(), fc.string()),
        (pattern, url) => {
          allowsUrl(pattern, url);
          deniesUrl(pattern, urlReadings(url));
          allowsUrl(url, url);
          deniesUrl(url, urlReadings(pattern));
        },
      ),
      { numRuns: 1_000 },
    );
  });
});
