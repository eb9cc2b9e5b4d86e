import type { CommandRole } from '@relay/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { segmentsOf } from '../../../src/permission/shell/segments.ts';

/** The pieces that are not blanks, as `role text`. */
const read = (source: string): string[] =>
  segmentsOf(source)
    .filter(({ role }) => role !== 'space')
    .map(({ text, role }) => `${role} ${text}`);

/** Pieces of shell text that meet each other in unexpected ways. */
const words =
  'ls rm sudo env timeout xargs find -exec -u -- {} x=1 a=( if then fi for in do done case esac ' +
  '$x ${ } $( ) ` " \' \\ ; ;; & && | || < > >> 2> &> <<E <<< <( ( (( $(( [[ # ! $\' $" $? ~ * =';
const blanks = ['\n', '\\\n', ' ', '\t', '\0', '\u00a0', '\u202e', '\ud800', '😀'];
const fragment = fc.oneof(
  fc.constantFrom(...words.split(' '), ...blanks),
  fc.string({ unit: 'binary', maxLength: 4 }),
);
const shellText = fc.array(fragment, { maxLength: 40 }).map((parts) => parts.join(''));

describe('the segments of a command', () => {
  it('are exactly its text, whatever the text is', () => {
    fc.assert(
      fc.property(fc.oneof(shellText, fc.string({ unit: 'binary' })), (source) => {
        const segments = segmentsOf(source);
        expect(segments.map(({ text }) => text).join('')).toBe(source);
        expect(segments.every(({ text }) => text !== '')).toBe(true);
        for (const [at, { role }] of segments.entries()) {
          expect(role).not.toBe(segments[at + 1]?.role);
        }
      }),
      { numRuns: 5_000 },
    );
  });

  it('have the roles that their words were written for', () => {
    const piece = (role: CommandRole, ...texts: string[]) =>
      fc.constantFrom(...texts).map((text) => [`${role} ${text}`]);
    const word = fc.oneof(
      piece('argument', 'x', '"a b"', "'c;d'", 'e\\ f', '"#"', 'if', 'sudo', 'g=h', '*.ts'),
      piece('option', '-l', '--long=x', '"-q"'),
      piece('expansion', '$x', '${y}', '$1', '$?'),
      piece('redirection', '>f', '2>&1', '<"in put"'),
      fc.constantFrom(['expansion $(', 'command id', 'expansion )']),
    );
    const head = fc.oneof(
      piece('command', 'ls', '/bin/rm', '"cat"', 'git'),
      piece('command', 'make').map((rest) => ['assignment A=1', ...rest]),
      piece('command', 'rm').map((rest) => ['wrapper timeout', 'argument 5', ...rest]),
      piece('command', 'rm').map((rest) => ['wrapper env', 'assignment B=2', ...rest]),
    );
    const command = fc
      .tuple(head, fc.array(word, { maxLength: 5 }))
      .map(([first, rest]) => [...first, ...rest.flat()]);
    const list = fc.array(fc.tuple(command, fc.constantFrom('&&', '||', '|', ';', '\n')), {
      minLength: 1,
      maxLength: 4,
    });
    fc.assert(
      fc.property(list, (commands) => {
        const pieces = commands.flatMap(([each, operator], at) =>
          at === commands.length - 1 ? each : [...each, `operator ${operator}`],
        );
        const source = pieces
          .map((each) => each.slice(each.indexOf(' ') + 1))
          .join(' ')
          .replaceAll('$( id )', '$(id)');
        expect(read(source)).toEqual(pieces);
      }),
      { numRuns: 1_000 },
    );
  });

  it.each([
    ['', []],
    ['ls -la # all', ['command ls', 'option -la', 'comment # all']],
    [
      'echo "a $(rm -rf x; ls) $X"',
      [
        'command echo',
        'argument "a ',
        'expansion $(',
        'command rm',
        'expansion  ',
        'option -rf',
        'expansion  ',
        'argument x',
        'operator ;',
        'expansion  ',
        'command ls',
        'expansion )',
        'argument  ',
        'expansion $X',
        'argument "',
      ],
    ],
    ['a `b`', ['command a', 'expansion `', 'command b', 'expansion `']],
    [
      'if ! a; then b; fi',
      [
        'keyword if',
        'operator !',
        'command a',
        'operator ;',
        'keyword then',
        'command b',
        'operator ;',
        'keyword fi',
      ],
    ],
    [
      'for x in 1 2; do a; done',
      [
        'keyword for',
        'argument x',
        'keyword in',
        'argument 1',
        'argument 2',
        'operator ;',
        'keyword do',
        'command a',
        'operator ;',
        'keyword done',
      ],
    ],
    [
      '(cd x && { a; })',
      [
        'operator (',
        'command cd',
        'argument x',
        'operator &&',
        'operator {',
        'command a',
        'operator ;',
        'operator })',
      ],
    ],
    ['make &>log', ['command make', 'redirection &>log']],
    ['cat <<<x', ['command cat', 'redirection <<<x']],
    ['rm -- -f', ['command rm', 'option --', 'argument -f']],
    ['xargs -- rm -f', ['wrapper xargs', 'option --', 'command rm', 'option -f']],
    ['env', ['command env']],
    ['$x rm y', ['expansion $x', 'possible-command rm', 'argument y']],
    [
      'sudo timeout 1 rm x',
      ['wrapper sudo', 'wrapper timeout', 'argument 1', 'command rm', 'argument x'],
    ],
    [
      'find . -exec rm {} \\;',
      ['command find', 'argument .', 'option -exec', 'command rm', 'argument {}', 'argument \\;'],
    ],
    ['npm exec eslint', ['wrapper npm', 'argument exec', 'command eslint']],
    ['npm install exec', ['command npm', 'argument install', 'argument exec']],
  ])('of %j are known', (source, expected) => {
    expect(read(source)).toEqual(expected);
  });

  it('name each word that an option of a wrapper leaves as the command', () => {
    expect(read('sudo -u root rm -rf /')).toEqual([
      'wrapper sudo',
      'option -u',
      'possible-command root',
      'possible-command rm',
      'option -rf',
      'argument /',
    ]);
  });

  it.each([
    ['ls; cat <<E\n$(rm x)\nE', 'command cat', '<<E\n$(rm x)\nE'],
    ["ls; echo 'abc; rm x", 'command echo', "'abc; rm x"],
    ['ls && [[ -f x ]] && rm x', 'operator &&', '[[ -f x ]] && rm x'],
    ['ls; f() { rm x; }; f', 'operator ;', 'f() { rm x; }; f'],
    ['ls; a=(b c); rm x', 'operator ;', 'a=(b c); rm x'],
    ['ls )', 'command ls', ')'],
    // In plain sh, `&` ends the command here.
    ['ls &>f -a; rm x', 'redirection &>f', '-a; rm x'],
    ['ls && ', 'command ls', '&& '],
    ['ls; $((x)) rm', 'operator ;', '$((x)) rm'],
    ['(ls; cat <<E)', undefined, '(ls; cat <<E)'],
    ['ls\u00a0x', undefined, 'ls\u00a0x'],
    ['ls \u202ex', undefined, 'ls \u202ex'],
    ['ls\0x', undefined, 'ls\0x'],
    ['('.repeat(300), undefined, '('.repeat(300)],
    ['ls '.repeat(3_334), undefined, 'ls '.repeat(3_334)],
    [`sudo ${'env '.repeat(40)}rm`, undefined, `sudo ${'env '.repeat(40)}rm`],
  ])('of %j end with what was not understood', (source, before, rest) => {
    const pieces = read(source);
    expect(pieces.at(-1)).toBe(`unparsed ${rest}`);
    expect(pieces.at(-2)).toBe(before);
    expect(pieces.filter((each) => each.startsWith('unparsed'))).toHaveLength(1);
  });

  it('are found in texts of the greatest length that is parsed', () => {
    for (const part of ['a ', 'a;', '"$(', 'sudo -a ', '$x', '-exec a ', '`a` ', '<(a) ']) {
      const source = part.repeat(10_000 / part.length);
      expect(
        segmentsOf(source)
          .map(({ text }) => text)
          .join(''),
      ).toBe(source);
    }
  });
});
