import { describe, expect, it } from 'vitest';
import { readTraceSettings } from '../../src/config/config.ts';

const shared = 'OTEL_EXPORTER_OTLP_ENDPOINT';
const own = 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT';

describe('readTraceSettings', () => {
  it('is undefined without an endpoint', () => {
    expect(readTraceSettings({})).toBeUndefined();
    expect(readTraceSettings({ [shared]: ' ' })).toBeUndefined();
    expect(readTraceSettings({ OTEL_SERVICE_NAME: 'x' })).toBeUndefined();
  });

  it.each([
    [{ [shared]: 'http://c:4318' }, 'http://c:4318/v1/traces'],
    [{ [shared]: 'http://c:4318/' }, 'http://c:4318/v1/traces'],
    [{ [shared]: 'https://c/otlp' }, 'https://c/otlp/v1/traces'],
    [{ [own]: 'http://c:4318/mine' }, 'http://c:4318/mine'],
    [{ [own]: 'http://mine/', [shared]: 'http://c' }, 'http://mine/'],
  ])('follows %j', (env, url) => {
    expect(readTraceSettings(env)?.url).toBe(url);
  });

  it.each([{ OTEL_SDK_DISABLED: 'true' }, { OTEL_TRACES_EXPORTER: 'none' }])(
    'is nowhere with %j',
    (env) => {
      expect(readTraceSettings({ [shared]: 'http://c:4318', ...env })).toBeUndefined();
    },
  );

  it('reads headers and names, the more specific ones first', () => {
    expect(
      readTraceSettings({
        [shared]: 'http://c:4318',
        OTEL_EXPORTER_OTLP_HEADERS: 'a=1, b=two%20words ,',
        OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'a=3',
        OTEL_RESOURCE_ATTRIBUTES: 'service.name=other,deployment.environment.name=prod',
        OTEL_SERVICE_NAME: 'relay-eu',
      }),
    ).toEqual({
      url: 'http://c:4318/v1/traces',
      headers: { a: '3', b: 'two words' },
      serviceName: 'relay-eu',
      resource: { 'deployment.environment.name': 'prod' },
    });
  });

  it('has a default service name', () => {
    expect(readTraceSettings({ [shared]: 'http://c' })?.serviceName).toBe('relay');
  });

  it.each([
    [{ [shared]: 'localhost:4318' }, shared],
    [{ [own]: 'not a url' }, own],
    [{ [shared]: 'ftp://c' }, shared],
    [{ [shared]: 'http://c', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, 'OTEL_EXPORTER_OTLP_PROTOCOL'],
    [{ [shared]: 'http://c', OTEL_EXPORTER_OTLP_HEADERS: 'secret' }, 'OTEL_EXPORTER_OTLP_HEADERS'],
    [
      { [shared]: 'http://c', OTEL_EXPORTER_OTLP_HEADERS: 'a=secret%zz' },
      'OTEL_EXPORTER_OTLP_HEADERS',
    ],
  ])('complains in one line about %j, without repeating a secret', (env, name) => {
    expect(() => readTraceSettings(env)).toThrow(name);
    expect(() => readTraceSettings(env)).not.toThrow(/secret|\n/);
  });
});
