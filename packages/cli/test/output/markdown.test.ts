import { describe, expect, test } from 'vitest';
import { MarkdownWriter } from '../../src/output/markdown.ts';

/** Styles as tags, in chunks of a size. */
function rendered(text: string, { columns = 60, chunk = text.length } = {}): string {
  let output = '';
  const writer = new MarkdownWriter({
    paint: (style, shown) => `<${style}>${shown}</>`,
    write: (more) => (output += more),
    columns: () => columns,
  });
  for (let at = 0; at < text.length; at += chunk) writer.push(text.slice(at, at + chunk));
  writer.end();
  return output;
}

const answer = `# What I *found*

Some **bold words** and \`a = b\`, see [the page](https://example.com/x). snake_case and 2 * 3 * 4 stay.

- a first item that is long enough for a second row of this screen
  1. nested
- [x] done
> quoted

\`\`\`ts
const a = '**not bold**';

  indented();
\`\`\`

| name | price |
|:--|--:|
| apple | **$1** |
| fig \\| plum | $22 |

***
世界你好 🎉 and an end without a close: **bold`;

describe('Markdown on a terminal', () => {
  test('shows headings, lists, code, tables, links and emphasis', () => {
    expect(rendered(answer).split('\n')).toEqual([
      '<underline><bold>What</></> <underline><bold>I</></> <italic><underline><bold>found</></></>',
      '',
      'Some <bold>bold</> <bold>words</> and <cyan>a</> <cyan>=</> <cyan>b</>, see <underline>the</> <underline>page</>',
      '<dim>(https://example.com/x)</>. snake_case and 2 * 3 * 4 stay.',
      '',
      '• a first item that is long enough for a second row of this',
      '  screen',
      '  1. nested',
      '☑ done',
      '<dim>│ </>quoted',
      '',
      "  <cyan>const a = '**not bold**';</>",
      '  <cyan></>',
      '  <cyan>  indented();</>',
      '',
      '<bold>name</>        <bold>price</>',
      '<dim>──────────  ─────</>',
      'apple       <bold>$1</>',
      'fig | plum  $22',
      '',
      `<dim>${'─'.repeat(40)}</>`,
      '世界你好 🎉 and an end without a close: **bold',
      '',
    ]);
  });

  test.each([1, 2, 3, 7])('looks the same in chunks of %i characters', (chunk) => {
    expect(rendered(answer, { chunk })).toBe(rendered(answer));
  });

  test('writes words as soon as they are whole', () => {
    let output = '';
    const write = (text: string) => void (output += text);
    const writer = new MarkdownWriter({ paint: (_, text) => text, write, columns: () => 80 });
    writer.push('One two thr');
    expect(output).toBe('One two');
    writer.push('ee **four');
    expect(output).toBe('One two three');
    writer.push(' five** six\n');
    expect(output).toBe('One two three four five six');
    writer.end();
    expect(output).toBe('One two three four five six\n');
  });

  test('escapes what would act on the terminal, also in code and tables', () => {
    const evil = '\u001B[2J';
    const text = `a${evil} **b${evil}** \`c${evil}\`\n\n    ${evil}\n\`\`\`\n${evil}\n\`\`\`\n|${evil}|\n|-|\n|${evil}|`;
    expect(rendered(text)).not.toContain('\u001B');
    expect(rendered(text).match(/\\u\{1b\}/g)).toHaveLength(7);
  });

  test('writes no white space of an indent that moves the cursor, and no more of it than fits', () => {
    expect(rendered('\v\f\r  text')).toBe('     text\n');
    expect(rendered(`${' '.repeat(500)}- far\n${'>'.repeat(500)} deep`)).toBe(
      `${' '.repeat(40)}• far\n<dim>${'│ '.repeat(20)}</>deep\n`,
    );
  });

  test('stacks a table that is wider than the screen', () => {
    const table =
      '| city | what one sees there |\n|-|-|\n| Rome | the old forum |\n| Oslo | ships |';
    expect(rendered(table, { columns: 20 })).toBe(
      '<bold>city</>: Rome\n<bold>what one sees there</>: the old forum\n \n<bold>city</>: Oslo\n<bold>what one sees there</>: ships\n',
    );
  });
});
