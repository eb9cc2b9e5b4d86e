import { uuidv7 } from 'uuidv7';
import { expect, test } from 'vitest';
import { useStore } from './fixtures.ts';
import type { Open } from './fixtures.ts';
import { hostileText } from './hostile-text.ts';

export function metadataTests(open: Open): void {
  const { system } = useStore(open);

  test('an entry that was never written is not there', async () => {
    expect(await system().readMetadata(uuidv7())).toBeUndefined();
  });

  test('an entry holds what was written last', async () => {
    const name = uuidv7();
    expect(await system().writeMetadata(name, 'one')).toBe(true);
    expect(await system().writeMetadata(name, 'two', { ifAbsent: false })).toBe(true);
    expect(await system().readMetadata(name)).toBe('two');
  });

  test('what is written only if nothing is there leaves what is', async () => {
    const name = uuidv7();
    expect(await system().writeMetadata(name, 'one', { ifAbsent: true })).toBe(true);
    expect(await system().writeMetadata(name, 'two', { ifAbsent: true })).toBe(false);
    expect(await system().readMetadata(name)).toBe('one');
  });

  test('of 20 that write it first one does', async () => {
    const name = uuidv7();
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        system().writeMetadata(name, `${n}`, { ifAbsent: true }),
      ),
    );
    expect(answers.filter(Boolean)).toHaveLength(1);
    expect(await system().readMetadata(name)).toBe(`${answers.indexOf(true)}`);
  });

  test('hostile names and values survive and do not meet', async () => {
    const texts = Object.values(hostileText);
    for (const text of texts) expect(await system().writeMetadata(text, text)).toBe(true);
    for (const text of texts) expect(await system().readMetadata(text)).toBe(text);
  });
}
