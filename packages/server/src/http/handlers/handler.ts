import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../auth.ts';
import type { ServerContext } from '../context.ts';
import type { Input } from '../validate.ts';

/** A request that was authenticated and validated against its route. */
export interface Call extends Input {
  readonly caller: Caller;
  readonly context: ServerContext;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

export type Handler = (call: Call) => Promise<unknown>;
export type PublicHandler = (context: ServerContext) => Promise<unknown>;
