/** An answer of a given shape, asked for field by field. */

type Ask = (prompt: string) => Promise<string | undefined>;
type Schema = Readonly<Record<string, unknown>>;

/** `undefined`: it was left. What is typed is read as the schema says; the server checks it again. */
export async function answerTo(schema: Schema | undefined, ask: Ask): Promise<unknown> {
  const fields = fieldsOf(schema);
  if (fields === undefined) {
    const line = await ask('Answer');
    return line === undefined ? undefined : read(line, schema);
  }
  const required = new Set(schema?.['required'] as readonly string[] | undefined);
  const answer: Record<string, unknown> = {};
  for (const [name, field] of fields) {
    const line = await ask(labelOf(name, field, required.has(name)));
    if (line === undefined) return undefined;
    if (line.trim() !== '' || required.has(name)) answer[name] = read(line, field);
  }
  return answer;
}

function fieldsOf(schema: Schema | undefined): readonly (readonly [string, Schema])[] | undefined {
  const properties = schema?.['properties'];
  if (schema?.['type'] !== 'object' || typeof properties !== 'object' || properties === null) {
    return undefined;
  }
  return Object.entries(properties as Record<string, Schema>);
}

function labelOf(name: string, field: Schema, isRequired: boolean): string {
  const choices = Array.isArray(field['enum']) ? ` (${field['enum'].join(' | ')})` : '';
  const about = typeof field['description'] === 'string' ? `, ${field['description']}` : '';
  return `${name}${about}${choices}${isRequired ? '' : ', may be empty'}`;
}

function read(line: string, schema: Schema | undefined): unknown {
  if (schema?.['type'] === 'string') return line;
  if (schema?.['type'] === 'boolean' && /^(y|yes)$/i.test(line.trim())) return true;
  if (schema?.['type'] === 'boolean' && /^(n|no)$/i.test(line.trim())) return false;
  try {
    return JSON.parse(line) as unknown;
  } catch {
    return line;
  }
}
