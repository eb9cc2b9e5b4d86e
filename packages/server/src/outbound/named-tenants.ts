/** The ids of tenants that the configuration names. A tenant may be created later. */
import { BackgroundLoop, type Engine } from '@relay/core';

const lookupMs = 2_000;

export class NamedTenants {
  readonly #store: Engine['store'];
  readonly #names: ReadonlySet<string>;
  readonly #ids = new Map<string, string>();
  readonly #loop: BackgroundLoop;

  constructor(engine: Pick<Engine, 'store' | 'clock' | 'log'>, names: Iterable<string>) {
    const { store, clock, log } = engine;
    this.#store = store;
    this.#names = new Set(names);
    this.#loop = new BackgroundLoop({
      clock,
      intervalMs: lookupMs,
      step: async () => {
        await this.#find();
        return this.#missing.length > 0 ? lookupMs : Infinity;
      },
      onError: (error) =>
        log.warn('Failed to look up the tenants that the configuration names', {
          error: String(error),
        }),
    });
  }

  /** Undefined if the tenant does not exist yet. */
  idOf(name: string): string | undefined {
    return this.#ids.get(name);
  }

  async start(): Promise<void> {
    await this.#find();
    this.#loop.start();
  }

  stop(): Promise<void> {
    return this.#loop.stop();
  }

  get #missing(): string[] {
    return [...this.#names].filter((name) => !this.#ids.has(name));
  }

  async #find(): Promise<void> {
    for (const name of this.#missing) {
      const found = await this.#store.findTenant(name);
      if (found !== undefined) this.#ids.set(name, found.id);
    }
  }
}
