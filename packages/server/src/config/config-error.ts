/** One line for the person who starts the server. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}
