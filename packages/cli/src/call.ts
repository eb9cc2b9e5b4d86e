/** One call of a command: what was asked for, and what it needs to answer. */
import type { RelayClient } from '@relay/sdk';
import type { Command } from 'commander';
import { type Connection, clientFor, connectionOf } from './connection.ts';
import { Print } from './print.ts';
import type { World } from './world.ts';

export interface SharedOptions {
  readonly json?: boolean;
  readonly url?: string;
  readonly profile?: string;
}

export class Call<Options extends object = object> {
  readonly world: World;
  readonly print: Print;
  readonly options: Options & SharedOptions;

  constructor(world: World, options: Options & SharedOptions) {
    this.world = world;
    this.options = options;
    this.print = new Print(world, options.json === true);
  }

  get connection(): Connection {
    return connectionOf(this.world, this.options);
  }

  client(): Promise<RelayClient> {
    return clientFor(this.connection);
  }
}

type Act<Options extends object> = (
  call: Call<Options>,
  args: readonly string[],
) => Promise<void> | void;

/** What commander calls; the modules that do the work are loaded by the work itself. */
export function acting<Options extends object>(world: World, act: Act<Options>) {
  return async (...received: unknown[]): Promise<void> => {
    const command = received.at(-1) as Command;
    const call = new Call(world, command.optsWithGlobals<Options & SharedOptions>());
    await act(call, command.args);
  };
}
