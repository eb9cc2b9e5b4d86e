/** `/docs`: the OpenAPI document as a page, without a script and without anything from elsewhere. */
import type { OpenApiDocument } from '@relay/protocol';
import { escapeHtml as escape, type Schema, shapeOf } from './docs-shapes.ts';

interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly tags: readonly string[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { schema: Schema }>> };
  readonly responses: Readonly<Record<string, Answer>>;
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[];
}

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required: boolean;
  readonly description?: string;
  readonly schema: Schema;
}

interface Answer {
  readonly description: string;
  readonly content?: Readonly<Record<string, { schema?: Schema }>>;
}

interface Entry {
  readonly method: string;
  readonly path: string;
  readonly operation: Operation;
}

export function docsPage(document: OpenApiDocument): string {
  const entries = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): Entry => ({
      method,
      path,
      operation: operation as unknown as Operation,
    })),
  );
  // What one comes for is first.
  const tags = [...new Set(entries.flatMap(({ operation }) => operation.tags))].toSorted(
    (a, b) => Number(a === 'system') - Number(b === 'system'),
  );
  const sections = tags.map((tag) => {
    const own = entries.filter(({ operation }) => operation.tags.includes(tag));
    return `<section id="${escape(tag)}"><h2>${escape(tag)}</h2>${own.map(article).join('')}</section>`;
  });
  const types = Object.entries(document.components['schemas'] as Record<string, Schema>)
    .filter(([name]) => name !== 'Json')
    .map(([name, schema]) => type(name, schema));
  sections.push(`<section id="types"><h2>Types</h2>${types.join('')}</section>`);
  const version = String(document.info['version']);
  const links = [...tags, 'types']
    .map((tag) => `<a href="#${escape(tag)}">${escape(tag)}</a>`)
    .join('');
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Relay API</title><style>${style}</style></head>
<body><header><h1>Relay API</h1><p>Version ${escape(version)} · <a href="/openapi.json">openapi.json</a></p>
<p>Send a key with each call: <code>Authorization: Bearer relay_live_…</code>. The first start shows one, <code>relay bootstrap</code> makes more.
Bodies are JSON. An error is <code>{"error": "a sentence", "code": "a_word", "details"?}</code>.</p>
<nav>${links}</nav></header><main>${sections.join('')}</main></body></html>
`;
}

function type(name: string, schema: Schema): string {
  const id = `type-${escape(name)}`;
  return `<article id="${id}"><h3>${escape(name)}</h3><pre>${shapeOf(schema)}</pre></article>`;
}

function article({ method, path, operation }: Entry): string {
  const { operationId, summary, parameters = [], requestBody, responses } = operation;
  const body = requestBody?.content['application/json']?.schema;
  return `<article id="${escape(operationId)}">
<h3><span class="${escape(method)}">${escape(method.toUpperCase())}</span> <code>${escape(path)}</code></h3>
<p>${escape(summary)}. ${access(operation)}</p>
${parameters.length === 0 ? '' : parameterTable(parameters)}
${body === undefined ? '' : details('Body', body)}
${answers(responses)}</article>`;
}

/** Any one of the ways is enough. */
function access({ security = [] }: Operation): string {
  if (security.length === 0) return '<em>Public.</em>';
  const ways = security.map((way) => {
    if ('internal' in way) return 'the internal secret';
    const scopes = Object.values(way).flat();
    if (scopes.length === 0) return 'none on this machine';
    return `a key with the scope <code>${escape(scopes.join(', '))}</code>`;
  });
  return `<em>Needs ${ways.join(', or ')}.</em>`;
}

function parameterTable(parameters: readonly Parameter[]): string {
  const rows = parameters.map(({ name, in: place, required, description = '', schema }) => {
    return `<tr><td><code>${escape(name)}</code>${required ? '' : ' <i>optional</i>'}</td>
<td>${escape(place)}</td><td>${escape(description)} <code>${shapeOf(schema)}</code></td></tr>`;
  });
  return `<table><tr><th>Parameter</th><th>In</th><th></th></tr>${rows.join('')}</table>`;
}

function answers(responses: Operation['responses']): string {
  return Object.entries(responses)
    .toSorted(([a], [b]) => Number(a) - Number(b))
    .map(([status, { description, content }]) => {
      const schema = content?.['application/json']?.schema;
      const says = `<p class="answer"><b>${escape(status)}</b> ${code(description)}</p>`;
      return Number(status) < 400 && schema !== undefined
        ? `${says}${details('Answer', schema)}`
        : says;
    })
    .join('');
}

function details(title: string, schema: Schema): string {
  return `<details><summary>${title}</summary><pre>${shapeOf(schema)}</pre></details>`;
}

/** Words between backticks are code; an empty line parts two of them. */
function code(text: string): string {
  return escape(text)
    .replaceAll(/`([^`]*)`/g, '<code>$1</code>')
    .replaceAll('\n\n', '<br>');
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
