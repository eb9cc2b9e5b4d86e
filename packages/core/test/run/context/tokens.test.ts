import type { Message } from '@relay/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { tokensIn, tokensOfRequest, tokensOfText } from '../../../src/run/context/tokens.ts';

/** Any well-formed text, of all scripts. */
const texts = fc.oneof(fc.string({ unit: 'binary' }), fc.string({ unit: 'grapheme' }));

function user(content: Message['content']): Message {
  return { role: 'user', content: content ?? '' };
}

describe('the tokens of a text', () => {
  it('are counted by its bytes in UTF-8', () => {
    fc.assert(
      fc.property(texts, (text) => {
        // Four bytes are a token: of four times the text there are as many tokens as bytes.
        expect(tokensOfText(text.repeat(4))).toBe(Buffer.byteLength(text));
      }),
    );
    expect(['a', 'é', '€', '😀'].map((text) => tokensOfText(text.repeat(4)))).toEqual([1, 2, 3, 4]);
  });

  it('are rounded up', () => {
    expect(['', 'a', 'abcd', 'abcde'].map(tokensOfText)).toEqual([0, 1, 1, 2]);
  });

  it('are known even of half a character', () => {
    expect(tokensOfText('\ud83d')).toBeGreaterThan(0);
    expect(tokensOfText('\ude00\ud83d')).toBeGreaterThan(0);
  });

  it('do not get fewer when something is added', () => {
    fc.assert(
      fc.property(texts, texts, (one, more) => {
        expect(tokensOfText(one + more)).toBeGreaterThanOrEqual(tokensOfText(one));
      }),
    );
  });
});

describe('the tokens of messages', () => {
  const around = tokensIn([user('')]);

  it('are those of their text and of what is around it', () => {
    expect(around).toBeGreaterThan(0);
    expect(tokensIn([])).toBe(0);
    expect(tokensIn([user('x'.repeat(400))])).toBe(around + 100);
    expect(tokensIn([{ role: 'assistant', content: null }])).toBe(around);
  });

  it('add up', () => {
    fc.assert(
      fc.property(fc.array(texts), (all) => {
        const messages = all.map(user);
        const each = messages.map((message) => tokensIn([message]));
        expect(tokensIn(messages)).toBe(each.reduce((sum, tokens) => sum + tokens, 0));
      }),
    );
  });

  it('count the parts of a message, and a picture as providers do, whatever its data', () => {
    const text = { type: 'text', text: 'x'.repeat(40) } as const;
    const image = { type: 'image', mediaType: 'image/png', data: 'x'.repeat(1_000_000) } as const;
    expect(tokensIn([user([text, text])])).toBe(around + 20);
    expect(tokensIn([user([text, image])])).toBe(around + 10 + 1_000);
  });

  it('count the arguments of tool calls', () => {
    const calls = (input: string): Message => ({
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: input } }],
    });
    expect(tokensIn([calls('x'.repeat(400))]) - tokensIn([calls('')])).toBe(100);
  });

  it('are counted once for each message, however often they are asked for', () => {
    let looks = 0;
    const message = {
      role: 'user',
      get content() {
        looks += 1;
        return 'hello';
      },
    } as Message;
    const first = tokensIn([message]);
    const before = looks;
    expect([tokensIn([message]), tokensIn([message, message])]).toEqual([first, 2 * first]);
    expect(looks).toBe(before);
  });
});

describe('the tokens of a request', () => {
  const messages = [user('hello')];

  it('are those of its messages if it offers no tools', () => {
    expect(tokensOfRequest({ model: 'm', messages, tools: [] })).toBe(tokensIn(messages));
  });

  it('count the descriptions of the tools', () => {
    const tool = (description: string) => ({ name: 'f', description, inputSchema: {} });
    const of = (description: string) =>
      tokensOfRequest({ model: 'm', messages, tools: [tool(description)] });
    expect(of('')).toBeGreaterThan(tokensIn(messages));
    expect(of('x'.repeat(400)) - of('')).toBe(100);
  });
});
