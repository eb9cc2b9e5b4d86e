// Run by npm around `npm pack` and `npm publish` in a package: the tarball exports the build, the
// repository exports the source (Node does not strip types under node_modules).
import { execFileSync } from 'node:child_process';
import { copyFileSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const [step] = process.argv.slice(2);

if (step === 'build') {
  // What earlier builds left there must not be packed.
  for (const old of ['dist', 'tsconfig.tsbuildinfo']) rmSync(old, { recursive: true, force: true });
  execFileSync(`${root}/node_modules/.bin/tsc`, ['-b', '.'], { stdio: 'inherit' });
} else if (step === 'rewrite') {
  copyFileSync('package.json', 'package.json.source');
  const manifest = JSON.parse(readFileSync('package.json', 'utf8'));
  manifest.exports = Object.fromEntries(
    Object.entries(manifest.exports)
      .filter(([, source]) => source.startsWith('./src/'))
      .map(([name, source]) => [name, builtFrom(source)]),
  );
  writeFileSync('package.json', `${JSON.stringify(manifest, null, 2)}\n`);
} else if (step === 'restore') {
  renameSync('package.json.source', 'package.json');
}

function builtFrom(source) {
  const built = source.replace('./src/', './dist/').replace(/\.ts$/, '');
  return { types: `${built}.d.ts`, default: `${built}.js` };
}
