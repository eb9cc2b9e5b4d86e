/**
 * A node among others: it says again and again that it is alive, and takes care of what the dead have
 * left. Their runs come with their leases; their chats have lost their connection.
 */
import { BackgroundLoop, type BackgroundLoopOptions, type Control } from '@relay/core';
import { endOrphanedChatSessions } from '../streaming/connections.ts';
import type { Config } from '../config/config.ts';

export class Presence {
  readonly #control: Control;
  readonly #config: Config;
  readonly #loops: readonly BackgroundLoop[];

  constructor(control: Control, config: Config) {
    this.#control = control;
    this.#config = config;
    // Two loops: a node that has much to hang up must not be taken for dead meanwhile.
    this.#loops = [
      this.#loop(() => this.#beat(), 'This node could not say that it is alive'),
      this.#loop((signal) => this.#hangUp(signal), 'Chats of dead nodes could not be hung up'),
    ];
  }

  /** From now on the other nodes know that this one is alive. */
  async start(): Promise<void> {
    await this.#beat();
    for (const loop of this.#loops) loop.start();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#loops.map((loop) => loop.stop()));
    const { store, settings, log } = this.#control.engine;
    await store.removeNode(settings.node).catch((error: unknown) => {
      log.warn('The other nodes could not be told', { error: String(error) });
    });
  }

  #loop(step: BackgroundLoopOptions['step'], complaint: string): BackgroundLoop {
    const { clock, settings, log } = this.#control.engine;
    return new BackgroundLoop({
      clock,
      intervalMs: settings.leaseTtlMs / 3,
      delayFirst: true,
      step,
      onError: (error) => log.warn(complaint, { error: String(error) }),
    });
  }

  async #beat(): Promise<void> {
    const { store, clock, settings } = this.#control.engine;
    const now = clock.now();
    await store.heartbeatNode({ owner: settings.node, now, until: now + settings.leaseTtlMs });
  }

  #hangUp(signal: AbortSignal): Promise<void> {
    return endOrphanedChatSessions({ control: this.#control, config: this.#config }, signal);
  }
}
