/** The client of a Relay server. */
export * from '@relay/sdk';
