/**
 * Builds the console into `dist`, unless it was built from the same sources before. The build is moved into
 * place when it is complete, so that a server never serves half of one. Runs in a few seconds.
 */
import { createHash } from 'node:crypto';
import { existsSync, globSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { build } from 'vite';

const here = import.meta.dirname;
const packages = join(here, '..');
const dist = join(here, 'dist');
const hashFile = join(dist, 'sources.sha256');

/** Of everything that the build depends on. */
function hashOfSources() {
  const hash = createHash('sha256');
  const sources = [
    ...globSync('{console,sdk,protocol}/src/**/*', { cwd: packages, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name)),
    ...globSync('console/public/*', { cwd: packages }).map((file) => join(packages, file)),
    ...['index.html', 'vite.config.ts', 'build.mjs'].map((name) => join(here, name)),
    join(packages, '../package-lock.json'),
  ];
  for (const file of sources.toSorted()) hash.update(file).update('\0').update(readFileSync(file));
  return hash.digest('hex');
}

function isBuiltFrom(hash) {
  try {
    return readFileSync(hashFile, 'utf8') === hash;
  } catch {
    return false;
  }
}

/** Text compresses once here instead of with every request. */
function compress(folder) {
  for (const name of globSync('**/*.{js,css,html,svg}', { cwd: folder })) {
    const file = join(folder, name);
    const content = readFileSync(file);
    if (content.length < 1_024) continue;
    writeFileSync(`${file}.gz`, gzipSync(content, { level: 9 }));
    const params = { [constants.BROTLI_PARAM_QUALITY]: 9 };
    writeFileSync(`${file}.br`, brotliCompressSync(content, { params }));
  }
}

/**
 * Another build of the same sources may be faster. The old folder is moved away before it is deleted: deleting
 * it in place could delete what the other build has just moved there.
 */
function moveIntoPlace(folder) {
  const old = `${folder}.old`;
  for (let attempt = 1; ; attempt += 1) {
    try {
      if (existsSync(dist)) renameSync(dist, old);
      renameSync(folder, dist);
      return;
    } catch (error) {
      if (isBuiltFrom(hash)) return;
      if (attempt === 5) throw error;
    } finally {
      rmSync(old, { recursive: true, force: true });
    }
  }
}

const hash = hashOfSources();
if (!isBuiltFrom(hash)) {
  const startedAt = Date.now();
  console.error('Building the console (once, a few seconds) …');
  const folder = join(here, `dist.${process.pid}`);
  try {
    await build({
      configFile: join(here, 'vite.config.ts'),
      logLevel: 'warn',
      build: { outDir: folder, emptyOutDir: true },
    });
    compress(folder);
    writeFileSync(join(folder, 'sources.sha256'), hash);
    moveIntoPlace(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  console.error(`Built the console in ${((Date.now() - startedAt) / 1_000).toFixed(1)} s`);
}
