/** Generates docs/reference from the code; with --check, fails if it is out of date. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { errorsPage, eventsPage, generated, routesPage } from './reference-pages.ts';
import { streamsPage } from './reference-streams.ts';

const folder = fileURLToPath(new URL('../docs/reference/', import.meta.url));
const pages = {
  'errors.md': errorsPage(),
  'events.md': eventsPage(),
  'routes.md': routesPage(),
  'streams.md': streamsPage(generated),
};

mkdirSync(folder, { recursive: true });
for (const [name, text] of Object.entries(pages)) {
  const file = `${folder}${name}`;
  if (!process.argv.includes('--check')) writeFileSync(file, text);
  else if (read(file) !== text) {
    console.error(`docs/reference/${name} is out of date; run npm run reference`);
    process.exitCode = 1;
  }
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
