import { catalogue, errorTable, type Route, routes } from '@relay/protocol';

export const generated = '<!-- Written by `npm run reference` from the code. -->';

/** Markdown's own sign within a cell. */
function cell(text: string): string {
  return text.replaceAll('|', '\\|');
}

export function errorsPage(): string {
  const rows = Object.entries(errorTable).map(
    ([code, { status, retryable, title }]) =>
      `| \`${code}\` | ${status} | ${retryable ? 'yes' : 'no'} | ${cell(title)} |`,
  );
  return [
    '# Errors',
    '',
    generated,
    '',
    'Every error is `{"error": "<sentence>", "code": "<word>", "details"?}`. `details` lists the',
    'fields that are wrong, each with its `path` and a `message`.',
    '',
    '| code | status | worth trying again | meaning |',
    '|---|---|---|---|',
    ...rows,
    '',
  ].join('\n');
}

export function eventsPage(): string {
  const rows = Object.entries(catalogue).map(([name, { version, schema }]) => {
    const fields = Object.entries(schema.shape).map(([field, type]) =>
      type.safeParse(undefined).success ? `${field}?` : field,
    );
    return `| \`${name}\` | ${version} | ${fields.map((field) => `\`${field}\``).join(', ')} |`;
  });
  return [
    '# Events',
    '',
    generated,
    '',
    'The journal of a run holds these events, and every stream is a view of them. Each also has its',
    '`seq` (1, 2, 3 … without a gap) and the time `at` which it was stored.',
    '',
    '| event | version | fields |',
    '|---|---|---|',
    ...rows,
    '',
  ].join('\n');
}

function scopesOf({ auth, scopes, anyScope }: Route): string {
  if (auth === 'public') return '–';
  if (auth === 'link') return 'the link';
  if (auth === 'internal') return 'the internal secret';
  return scopes.map((each) => `\`${each}\``).join(anyScope === true ? ' or ' : ', ');
}

export function routesPage(): string {
  const rows = Object.values(routes as Record<string, Route>).map((route) => {
    const key = scopesOf(route);
    const errors = route.errors.map((code) => `\`${code}\``).join(', ');
    return `| \`${route.method} ${route.path}\` | ${cell(route.summary)} | ${key} | ${errors} |`;
  });
  return [
    '# Routes',
    '',
    generated,
    '',
    '| route | what it is for | scope of the key | errors |',
    '|---|---|---|---|',
    ...rows,
    '',
  ].join('\n');
}
