/** `RELAY_` variables that are not settings: most likely misspelled. Their values are never shown. */
import { readConfig } from './config.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Read elsewhere: the path of the config file, and settings of clients. */
const others = ['RELAY_CONFIG', 'RELAY_URL', 'RELAY_API_KEY', 'RELAY_PROFILE', 'RELAY_PROFILES'];

const forTests = /^RELAY_TEST_/;

/** Every setting that `readConfig` reads, found by recording its reads. */
export function knownSettings(): string[] {
  const read = new Set<string>();
  const recorder = new Proxy<Environment>(
    {},
    {
      get(_, name) {
        if (typeof name === 'string' && name.startsWith('RELAY_')) read.add(name);
        return undefined;
      },
    },
  );
  readConfig(recorder, '/');
  return [...read, ...others];
}

/** One sentence for each. */
export function unknownSettings(env: Environment): string[] {
  const known = knownSettings();
  return Object.keys(env)
    .filter((name) => name.startsWith('RELAY_') && !forTests.test(name) && !known.includes(name))
    .filter((name) => env[name] !== undefined)
    .toSorted()
    .map((name) => {
      const suggestion = nearest(name, known);
      const hint = suggestion === undefined ? '' : `; did you mean ${suggestion}?`;
      return `${name} is not a setting of Relay and is ignored${hint}`;
    });
}

function nearest(name: string, known: readonly string[]): string | undefined {
  const words = name.split('_');
  const holds = (each: string) => words.every((word) => each.split('_').includes(word));
  const [holding, ...more] = known.filter(holds);
  if (holding !== undefined && more.length === 0) return holding;
  const [best] = known
    .map((each) => ({ each, distance: distanceOf(name, each) }))
    .toSorted((a, b) => a.distance - b.distance);
  return best !== undefined && best.distance <= 3 ? best.each : undefined;
}

/** Damerau-Levenshtein distance (optimal string alignment). */
function distanceOf(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, column) => column)];
  const at = (row: number, column: number) => rows[row]?.[column] ?? 0;
  for (let i = 1; i <= a.length; i += 1) {
    rows.push([i]);
    for (let j = 1; j <= b.length; j += 1) {
      const same = a[i - 1] === b[j - 1];
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      rows[i]?.push(
        Math.min(
          at(i - 1, j) + 1,
          at(i, j - 1) + 1,
          at(i - 1, j - 1) + (same ? 0 : 1),
          swapped ? at(i - 2, j - 2) + 1 : Infinity,
        ),
      );
    }
  }
  return at(a.length, b.length);
}
