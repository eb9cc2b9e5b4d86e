/** Where traces go, from OpenTelemetry's own environment variables. */
import { ConfigError } from '../../config/config-error.ts';

export interface TraceSettings {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly serviceName: string;
  /** What else is said about this process, such as its environment. */
  readonly resource: Readonly<Record<string, string>>;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Undefined: no endpoint is named, or traces are turned off, and nothing is paid for them. */
export function readTraceSettings(env: Environment): TraceSettings | undefined {
  const said = (name: string) => env[name]?.trim() || undefined;
  if (said('OTEL_SDK_DISABLED')?.toLowerCase() === 'true') return undefined;
  if (said('OTEL_TRACES_EXPORTER') === 'none') return undefined;
  const own = said('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT');
  const shared = said('OTEL_EXPORTER_OTLP_ENDPOINT');
  const url =
    own === undefined
      ? shared && endpoint('OTEL_EXPORTER_OTLP_ENDPOINT', shared, 'v1/traces')
      : endpoint('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', own);
  if (url === undefined) return undefined;
  refuseOtherProtocols(env);
  const resource = pairs(env, 'OTEL_RESOURCE_ATTRIBUTES');
  const { 'service.name': named, ...others } = resource;
  return {
    url,
    headers: {
      ...pairs(env, 'OTEL_EXPORTER_OTLP_HEADERS'),
      ...pairs(env, 'OTEL_EXPORTER_OTLP_TRACES_HEADERS'),
    },
    serviceName: said('OTEL_SERVICE_NAME') ?? named ?? 'relay',
    resource: others,
  };
}

/** The endpoint of all signals gets the path of this one; an endpoint of its own is taken as it is. */
function endpoint(name: string, value: string, path?: string): string {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw new ConfigError(`${name} must be a URL such as http://localhost:4318`);
  }
  if (path !== undefined) url.pathname = `${url.pathname.replace(/\/$/, '')}/${path}`;
  return url.href;
}

const protocols = ['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'OTEL_EXPORTER_OTLP_PROTOCOL'];

/** Every collector that takes HTTP takes JSON; gRPC is another port. */
function refuseOtherProtocols(env: Environment): void {
  for (const name of protocols) {
    if (env[name]?.trim() === 'grpc') {
      throw new ConfigError(`${name}: Relay exports traces over HTTP (port 4318), not gRPC`);
    }
  }
}

/** `name=value,name=value`, percent-encoded. A complaint does not repeat what may be a secret. */
function pairs(env: Environment, variable: string): Record<string, string> {
  const found: [string, string][] = [];
  for (const part of (env[variable] ?? '').split(',')) {
    if (part.trim() === '') continue;
    const [, name, value] = /^\s*([^=\s]+)\s*=\s*(.*?)\s*$/.exec(part) ?? [];
    if (name === undefined || value === undefined) {
      throw new ConfigError(`${variable} must be a list such as name=value,name=value`);
    }
    found.push([decoded(variable, name), decoded(variable, value)]);
  }
  return Object.fromEntries(found);
}

function decoded(variable: string, text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new ConfigError(`${variable} holds a percent sign that encodes nothing`);
  }
}
