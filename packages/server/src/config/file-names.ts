/** Of the configuration, in the order in which they are looked for. */
export const configFileNames = [
  'relay.config.ts',
  'relay.config.mts',
  'relay.config.js',
  'relay.config.mjs',
];
