import { z } from 'zod';

/**
 * Ids that Relay creates are UUIDv7 and sort by creation time. Callers may choose ids, so any UUID
 * version is accepted.
 */
export const idSchema = z.guid();

/** A tool call keeps the provider's id, so any format is accepted. */
export const toolCallIdSchema = z.string().min(1).max(256);

/** Tool names in characters that every provider accepts. */
export const toolNameForm = /^[a-zA-Z0-9_-]{1,64}$/;

/**
 * A name, or another text that is shown in a line with others: nothing in it can end that line. Characters
 * that only mislead a reader, such as those that reverse the direction, are escaped where it is shown.
 */
export function lineSchema(max: number) {
  return z
    .string()
    .max(max)
    .regex(/^[^\p{Cc}\p{Zl}\p{Zp}]*$/u, 'Must not contain control characters or line breaks');
}

/** A text of several lines. */
export function linesSchema(max: number) {
  return z
    .string()
    .max(max)
    .regex(/^(?:[\t\r\n]|[^\p{Cc}])*$/u, 'Must not contain control characters');
}

/** Lists are filtered by `name:value`, so a name cannot contain a colon. */
export const labelsSchema = z.record(
  lineSchema(64)
    .min(1)
    .regex(/^[^:]*$/, 'Must not contain a colon'),
  lineSchema(256),
);

/** `name:value`; the value may contain colons. */
export const labelFilterSchema = z
  .string()
  .regex(/^[^:]{1,64}:.{0,256}$/s, 'Must have the form name:value');

const maxJsonDepth = 1_000;

/** As `z.json()`, which takes ten times as long and holds the event loop for a large value. */
export const jsonSchema: z.ZodType<z.core.util.JSONType, z.core.util.JSONType> = z
  .custom<z.core.util.JSONType>((value) => isJson(value, 0), 'Must be a JSON value')
  .meta({ description: 'Any JSON value' });

function isJson(value: unknown, depth: number): boolean {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return true;
    case 'number':
      return Number.isFinite(value);
    case 'object': {
      if (value === null) return true;
      const prototype: unknown = Object.getPrototypeOf(value);
      const isPlain = Array.isArray(value) || prototype === Object.prototype || prototype === null;
      if (!isPlain || depth > maxJsonDepth) return false;
      const parts: readonly unknown[] = Array.isArray(value) ? value : Object.values(value);
      return parts.every((part) => isJson(part, depth + 1));
    }
    default:
      return false;
  }
}

export const seqSchema = z
  .string()
  .regex(/^\d{1,15}$/, 'Must be an integer')
  .transform(Number)
  // For a client it is a number; in a query, every value is text.
  .meta({ type: 'integer', pattern: undefined, minimum: 0 });

export const groupSchema = z
  .string()
  .regex(/^[A-Za-z0-9][\w.-]{0,63}$/, 'Must be 1 to 64 letters, digits, ".", "_" or "-"');

export const timeSchema = z.iso.datetime({ offset: true });
