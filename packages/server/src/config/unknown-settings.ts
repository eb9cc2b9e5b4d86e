/** Variables that look like settings and are none: most likely mistyped. Their values are never told. */
import { readConfig } from './config.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Read elsewhere: the name of the config file, and what clients of a server have. */
const others = ['RELAY_CONFIG', 'RELAY_URL', 'RELAY_API_KEY', 'RELAY_PROFILE', 'RELAY_PROFILES'];

/** For whoever tests Relay, and none of a server's business. */
const forTests = /^RELAY_TEST_/;

/** Every setting that a server asks for, found out by letting it ask. */
export function knownSettings(): string[] {
  const asked = new Set<string>();
  const listener = new Proxy<Environment>(
    {},
    {
      get(_, name) {
        if (typeof name === 'string' && name.startsWith('RELAY_')) asked.add(name);
        return undefined;
      },
    },
  );
  readConfig(listener, '/');
  return [...asked, ...others];
}

/** A sentence for each of them. */
export function unknownSettings(env: Environment): string[] {
  const known = knownSettings();
  return Object.keys(env)
    .filter((name) => name.startsWith('RELAY_') && !forTests.test(name) && !known.includes(name))
    .filter((name) => env[name] !== undefined)
    .toSorted()
    .map((name) => {
      const meant = nearest(name, known);
      const guess = meant === undefined ? '' : `; did you mean ${meant}?`;
      return `${name} is not a setting of Relay, and nothing reads it${guess}`;
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

/** How many letters are wrong, missing, too many or changed places. */
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
