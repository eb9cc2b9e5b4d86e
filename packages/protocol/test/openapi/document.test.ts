import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { type ErrorCode, errorTable } from '../../src/errors.ts';
import { openApiDocument } from '../../src/openapi/document.ts';
import { type Route, routes } from '../../src/routes/index.ts';

type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
type Fields = { readonly [key: string]: Json };

interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly tags: readonly string[];
  readonly parameters?: readonly { name: string; in: string; required: boolean; schema: Fields }[];
  readonly requestBody?: { required: boolean; content: Record<string, { schema: Fields }> };
  readonly responses: Readonly<Record<string, Answer>>;
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
}

interface Answer {
  readonly description: string;
  readonly content?: Readonly<Record<string, { schema?: Fields }>>;
}

const document = openApiDocument('1.2.3');
const plain = document as unknown as Fields;
const table: readonly (readonly [string, Route])[] = Object.entries(routes);

/** The schemas of a union, at any depth; else the schema. */
function alternativesOf(schema: Fields = {}): Fields[] {
  const union = (schema['anyOf'] ?? schema['oneOf']) as Fields[] | undefined;
  return union === undefined ? [schema] : union.flatMap((each) => alternativesOf(each));
}

function operationOf(route: Route): Operation {
  const path = route.path.replaceAll(/:(\w+)/g, '{$1}');
  const operation = document.paths[path]?.[route.method.toLowerCase()];
  expect(operation, `${route.method} ${path}`).toBeDefined();
  return operation as unknown as Operation;
}

/** Every value of the document, with its JSON pointer. */
function* walk(value: Json, path: string): Generator<readonly [string, Json]> {
  yield [path, value];
  if (typeof value !== 'object' || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    yield* walk(inner as Json, `${path}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`);
  }
}

function at(pointer: string): Json | undefined {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce<Json | undefined>(
      (value, key) =>
        typeof value === 'object' && value !== null && Object.hasOwn(value, key)
          ? (value as Fields)[key]
          : undefined,
      plain,
    );
}

/** A schema, or the one that it refers to. */
function resolved(schema: Fields | undefined): Json | undefined {
  const ref = schema?.['$ref'];
  return typeof ref === 'string' ? at(ref.slice(1)) : schema;
}

describe('OpenAPI document', () => {
  it('has the OpenAPI version, a title and the server version', () => {
    expect(document.openapi).toBe('3.1.0');
    expect(document.info).toMatchObject({ title: 'Relay', version: '1.2.3' });
    const parts = ['components', 'info', 'openapi', 'paths', 'servers'];
    expect(Object.keys(document).toSorted()).toEqual(parts);
  });

  it('survives a JSON round trip', () => {
    expect(JSON.parse(JSON.stringify(document))).toEqual(document);
    for (const [path, value] of walk(plain, '')) {
      expect(value, path).not.toBeUndefined();
      expect(['string', 'number', 'boolean', 'object'], path).toContain(typeof value);
    }
  });

  it('resolves all of its references', () => {
    const refs = [...walk(plain, '')].filter(([path]) => path.endsWith('/$ref'));
    expect(refs.length).toBeGreaterThan(10);
    for (const [path, ref] of refs) {
      expect(ref, path).toMatch(/^#\//);
      expect(at((ref as string).slice(1)), path).toBeDefined();
    }
    const text = JSON.stringify(document);
    for (const odd of ['"$defs"', '"$schema"', '"definitions"', '"~standard"']) {
      expect(text).not.toContain(odd);
    }
  });

  it('describes exactly the routes of the table', () => {
    const described = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method} ${path}`),
    );
    const served = table.map(
      ([, { method, path }]) => `${method.toLowerCase()} ${path.replaceAll(/:(\w+)/g, '{$1}')}`,
    );
    expect(described.toSorted()).toEqual(served.toSorted());
    const ids = table.map(([, route]) => operationOf(route).operationId);
    expect(ids).toEqual(table.map(([name]) => name));
  });

  it('refers to named components', () => {
    const answers = { Run: 'getRun', Approval: 'getApproval', Tenant: 'getTenant' };
    for (const [name, route] of Object.entries(answers)) {
      const answer = operationOf(routes[route as keyof typeof routes]).responses['200'];
      expect(answer?.content?.['application/json']?.schema).toEqual({
        $ref: `#/components/schemas/${name}`,
      });
      expect(at(`/components/schemas/${name}/properties`)).toBeDefined();
    }
    expect(document.servers).toEqual([{ url: '/' }]);
  });

  it('lists all error codes', () => {
    expect(at('/components/schemas/Error/properties/code/enum')).toEqual(Object.keys(errorTable));
    expect(at('/components/schemas/Error/required')).toEqual(['error', 'code']);
  });
});

function schemaOf({ query }: Route, name: string): z.ZodType | undefined {
  return query instanceof z.ZodObject ? (query.shape[name] as z.ZodType | undefined) : undefined;
}

describe.each(table)('OpenAPI operation %s', (_name, route) => {
  it('describes its path and query parameters', () => {
    const parameters = operationOf(route).parameters ?? [];
    const inPath = [...route.path.matchAll(/:(\w+)/g)].map(([, name]) => name);
    const names = (place: string) =>
      parameters.filter((each) => each.in === place).map(({ name }) => name);
    expect(names('path')).toEqual(inPath);
    const query = route.query instanceof z.ZodObject ? Object.keys(route.query.shape) : [];
    expect(names('query')).toEqual(query);
    for (const { name, in: place, required, schema } of parameters) {
      const isNeeded = schemaOf(route, name)?.safeParse(undefined).success === false;
      expect(required, name).toBe(place === 'path' || isNeeded);
      expect(schema, name).not.toHaveProperty('description');
      const isCursor = name === 'after' && route.responseType === 'lines';
      const isNumber = !isCursor && ['limit', 'after', 'waitMs', 'seq'].includes(name);
      expect(schema['type'], name).toBe(isNumber ? 'integer' : 'string');
    }
    expect(new Set(parameters.map((each) => `${each.in} ${each.name}`)).size).toBe(
      parameters.length,
    );
  });

  it('describes its body and the required fields', () => {
    const { requestBody } = operationOf(route);
    expect(requestBody !== undefined).toBe(route.body !== undefined);
    if (requestBody === undefined) return;
    expect(requestBody.required).toBe(route.body?.safeParse(undefined).success === false);
    const schema = requestBody.content['application/json']?.schema ?? {};
    for (const each of alternativesOf(schema)) {
      // A message of another protocol may have fields that Relay does not know.
      const isStrict = route.errorFormat === undefined;
      expect(each).toMatchObject({ type: 'object', additionalProperties: isStrict ? false : {} });
    }
    for (const field of route.requiredFields?.fields ?? []) {
      if (typeof field === 'string') expect(schema['required']).toContain(field);
      for (const name of [field].flat()) expect(schema['properties']).toHaveProperty(name);
    }
  });

  it('describes its success response', () => {
    const good = Object.entries(operationOf(route).responses).filter(
      ([status]) => Number(status) < 400,
    );
    const others = [route.noContentWhen, route.acceptedWhen].filter((each) => each !== undefined);
    expect(good).toHaveLength(1 + others.length);
    const [status, { description, content }] = good[0] ?? ['', { description: '' }];
    expect(description).toMatch(/\w/);
    const kinds = {
      json: 'application/json',
      sse: 'text/event-stream',
      html: 'text/html',
      text: 'text/plain',
      lines: 'application/x-ndjson',
      none: undefined,
    };
    const kind = kinds[route.responseType ?? 'json'];
    expect(Object.keys(content ?? {})).toEqual(kind === undefined ? [] : [kind]);
    expect(status).toBe(String(route.status ?? (route.responseType === 'none' ? 204 : 200)));
    if (route.responseType === undefined) {
      for (const each of alternativesOf(
        resolved(content?.['application/json']?.schema) as Fields,
      )) {
        expect(resolved(each)).toMatchObject({ type: 'object' });
      }
    }
  });

  it('describes exactly its errors, by status', () => {
    const bad = Object.entries(operationOf(route).responses).filter(
      ([status]) => Number(status) >= 400,
    );
    const described = bad.flatMap(([status, { description, content }]) => {
      interface Data {
        properties: { code: { enum: ErrorCode[] } };
      }
      const schema = content?.['application/json']?.schema as unknown as {
        allOf: [unknown, Data | { properties: { error: { properties: { data: Data } } } }];
      };
      const name = route.errorFormat === undefined ? 'Error' : 'JsonRpcError';
      expect(schema.allOf[0]).toEqual({ $ref: `#/components/schemas/${name}` });
      const { properties } = schema.allOf[1];
      const data = 'error' in properties ? properties.error.properties.data : { properties };
      return data.properties.code.enum.map((code) => {
        expect(String(errorTable[code].status)).toBe(status);
        expect(description).toContain(`\`${code}\`: ${errorTable[code].title}`);
        return code;
      });
    });
    expect(described.toSorted()).toEqual([...route.errors].toSorted());
  });

  it('describes its authentication', () => {
    const { security } = operationOf(route);
    const auth = route.auth ?? 'key';
    const expected = {
      public: [],
      link: [],
      'sign-in': [],
      key:
        route.anyScope === true
          ? route.scopes.map((scope) => ({ key: [scope] }))
          : [{ key: [...route.scopes] }],
      'local-or-key': [{ key: [...route.scopes] }, {}],
      'internal-or-key': [{ key: [...route.scopes] }, { internal: [] }],
      internal: [{ internal: [] }],
    };
    const tokens = route.session === undefined ? [] : [{ session: [] }];
    const hasCookie = route.cookie !== false && ['key', 'local-or-key'].includes(auth);
    const cookies = hasCookie ? [{ console: [] }] : [];
    expect(security).toHaveLength(expected[auth].length + tokens.length + cookies.length);
    expect(security).toEqual(expect.arrayContaining([...expected[auth], ...tokens, ...cookies]));
    expect(at('/components/securitySchemes/key')).toMatchObject({ type: 'http', scheme: 'bearer' });
  });

  it('has well-formed JSON Schemas', () => {
    const { parameters = [], requestBody, responses } = operationOf(route);
    const schemas = [
      ...parameters.map(({ schema }) => schema),
      requestBody?.content['application/json']?.schema,
      ...Object.values(responses).map(({ content }) => content?.['application/json']?.schema),
    ].filter((schema) => schema !== undefined);
    for (const schema of schemas) expectSchema(schema, route.path);
  });

  it('has no recursive schema other than Json', () => {
    const any = withJson(z.toJSONSchema(z.json()));
    for (const schema of [route.params, route.query, route.body, route.output]) {
      if (schema === undefined) continue;
      const { $defs = {} } = z.toJSONSchema(schema, { unrepresentable: 'any' });
      for (const [name, inner] of Object.entries($defs)) {
        if (at(`/components/schemas/${name}`) !== undefined) continue;
        expect(withJson(inner)).toBe(any);
      }
    }
  });
});

function withJson(schema: Record<string, unknown>): string {
  return JSON.stringify({ ...schema, $schema: undefined }).replaceAll(
    /"#(?:\/\$defs\/[^"]+)?"/g,
    '"#/components/schemas/Json"',
  );
}

const types = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null'];

/** What a reader of the document relies on: a small part of the meta-schema of 2020-12. */
function expectSchema(schema: Json | undefined, where: string): void {
  if (typeof schema === 'boolean') return;
  expect(typeof schema, where).toBe('object');
  const fields = schema as Fields;
  const lists = ['anyOf', 'oneOf', 'allOf'].flatMap((word) => fields[word] ?? []);
  if (fields['type'] !== undefined) expect([fields['type']].flat(), where).toSatisfy(areTypes);
  for (const word of ['required', 'enum']) {
    if (fields[word] !== undefined) expect(Array.isArray(fields[word]), where).toBe(true);
  }
  if (fields['pattern'] !== undefined) {
    expect(() => new RegExp(fields['pattern'] as string, 'u'), where).not.toThrow();
  }
  const properties = Object.entries((fields['properties'] ?? {}) as Fields);
  for (const name of (fields['required'] ?? []) as string[]) {
    if (properties.length > 0) expect(fields['properties'], where).toHaveProperty([name]);
  }
  for (const [name, inner] of properties) expectSchema(inner, `${where}/${name}`);
  for (const word of ['items', 'additionalProperties', 'propertyNames']) {
    if (fields[word] !== undefined) expectSchema(fields[word], `${where}/${word}`);
  }
  for (const inner of lists) expectSchema(inner as Json, where);
}

function areTypes(given: unknown): boolean {
  return Array.isArray(given) && given.every((each) => types.includes(String(each)));
}

describe('OpenAPI document: list routes', () => {
  it('describe their page size and cursor', () => {
    const listed = table.filter(
      ([, { query }]) => query instanceof z.ZodObject && 'cursor' in query.shape,
    );
    expect(listed.length).toBeGreaterThan(2);
    for (const [, route] of listed) {
      const parameters = operationOf(route).parameters as unknown as Fields[];
      const described = (name: string) => parameters.find((each) => each['name'] === name);
      expect(described('limit')?.['description']).toMatch(/1 to 200.*50/);
      expect(described('cursor')?.['description']).toContain('nextCursor');
    }
  });
});
