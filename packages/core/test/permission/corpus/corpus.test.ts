/** Every known attack with its required decision. A change of a case needs a reason. */
import { describe, expect, it } from 'vitest';
import { decideCall } from '../../../src/permission/decide.ts';
import { pathsAndUrls } from './paths-urls.ts';
import { shellSideEffects } from './shell-side-effects.ts';
import { shellDenials } from './shell-denials.ts';
import { shellLists } from './shell-lists.ts';
import { shellNames } from './shell-names.ts';
import { shellOptions } from './shell-options.ts';
import { shellSubcommands } from './shell-subcommands.ts';
import { shellText } from './shell-text.ts';
import { subcommands } from './subcommands.ts';

const groups = [
  ...shellLists,
  ...shellSideEffects,
  ...shellNames,
  ...shellDenials,
  ...shellOptions,
  ...shellText,
  ...pathsAndUrls,
  ...shellSubcommands,
  ...subcommands,
];
const short = (value: string) => (value.length > 60 ? `${value.slice(0, 60)}…` : value);

describe.each(groups)('$trick', ({ rules, parameter, cases }) => {
  it.each(cases.map(([expected, value]) => ({ expected, value, shown: short(value) })))(
    '$expected: $shown',
    ({ expected, value }) => {
      const call = { toolCallId: 'c', name: 'tool', arguments: { [parameter]: value } };
      expect(decideCall(call, rules).decision).toBe(expected);
    },
  );
});

describe('in a headless run', () => {
  it('calls that would be asked are denied, and all others are decided as before', () => {
    const wrong = groups.flatMap(({ rules, parameter, cases }) => {
      const headless = { ...rules, permissions: { ...rules.permissions, headless: true } };
      return cases.filter(([expected, value]) => {
        const call = { toolCallId: 'c', name: 'tool', arguments: { [parameter]: value } };
        const { decision } = decideCall(call, headless);
        return decision !== (expected === 'ask' ? 'deny' : expected);
      });
    });
    expect(wrong).toEqual([]);
  });
});

describe('the corpus', () => {
  it('has at least 9,000 cases, none of them twice', () => {
    const keys = groups.flatMap(({ trick, cases }) =>
      cases.map(([, value]) => `${trick}: ${value}`),
    );
    expect(keys.length).toBeGreaterThanOrEqual(9_000);
    expect(new Set(keys).size).toBe(keys.length);
  });
});
