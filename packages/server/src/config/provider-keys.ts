/**
 * API keys of model providers from environment variables, under the names that other tools use. They are
 * for development: they serve the tenant `default`, where it has stored no credential of its own.
 */
import type { KnownProvider } from '../outbound/providers.ts';

export interface ProviderKey {
  readonly provider: KnownProvider;
  /** The variable that it comes from. */
  readonly variable: string;
  readonly apiKey: string;
  /** Undefined: that of the provider. */
  readonly baseUrl: string | undefined;
}

interface Names {
  /** The first that is set counts. */
  readonly keys: readonly string[];
  readonly baseUrl?: string;
}

const names: Readonly<Record<KnownProvider, Names>> = {
  openai: { keys: ['OPENAI_API_KEY'], baseUrl: 'OPENAI_BASE_URL' },
  anthropic: { keys: ['ANTHROPIC_API_KEY'], baseUrl: 'ANTHROPIC_BASE_URL' },
  google: { keys: ['GEMINI_API_KEY', 'GOOGLE_GENERATIVE_AI_API_KEY', 'GOOGLE_API_KEY'] },
};

/** The variable to set for a provider. */
export function keyVariableOf(provider: KnownProvider): string | undefined {
  return names[provider].keys[0];
}

/** `read` trims a variable; `fail` throws an error about one. Errors never repeat a key. */
export function providerKeys(
  read: (variable: string) => string | undefined,
  fail: (message: string) => never,
): ProviderKey[] {
  return (Object.entries(names) as [KnownProvider, Names][]).flatMap(([provider, known]) => {
    const variable = known.keys.find((name) => read(name) !== undefined);
    const apiKey = variable === undefined ? undefined : read(variable);
    if (variable === undefined || apiKey === undefined) return [];
    if (!/^[\x21-\x7e]{1,4096}$/.test(apiKey)) {
      fail(`${variable} must be printable ASCII characters without spaces`);
    }
    const configured = known.baseUrl === undefined ? undefined : read(known.baseUrl);
    const url = configured === undefined || !URL.canParse(configured) ? null : new URL(configured);
    if (configured !== undefined && !/^https?:$/.test(url?.protocol ?? '')) {
      fail(`${known.baseUrl} must be a URL such as https://api.example/v1`);
    }
    return [{ provider, variable, apiKey, baseUrl: baseUrlOf(provider, url) }];
  });
}

/** Anthropic's own clients add the version of the API to the URL. */
function baseUrlOf(provider: KnownProvider, url: URL | null): string | undefined {
  const href = url?.href.replace(/\/+$/, '');
  return provider === 'anthropic' && href !== undefined && !href.endsWith('/v1')
    ? `${href}/v1`
    : href;
}
