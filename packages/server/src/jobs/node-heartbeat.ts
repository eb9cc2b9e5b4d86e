/**
 * Heartbeats of this node, and cleanup after dead nodes: their chats have lost their connection and
 * are ended here. Their runs are recovered through their leases.
 */
import { BackgroundLoop, type BackgroundLoopOptions, type RunControl } from '@relay/core';
import { endOrphanedChatSessions } from '../streaming/chat-sessions.ts';
import type { Config } from '../config/config.ts';

export class NodeHeartbeat {
  readonly #control: RunControl;
  readonly #loops: readonly BackgroundLoop[];

  constructor(control: RunControl, config: Config) {
    this.#control = control;
    // Two loops: a long cleanup must not delay the heartbeat.
    this.#loops = [
      this.#loop(() => this.#sendHeartbeat(), 'Failed to send the heartbeat of this node'),
      this.#loop(
        async (signal) => void (await endOrphanedChatSessions({ control, config }, signal)),
        'Failed to end chats of dead nodes',
      ),
    ];
  }

  async start(): Promise<void> {
    await this.#sendHeartbeat();
    for (const loop of this.#loops) loop.start();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#loops.map((loop) => loop.stop()));
    const { store, settings, log } = this.#control.engine;
    await store.removeNode(settings.node).catch((error: unknown) => {
      log.warn('Failed to remove this node from the list', { error: String(error) });
    });
  }

  #loop(step: BackgroundLoopOptions['step'], message: string): BackgroundLoop {
    const { clock, settings, log } = this.#control.engine;
    return new BackgroundLoop({
      clock,
      intervalMs: settings.leaseTtlMs / 3,
      delayFirst: true,
      step,
      onError: (error) => log.warn(message, { error: String(error) }),
    });
  }

  async #sendHeartbeat(): Promise<void> {
    const { store, clock, settings } = this.#control.engine;
    const now = clock.now();
    await store.heartbeatNode({ owner: settings.node, now, until: now + settings.leaseTtlMs });
  }
}
