/** A JSON Schema as people read types: fields, one a line, with what they may hold. */

export interface Schema {
  readonly $ref?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
  readonly type?: string | readonly string[];
  readonly format?: string;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: Schema | boolean;
  readonly items?: Schema;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
}

/** As HTML; a reference is a link to the type of its name. */
export function shapeOf(schema: Schema | boolean | undefined, indent = ''): string {
  if (typeof schema !== 'object') return 'JSON';
  const { type = 'JSON', format = 'string' } = schema;
  if (schema.$ref !== undefined) return linkTo(schema.$ref.replace(/^.*\//, ''));
  if ('const' in schema) return literal(schema.const);
  if (schema.enum !== undefined) return schema.enum.map(literal).join(' | ');
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices !== undefined) {
    return [...new Set(choices.map((each) => shapeOf(each, indent)))].join(' | ');
  }
  if (schema.allOf !== undefined) {
    return schema.allOf.map((each) => shapeOf(each, indent)).join(' & ');
  }
  switch (type) {
    case 'object':
      return objectShape(schema, indent);
    case 'array':
      return listShape(schema, indent);
    case 'string':
      return escapeHtml(format + bounds(schema.minLength, schema.maxLength, ' characters'));
    case 'integer':
    case 'number':
      return escapeHtml(type + bounds(schema.minimum, schema.maximum));
    default:
      return escapeHtml([type].flat().join(' | '));
  }
}

function objectShape(schema: Schema, indent: string): string {
  const { properties = {}, required = [], additionalProperties: others } = schema;
  const fields = Object.entries(properties);
  const more = typeof others === 'object' ? shapeOf(others, `${indent}  `) : undefined;
  if (fields.length === 0) return more === undefined ? '{}' : `{ [name]: ${more} }`;
  const lines = fields.map(([name, field]) => {
    const mark = required.includes(name) ? '' : '?';
    const { description: said } = field;
    const note = said === undefined ? '' : ` <i>${escapeHtml(said)}</i>`;
    return `${indent}  ${escapeHtml(name)}${mark}: ${shapeOf(field, `${indent}  `)}${note}`;
  });
  if (more !== undefined) lines.push(`${indent}  [name]: ${more}`);
  return `{\n${lines.join('\n')}\n${indent}}`;
}

function listShape({ items, minItems, maxItems }: Schema, indent: string): string {
  const item = shapeOf(items, indent);
  const size = escapeHtml(bounds(minItems, maxItems));
  return `${item.includes(' | ') && !item.startsWith('{') ? `(${item})` : item}[]${size}`;
}

function bounds(min: number | undefined, max: number | undefined, unit = ''): string {
  const [least, most] = [min, max].map(asBound);
  if (most !== undefined) return ` (${least ?? 0}–${most}${unit})`;
  return least === undefined || least === 0 ? '' : ` (at least ${least}${unit})`;
}

/** Whatever JSON can hold as a number is no bound. */
function asBound(number: number | undefined): number | undefined {
  return number !== undefined && Math.abs(number) < Number.MAX_SAFE_INTEGER ? number : undefined;
}

function linkTo(name: string): string {
  return name === 'Json' ? 'JSON' : `<a href="#type-${escapeHtml(name)}">${escapeHtml(name)}</a>`;
}

function literal(value: unknown): string {
  return escapeHtml(JSON.stringify(value));
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

export function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (char) => entities[char] ?? char);
}
