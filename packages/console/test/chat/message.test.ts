import { describe, expect, it } from 'vitest';
import { bytesOf, contentOf, whyTooMuch } from '../../src/pages/chat/attachments.ts';
import { isDemoOnly, resolved } from '../../src/pages/chat/choice.ts';

const mb = 1024 * 1024;

describe('attachments of a message', () => {
  it('are refused with the reason if they are too large, too many or empty', () => {
    const file = (size: number) => ({ name: 'a.txt', size });
    expect(whyTooMuch([], [file(7 * mb)])).toBeUndefined();
    expect(whyTooMuch([file(4 * mb)], [file(4 * mb)])).toContain('at most 7.0 MB; these have 8.0');
    expect(
      whyTooMuch(
        [],
        Array.from({ length: 33 }, () => file(1)),
      ),
    ).toContain('at most 32 files');
    expect(whyTooMuch([], [file(0)])).toBe('a.txt is empty.');
  });

  it('follow the text, and are the content alone without one', () => {
    const part = { type: 'image', mediaType: 'image/png', data: 'QUJD' } as const;
    const attached = [{ key: 'a', name: 'a.png', size: 3, part }];
    expect(contentOf('hi', [])).toBe('hi');
    expect(contentOf('hi', attached)).toEqual([{ type: 'text', text: 'hi' }, part]);
    expect(contentOf(' ', attached)).toEqual([part]);
  });

  it('say how many bytes they have', () => {
    for (const text of ['a', 'ab', 'abc', 'abcd']) {
      expect(bytesOf(Buffer.from(text).toString('base64'))).toBe(text.length);
    }
  });
});

describe('who answers a message', () => {
  const agents = [
    { name: 'assistant', isDefault: true },
    { name: 'billing', model: 'claude-x', isDefault: false },
  ];
  const demo = { models: [{ id: 'demo', provider: 'demo' }] };

  it('is the chosen agent with the chosen model, else its own, else the default one', () => {
    const models = { ...demo, defaultModel: 'gpt-x' };
    const none = { agent: undefined, model: undefined };
    expect(resolved(none, agents, models)).toEqual({ agent: 'assistant', model: 'gpt-x' });
    expect(resolved(none, agents, demo)).toEqual({ agent: 'assistant', model: 'demo' });
    const billing = { agent: 'billing', model: undefined };
    expect(resolved(billing, agents, models)).toEqual({ agent: 'billing', model: 'claude-x' });
    expect(resolved({ ...billing, model: 'demo' }, agents, models).model).toBe('demo');
  });

  it('is the default agent if the named one is gone', () => {
    const gone = { agent: 'gone', model: undefined };
    expect(resolved(gone, agents, demo)).toEqual({ agent: 'assistant', model: 'demo' });
  });

  it('can only be the demo model without a provider key', () => {
    expect(isDemoOnly(demo)).toBe(true);
    expect(isDemoOnly({ models: [...demo.models, { id: 'x', provider: 'openai' }] })).toBe(false);
  });
});
