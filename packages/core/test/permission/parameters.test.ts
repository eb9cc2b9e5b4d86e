import { expect, it } from 'vitest';
import { explainParameters } from '../../src/permission/parameters.ts';

it('explains texts of the kinds that the tool declares, and nothing else', () => {
  const kinds = { command: 'command', cwd: 'path', url: 'url', note: 'text' } as const;
  const input = { command: 'ls', cwd: ['a'], url: null, note: 'x', other: 'y' };
  expect(explainParameters(input, kinds)).toEqual({
    command: {
      kind: 'command',
      segments: [{ text: 'ls', role: 'command' }],
      understood: true,
      effects: [],
    },
  });
  expect(explainParameters({ command: 'ls' }, {})).toBeUndefined();
  const inherited = Object.fromEntries([['toString', 'command' as const]]);
  expect(explainParameters({}, inherited)).toBeUndefined();
  expect(explainParameters({ command: 'ls "' }, kinds)).toMatchObject({
    command: { understood: false },
  });
});

it.each([
  ['/ws', '/ws/a', false],
  ['/ws', '/ws', false],
  ['/ws', '/ws2/a', true],
  ['/ws', '/etc/passwd', true],
  ['/', '/etc/passwd', false],
])('says of a path in %s that leads to %s whether it is outside: %s', (root, path, outside) => {
  const resolved = { root, paths: { file: path } };
  expect(explainParameters({ file: 'x' }, { file: 'path' }, resolved)).toEqual({
    file: { kind: 'path', path: 'x', resolved: path, outside },
  });
  expect(explainParameters({ file: 'x' }, { file: 'path' })).toEqual({
    file: { kind: 'path', path: 'x' },
  });
});

it.each([
  ['https://Example.com:443/a?b', { scheme: 'https', host: 'example.com', understood: true }],
  ['http://a.test:8080/', { scheme: 'http', host: 'a.test:8080', understood: true }],
  ['https://ex\u0430mple.com/', { scheme: 'https', host: 'xn--exmple-4nf.com', understood: false }],
  [
    'https://example.com@evil.test/',
    { scheme: 'https', host: 'evil.test', credentials: true, understood: false },
  ],
  ['https:\\\\evil.test', { scheme: 'https', host: 'evil.test', understood: false }],
  ['mailto:a@b.test', { scheme: 'mailto', understood: false }],
  ['not a url', { understood: false }],
])('says where the URL %j leads', (url, expected) => {
  expect(explainParameters({ url }, { url: 'url' })).toEqual({
    url: { kind: 'url', url, credentials: false, ...expected },
  });
});
