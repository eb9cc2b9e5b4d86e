import { afterEach, expect, test, vi } from 'vitest';

afterEach(() => {
  vi.unstubAllEnvs();
  vi.resetModules();
});

test.each([
  ['npx', 'npx relay doctor'],
  ['', 'relay doctor'],
])('hints name the command as it was started: %j', async (event, command) => {
  vi.stubEnv('npm_lifecycle_event', event);
  vi.resetModules();
  const { failureOf } = await import('../src/errors.ts');
  const error = Object.assign(new Error('No'), { name: 'RelayApiError', code: 'network_error' });
  expect(failureOf(error).hint).toContain(`"${command}"`);
});
