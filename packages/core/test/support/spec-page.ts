/** Reads a page of docs/specs, which tests compare with the code. */
import { readFileSync } from 'node:fs';

const root = new URL('../../../../', import.meta.url);

export class SpecPage {
  readonly #text: string;

  constructor(name: string) {
    this.#text = readFileSync(new URL(`docs/specs/${name}.md`, root), 'utf8');
  }

  /** The rows of the table whose head is given, each as its cells. */
  tableUnder(head: readonly string[]): string[][] {
    const lines = this.#text.split('\n');
    const start = lines.indexOf(`| ${head.join(' | ')} |`);
    if (start === -1) throw new Error(`The page has no table of ${head.join(', ')}`);
    const rows = lines.slice(start + 2);
    const end = rows.findIndex((line) => !line.startsWith('|'));
    return rows.slice(0, end === -1 ? undefined : end).map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
  }

  /** The number of citations of tests, and those of them that cannot be read or name no test. */
  citations(): { readonly count: number; readonly wrong: readonly string[] } {
    const cited = [...this.#text.matchAll(/`([^`]+\.test\.ts)`: ((?:“[^”]+”(?:, )?)+)/g)];
    const named = [...this.#text.matchAll(/\.test\.ts`/g)];
    const wrong = cited.flatMap(([, file = '', names = '']) => {
      const source = readFileSync(new URL(file, root), 'utf8');
      return [...names.matchAll(/“([^”]+)”/g)]
        .filter(([, name = '']) => !source.includes(`'${name}'`))
        .map(([, name = '']) => `${file} has no test “${name}”`);
    });
    const unreadable = named.length - cited.length;
    return {
      count: cited.length,
      wrong: unreadable === 0 ? wrong : [...wrong, `${unreadable} files are named without a test`],
    };
  }
}
