import type { FoundMemory, TenantStore } from '@relay/core';
import { expect, test } from 'vitest';
import { noon, useStore } from '../fixtures.ts';
import type { Open } from '../fixtures.ts';
import { newMemory } from './memories.ts';

/** What recalling asks for: below it nothing is shown to a model. */
const floor = 0.15;

async function remember(tenant: TenantStore, ...texts: readonly string[]): Promise<void> {
  for (const [index, text] of texts.entries()) {
    await tenant.addMemory(newMemory({ text, createdAt: noon + index }));
  }
}

function find(tenant: TenantStore, query: string, limit = 5): Promise<FoundMemory[]> {
  return tenant.searchMemories({ namespace: 'user:42', query, limit, now: noon });
}

async function textsFor(tenant: TenantStore, query: string): Promise<string[]> {
  return (await find(tenant, query)).map(({ text }) => text);
}

async function recalled(tenant: TenantStore, query: string): Promise<string[]> {
  const found = await find(tenant, query);
  return found.filter(({ score }) => score >= floor).map(({ text }) => text);
}

const facts = [
  'Asked: My favourite colour is green.\n\nAnswered: Noted, green it is.',
  'Asked: Book a table for two in Paris on Friday.\n\nAnswered: The table is booked.',
  'Asked: Our deployment runs on Kubernetes in Frankfurt.\n\nAnswered: Good to know.',
  'Asked: I am allergic to peanuts.\n\nAnswered: I will keep that in mind.',
  'Asked: What is 23 * 47?\n\nAnswered: 1081',
];

export function memorySearchTests(open: Open): void {
  const { tenant: newTenant } = useStore(open);

  test('the memory that speaks most of what is asked comes first', async () => {
    const tenant = newTenant();
    await remember(tenant, ...facts);
    const questions: [string, number][] = [
      ['Which colour do I like best?', 0],
      ['When is our table in Paris?', 1],
      ['where does the deployment run', 2],
      ['Can you suggest a snack? Mind my allergy to peanuts', 3],
      ['23*47', 4],
    ];
    for (const [question, expected] of questions) {
      expect((await textsFor(tenant, question))[0], question).toBe(facts[expected]);
    }
  });

  test('what has nothing to do with a question lies below the floor', async () => {
    const tenant = newTenant();
    await remember(tenant, ...facts);
    expect(await recalled(tenant, 'Which colour do I like best?')).toEqual([facts[0]]);
    for (const question of [
      'Write a haiku about the sea.',
      'What is the capital of Peru and how do I get there in the summer?',
      'How are you?',
      'Please translate this sentence into Portuguese for me.',
    ]) {
      expect(await recalled(tenant, question), question).toEqual([]);
    }
  });

  test('a query that has only function words is searched by them', async () => {
    const tenant = newTenant();
    await remember(tenant, 'I am Ada', 'The weather in Oslo was cold');
    expect((await textsFor(tenant, 'Who am I?'))[0]).toBe('I am Ada');
  });

  test('a word that every memory has counts for little', async () => {
    const tenant = newTenant();
    const filler = Array.from({ length: 30 }, (_, n) => `Relay ticket number${n} about topic${n}`);
    await remember(tenant, 'Relay backups run at night', ...filler);
    expect(await recalled(tenant, 'How does Relay handle backups?')).toEqual([
      'Relay backups run at night',
    ]);
    // A search for it still finds it.
    expect(await textsFor(tenant, 'relay')).toHaveLength(5);
  });

  test('a rare word is found however old it is, and however many memories came since', async () => {
    const tenant = newTenant();
    await remember(tenant, 'Relay needle in the haystack');
    const hay = Array.from({ length: 400 }, (_, n) =>
      newMemory({ text: `Relay hay bale${n} number${n % 7}`, createdAt: noon + 1 + n }),
    );
    await Promise.all(hay.map((record) => tenant.addMemory(record)));
    expect((await textsFor(tenant, 'Does Relay find the needle?'))[0]).toBe(
      'Relay needle in the haystack',
    );
    const common = await find(tenant, 'relay hay');
    expect(common).toHaveLength(5);
    expect(common.every(({ text }) => text.includes('hay bale'))).toBe(true);
  });

  test('of equals the newest comes first, and no more than asked for', async () => {
    const tenant = newTenant();
    await remember(tenant, 'tea', 'tea', 'tea', 'tea');
    const found = await find(tenant, 'tea', 3);
    expect(found.map(({ createdAt }) => createdAt - noon)).toEqual([3, 2, 1]);
    expect(new Set(found.map(({ score }) => score)).size).toBe(1);
  });

  test('case, accents, width and a plural do not matter', async () => {
    const tenant = newTenant();
    await remember(tenant, 'Der Zürcher CAFÉ hat Crème brûlées', 'ＦＵＬＬ width');
    for (const query of ['cafe', 'Cafés', 'zurcher', 'CREME', 'brûlée']) {
      expect(await textsFor(tenant, query), query).toHaveLength(1);
    }
    expect(await textsFor(tenant, 'full')).toEqual(['ＦＵＬＬ width']);
  });

  test('texts of any script are found', async () => {
    const tenant = newTenant();
    const texts = [
      '我喜欢喝咖啡',
      '東京タワーに行きました',
      'ฉันชอบกาแฟ',
      'Мой любимый цвет зелёный',
      'לוני המועדף ירוק',
      'لوني المفضل أخضر',
      'मेरा पसंदीदा रंग हरा है',
      '제가 좋아하는 색은 초록입니다',
    ];
    await remember(tenant, ...texts);
    const queries: [string, number][] = [
      ['你喜欢咖啡吗', 0],
      ['東京タワー', 1],
      ['กาแฟ', 2],
      ['какой цвет', 3],
      ['ירוק', 4],
      ['أخضر', 5],
      ['पसंदीदा रंग', 6],
      ['초록입니다', 7],
    ];
    for (const [query, expected] of queries) {
      expect((await textsFor(tenant, query))[0], query).toBe(texts[expected]);
    }
  });

  test('whatever is in a query, it is words and never syntax', async () => {
    const tenant = newTenant();
    await remember(tenant, 'tea', 'near the NOT gate');
    for (const query of [
      '"',
      "'",
      'tea OR',
      'tea AND (',
      'NOT tea',
      'NEAR(tea, 2)',
      'words:tea',
      'tea*',
      '^tea',
      "tea' | 'x",
      'tea & !',
      'tea:* <-> x',
      '\\tea\\',
      'tea\u0000',
      "'; DROP TABLE memories; --",
      '-- tea',
      '{tea}',
      '(((((',
      '? $1 :x',
    ]) {
      const found = await textsFor(tenant, query);
      expect(found, query).toEqual(query.includes('tea') ? expect.arrayContaining(['tea']) : found);
    }
    expect(await textsFor(tenant, '')).toEqual([]);
    expect(await textsFor(tenant, '?!… ()')).toEqual([]);
    expect((await textsFor(tenant, 'NOT gate'))[0]).toBe('near the NOT gate');
  });

  test('very long words, texts and queries are taken', async () => {
    const tenant = newTenant();
    const word = 'x'.repeat(5_000);
    await remember(tenant, `${word} tea`, `tea ${'filler '.repeat(1_000)}`);
    expect(await textsFor(tenant, word)).toEqual([`${word} tea`]);
    const long = `${'nothing '.repeat(50_000)} tea`;
    expect((await find(tenant, long)).length).toBe(2);
  });

  test('scores lie between 0 and 1, and a perfect memory comes near 1', async () => {
    const tenant = newTenant();
    await remember(tenant, 'green tea', 'green', 'tea and coffee and cake and milk');
    const found = await find(tenant, 'green tea');
    expect(found.map(({ text }) => text)[0]).toBe('green tea');
    for (const { score } of found) {
      expect(score).toBeGreaterThan(0);
      expect(score).toBeLessThanOrEqual(1);
    }
    expect(found[0]?.score).toBeGreaterThan(0.6);
  });

  test('what other namespaces and tenants hold changes no score', async () => {
    const [tenant, stranger] = [newTenant(), newTenant()];
    await remember(tenant, ...facts);
    const before = await find(tenant, 'green table in Paris');
    await remember(stranger, ...Array.from({ length: 30 }, () => 'green table in Paris'));
    for (let n = 0; n < 30; n += 1) {
      await tenant.addMemory(newMemory({ namespace: 'user:43', text: 'green table in Paris' }));
    }
    expect(await find(tenant, 'green table in Paris')).toEqual(before);
  });
}
