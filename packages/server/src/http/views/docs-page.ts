/** `/docs`: the OpenAPI document as a page, without scripts or external resources. */
import type { OpenApiDocument } from '@relay/protocol';
import type { z } from 'zod';

type Schema = z.core.JSONSchema.JSONSchema;

interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly tags: readonly string[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { schema: Schema }>> };
  readonly responses: Readonly<Record<string, Response>>;
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[];
}

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required: boolean;
  readonly description?: string;
  readonly schema: Schema;
}

interface Response {
  readonly description: string;
  readonly content?: Readonly<Record<string, { schema?: Schema }>>;
}

interface Endpoint {
  readonly method: string;
  readonly path: string;
  readonly operation: Operation;
}

export function docsPage(document: OpenApiDocument): string {
  const entries = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): Endpoint => ({
      method,
      path,
      operation: operation as unknown as Operation,
    })),
  );
  // The system routes come last.
  const tags = [...new Set(entries.flatMap(({ operation }) => operation.tags))].toSorted(
    (a, b) => Number(a === 'system') - Number(b === 'system'),
  );
  const sections = tags.map((tag) => {
    const own = entries.filter(({ operation }) => operation.tags.includes(tag));
    return `<section id="${escapeHtml(tag)}"><h2>${escapeHtml(tag)}</h2>${own.map(operationArticle).join('')}</section>`;
  });
  const types = Object.entries(document.components['schemas'] as Record<string, Schema>)
    .filter(([name]) => name !== 'Json')
    .map(([name, schema]) => typeArticle(name, schema));
  sections.push(`<section id="types"><h2>Types</h2>${types.join('')}</section>`);
  const version = String(document.info['version']);
  const links = [...tags, 'types']
    .map((tag) => `<a href="#${escapeHtml(tag)}">${escapeHtml(tag)}</a>`)
    .join('');
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Relay API</title><style>${style}</style></head>
<body><header><h1>Relay API</h1><p>Version ${escapeHtml(version)} · <a href="/openapi.json">openapi.json</a></p>
<p>Send a key with each call: <code>Authorization: Bearer relay_live_…</code>. The first start shows one, <code>relay bootstrap</code> makes more.
Bodies are JSON. An error is <code>{"error": "message", "code": "error_code", "details"?}</code>.</p>
<nav>${links}</nav></header><main>${sections.join('')}</main></body></html>
`;
}

function typeArticle(name: string, schema: Schema): string {
  const id = `type-${escapeHtml(name)}`;
  return `<article id="${id}"><h3>${escapeHtml(name)}</h3><pre>${shapeOf(schema)}</pre></article>`;
}

function operationArticle({ method, path, operation }: Endpoint): string {
  const { operationId, summary, parameters = [], requestBody, responses } = operation;
  const body = requestBody?.content['application/json']?.schema;
  return `<article id="${escapeHtml(operationId)}">
<h3><span class="${escapeHtml(method)}">${escapeHtml(method.toUpperCase())}</span> <code>${escapeHtml(path)}</code></h3>
<p>${escapeHtml(summary)}. ${access(operation)}</p>
${parameters.length === 0 ? '' : parameterTable(parameters)}
${body === undefined ? '' : details('Body', body)}
${responseList(responses)}</article>`;
}

/** Any one of the security schemes is enough. */
function access({ security = [] }: Operation): string {
  if (security.length === 0) return '<em>Public.</em>';
  const schemes = security.flatMap((scheme) => {
    if ('internal' in scheme) return 'the internal secret';
    // The cookie stands for a key, with the same scopes.
    if ('console' in scheme) return [];
    if ('session' in scheme) return 'a session token';
    const scopes = Object.values(scheme).flat();
    if (scopes.length === 0) return 'none on this machine';
    return `a key with the scope <code>${escapeHtml(scopes.join(', '))}</code>`;
  });
  return `<em>Needs ${schemes.join(', or ')}.</em>`;
}

function parameterTable(parameters: readonly Parameter[]): string {
  const rows = parameters.map(({ name, in: location, required, description = '', schema }) => {
    return `<tr><td><code>${escapeHtml(name)}</code>${required ? '' : ' <i>optional</i>'}</td>
<td>${escapeHtml(location)}</td><td>${escapeHtml(description)} <code>${shapeOf(schema)}</code></td></tr>`;
  });
  return `<table><tr><th>Parameter</th><th>In</th><th></th></tr>${rows.join('')}</table>`;
}

function responseList(responses: Operation['responses']): string {
  return Object.entries(responses)
    .toSorted(([a], [b]) => Number(a) - Number(b))
    .map(([status, { description, content }]) => {
      const schema = content?.['application/json']?.schema;
      const line = `<p class="answer"><b>${escapeHtml(status)}</b> ${markup(description)}</p>`;
      return Number(status) < 400 && schema !== undefined
        ? `${line}${details('Response', schema)}`
        : line;
    })
    .join('');
}

function details(title: string, schema: Schema): string {
  return `<details><summary>${title}</summary><pre>${shapeOf(schema)}</pre></details>`;
}

/** Renders backticks as code and empty lines as line breaks. */
function markup(text: string): string {
  return escapeHtml(text)
    .replaceAll(/`([^`]*)`/g, '<code>$1</code>')
    .replaceAll('\n\n', '<br>');
}

/** A JSON Schema as an HTML type, with one field per line. A reference links to its type. */
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
      return arrayShape(schema, indent);
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
    const description = typeof field === 'object' ? field.description : undefined;
    const note = description === undefined ? '' : ` <i>${escapeHtml(description)}</i>`;
    return `${indent}  ${escapeHtml(name)}${mark}: ${shapeOf(field, `${indent}  `)}${note}`;
  });
  if (more !== undefined) lines.push(`${indent}  [name]: ${more}`);
  return `{\n${lines.join('\n')}\n${indent}}`;
}

function arrayShape({ items, minItems, maxItems }: Schema, indent: string): string {
  const item = shapeOf([items].flat()[0], indent);
  const size = escapeHtml(bounds(minItems, maxItems));
  return `${item.includes(' | ') && !item.startsWith('{') ? `(${item})` : item}[]${size}`;
}

function bounds(min: number | undefined, max: number | undefined, unit = ''): string {
  const [least, most] = [min, max].map(asBound);
  if (most !== undefined) return ` (${least ?? 0}–${most}${unit})`;
  return least === undefined || least === 0 ? '' : ` (at least ${least}${unit})`;
}

/** The limits of a JSON number are not shown. */
function asBound(number: number | undefined): number | undefined {
  return number !== undefined && Math.abs(number) < Number.MAX_SAFE_INTEGER ? number : undefined;
}

function linkTo(name: string): string {
  return name === 'Json' ? 'JSON' : `<a href="#type-${escapeHtml(name)}">${escapeHtml(name)}</a>`;
}

function literal(value: unknown): string {
  return escapeHtml(JSON.stringify(value));
}

export function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (char) => `&#${char.codePointAt(0)};`);
}

const style = `
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 18%, transparent); }
body { font: 15px/1.55 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 2rem 1.25rem 6rem; }
h1 { font-size: 1.6rem; margin: 0; } h2 { margin: 3rem 0 .5rem; text-transform: capitalize; }
h3 { font-size: 1rem; margin: 0; } h3 code { font-size: 1rem; }
header p { margin: .25rem 0 1rem; opacity: .8; } nav { display: flex; flex-wrap: wrap; gap: .25rem 1rem; }
article { border-top: 1px solid var(--line); padding: 1.1rem 0; }
article p { margin: .4rem 0; } .answer { font-size: .9rem; opacity: .9; }
code, pre { font: .86em/1.5 ui-monospace, monospace; } a { color: inherit; }
h3 span { border-radius: 4px; color: #fff; display: inline-block; font: 600 .72rem/1.7 system-ui; min-width: 3.6rem; text-align: center; }
.get { background: #2563a8; } .post { background: #1f7a4d; } .put { background: #96650f; } .delete { background: #a83232; }
table { border-collapse: collapse; font-size: .9rem; margin: .5rem 0; width: 100%; }
td, th { border-bottom: 1px solid var(--line); padding: .3rem .6rem .3rem 0; text-align: left; vertical-align: top; }
details { margin: .3rem 0; } summary { cursor: pointer; font-size: .9rem; }
pre i { font-family: system-ui, sans-serif; opacity: .7; }
pre { background: color-mix(in srgb, currentColor 6%, transparent); border-radius: 6px; max-height: 24rem; overflow: auto; padding: .8rem; }
`;
