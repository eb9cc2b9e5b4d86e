/** The loop and its permissions in a program, without a server. */
export * from '@relay/agents';
