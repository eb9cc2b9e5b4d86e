/** What a `relay.config.ts`, and a program that embeds a server, import. */
export * from '@relay/server';
