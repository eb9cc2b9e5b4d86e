import { describe, expect, it } from 'vitest';
import type { Tool, Validation } from '../../src/ports/index.ts';
import { createRecordingTool } from '../support/index.ts';
import { parseArguments } from '../../src/run/arguments.ts';

function toolThat(validate: (given: Record<string, unknown>) => Validation): Tool {
  return createRecordingTool({
    name: 'tool',
    validate: (given) => validate(given as Record<string, unknown>),
  });
}

const accept = (value: unknown): Validation => ({ ok: true, value });

describe('the arguments of a call', () => {
  it('are what the schema makes of them, defaults and all: that is matched, shown and run', () => {
    const tidy = toolThat(({ path = '/prod' }) => accept({ path: String(path).trim() }));
    expect(parseArguments(tidy, {})).toMatchObject({ ok: true, input: { path: '/prod' } });
    expect(parseArguments(tidy, { path: ' /prod' })).toMatchObject({ input: { path: '/prod' } });
  });

  it('reach the tool in its own types, and are stored as JSON', () => {
    const dated = toolThat(({ at }) => accept({ at: new Date(String(at)) }));
    const parsed = parseArguments(dated, { at: '2026-01-01' });
    expect(parsed).toMatchObject({ ok: true, input: { at: '2026-01-01T00:00:00.000Z' } });
    expect(parsed.ok && parsed.value).toEqual({ at: new Date('2026-01-01') });
  });

  it('are refused if parsing them again would make something else of them', () => {
    const growing = toolThat(({ text }) => accept({ text: `${String(text)}!` }));
    expect(parseArguments(growing, { text: 'rm' })).toMatchObject({ ok: false });
  });

  it('are refused with the paths of the invalid fields', () => {
    const issues = [
      { path: 'a', message: 'Required' },
      { path: '', message: 'Too many' },
    ];
    const strict = toolThat(() => ({ ok: false, issues }));
    const problem = 'a: Required; Too many';
    expect(parseArguments(strict, {})).toEqual({ ok: false, problem, issues });
  });

  it('are refused if the schema throws, or makes no object of them', () => {
    const throwing = toolThat(() => {
      throw new Error('Broken');
    });
    const issues = [{ path: '', message: 'Broken' }];
    expect(parseArguments(throwing, {})).toEqual({ ok: false, problem: 'Broken', issues });
    expect(
      parseArguments(
        toolThat(() => accept([1])),
        {},
      ),
    ).toMatchObject({ ok: false });
  });
});
