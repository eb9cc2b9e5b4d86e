/** What a `relay.config.ts`, and a program that embeds a server, import. */
export * from '@relay/server';
/** The library of the schemas of tools, so that a project needs no second version of it. */
export { z } from 'zod';
