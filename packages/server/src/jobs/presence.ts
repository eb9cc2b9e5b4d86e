/**
 * A node among others: it says again and again that it is alive, and takes care of what the dead have
 * left. Their runs come with their leases; their chats have lost their connection.
 */
import type { Control } from '@relay/core';
import { hangUpOrphans } from '../streaming/chat-sessions.ts';
import type { Config } from '../config/config.ts';

export class Presence {
  readonly #control: Control;
  readonly #config: Config;
  readonly #leaving = new AbortController();
  #work: Promise<unknown> = Promise.resolve();

  constructor(control: Control, config: Config) {
    this.#control = control;
    this.#config = config;
  }

  /** From now on the others know that it is there. */
  async start(): Promise<void> {
    await this.#beat();
    // Apart from each other: a node that has much to hang up must not be taken for dead meanwhile.
    this.#work = Promise.all([
      this.#again(() => this.#beat(), 'This node could not say that it is alive'),
      this.#again(() => this.#hangUp(), 'Chats of dead nodes could not be hung up'),
    ]);
  }

  async stop(): Promise<void> {
    this.#leaving.abort();
    await this.#work;
    const { store, settings, log } = this.#control.engine;
    await store.forgetNode(settings.node).catch((error: unknown) => {
      log.warn('The other nodes could not be told', { error: String(error) });
    });
  }

  async #again(work: () => Promise<void>, complaint: string): Promise<void> {
    const { clock, settings, log } = this.#control.engine;
    const { signal } = this.#leaving;
    while (!signal.aborted) {
      await clock.sleep(settings.leaseTtlMs / 3, signal);
      if (signal.aborted) return;
      try {
        await work();
      } catch (error) {
        log.warn(complaint, { error: String(error) });
      }
    }
  }

  async #beat(): Promise<void> {
    const { store, clock, settings } = this.#control.engine;
    const now = clock.now();
    await store.keepNode({ owner: settings.node, now, until: now + settings.leaseTtlMs });
  }

  #hangUp(): Promise<void> {
    return hangUpOrphans({ control: this.#control, config: this.#config }, this.#leaving.signal);
  }
}
