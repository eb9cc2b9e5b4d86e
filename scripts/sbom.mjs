// Prints the software bill of materials (CycloneDX) of what runs in production: the packages, their
// dependencies and Node.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

// `--omit=dev` would also omit what the root needs for development and a package for production.
const args = ['sbom', '--sbom-format=cyclonedx', '--sbom-type=application'];
const bom = JSON.parse(
  execFileSync('npm', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] }),
);
const isDevelopment = ({ properties = [] }) =>
  properties.some((each) => each.name === 'cdx:npm:package:development' && each.value === 'true');
// npm uses the name of the folder.
bom.metadata.component.name = 'relay';
bom.components = bom.components.filter((each) => each.name === 'node' || !isDevelopment(each));
const kept = new Set([bom.metadata.component, ...bom.components].map((each) => each['bom-ref']));
bom.dependencies = bom.dependencies
  .filter(({ ref }) => kept.has(ref))
  .map(({ ref, dependsOn = [] }) => ({
    ref,
    dependsOn: dependsOn.filter((each) => kept.has(each)),
  }));
process.stdout.write(`${JSON.stringify(bom, null, 2)}\n`);
