/**
 * The arguments of a call as they are matched, shown, stored and executed: one and the same.
 *
 * A tool's schema may fill in defaults or tidy up what a model wrote. That happens once, before the
 * rules are asked. A schema that would change its own output again has no such form, and a call of it
 * is refused: nobody could say what would run.
 */
import { canonicalJson } from '@relay/protocol';
import type { Tool } from '../ports/index.ts';
import { textOfError } from './error-text.ts';

export type Arguments = Record<string, unknown>;

export type Reading =
  | { readonly ok: true; readonly input: Arguments; readonly value: unknown }
  | { readonly ok: false; readonly problem: string };

/** Reads arguments by the tool's own schema. It never throws, whatever the schema does. */
export function readArguments(tool: Tool, given: unknown): Reading {
  try {
    const first = validated(tool, given);
    if (!first.ok) return first;
    // In the order in which they were written: a person is shown this.
    const input = JSON.parse(JSON.stringify(first.value)) as unknown;
    if (!isObject(input)) return { ok: false, problem: 'The arguments are not an object' };
    const again = validated(tool, input);
    if (!again.ok || canonicalJson(again.value) !== canonicalJson(input)) {
      return { ok: false, problem: 'The tool’s schema changes what it has accepted' };
    }
    return { ok: true, input, value: again.value };
  } catch (error) {
    return { ok: false, problem: textOfError(error) };
  }
}

type Validated = { ok: true; value: unknown } | { ok: false; problem: string };

function validated(tool: Tool, given: unknown): Validated {
  const validation = tool.validate(given);
  if (validation.ok) return validation;
  const problem = validation.issues
    .map(({ path, message }) => (path === '' ? message : `${path}: ${message}`))
    .join('; ');
  return { ok: false, problem };
}

function isObject(value: unknown): value is Arguments {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
