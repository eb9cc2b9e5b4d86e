/** `RELAY_` variables that are not settings: most likely misspelled. Their values are never shown. */
import { readConfig } from './config.ts';
import { nearestTo } from '@relay/protocol/display';

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
  return nearestTo(name, known, 3);
}
