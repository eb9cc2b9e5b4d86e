/** A JSON Schema as people read types: fields, one a line, with what they may hold. */

type Schema = Readonly<Record<string, unknown>>;

/** As HTML; a reference is a link to the type of its name. */
export function shapeOf(schema: unknown, indent = ''): string {
  if (typeof schema !== 'object' || schema === null) return 'JSON';
  const of = schema as Schema;
  if (typeof of['$ref'] === 'string') return linkTo(of['$ref'].replace(/^.*\//, ''));
  if ('const' in of) return literal(of['const']);
  if (Array.isArray(of['enum'])) return of['enum'].map(literal).join(' | ');
  const choices = of['anyOf'] ?? of['oneOf'];
  if (Array.isArray(choices)) {
    return [...new Set(choices.map((each) => shapeOf(each, indent)))].join(' | ');
  }
  if (Array.isArray(of['allOf'])) {
    return of['allOf'].map((each) => shapeOf(each, indent)).join(' & ');
  }
  switch (of['type']) {
    case 'object':
      return objectShape(of, indent);
    case 'array':
      return listShape(of, indent);
    case 'string':
      return escapeHtml(String(of['format'] ?? 'string') + bounds(of, 'Length', ' characters'));
    case 'integer':
    case 'number':
      return escapeHtml(of['type'] + bounds(of, 'imum', ''));
    default:
      return of['type'] === undefined ? 'JSON' : escapeHtml([of['type']].flat().join(' | '));
  }
}

function objectShape(schema: Schema, indent: string): string {
  const { properties, required = [], additionalProperties: others } = schema;
  const fields = Object.entries((properties ?? {}) as Readonly<Record<string, Schema>>);
  const more = typeof others === 'object' ? shapeOf(others, `${indent}  `) : undefined;
  if (fields.length === 0) return more === undefined ? '{}' : `{ [name]: ${more} }`;
  const lines = fields.map(([name, field]) => {
    const mark = (required as readonly string[]).includes(name) ? '' : '?';
    const said = field['description'];
    const note = typeof said === 'string' ? ` <i>${escapeHtml(said)}</i>` : '';
    return `${indent}  ${escapeHtml(name)}${mark}: ${shapeOf(field, `${indent}  `)}${note}`;
  });
  if (more !== undefined) lines.push(`${indent}  [name]: ${more}`);
  return `{\n${lines.join('\n')}\n${indent}}`;
}

function listShape(schema: Schema, indent: string): string {
  const item = shapeOf(schema['items'], indent);
  const size = escapeHtml(bounds(schema, 'Items', ''));
  return `${item.includes(' | ') && !item.startsWith('{') ? `(${item})` : item}[]${size}`;
}

/** Whatever JSON can hold as a number is no bound. */
function bounds(schema: Schema, of: string, unit: string): string {
  const [least, most] = [schema[`min${of}`], schema[`max${of}`]].map((bound) =>
    typeof bound === 'number' && Math.abs(bound) < Number.MAX_SAFE_INTEGER ? bound : undefined,
  );
  if (most !== undefined) return ` (${least ?? 0}–${most}${unit})`;
  return least === undefined || least === 0 ? '' : ` (at least ${least}${unit})`;
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
