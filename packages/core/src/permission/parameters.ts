/** The parameters of a call as an approver reads them, by the kinds that the tool declares. */
import type { ExplainedParameter } from '@relay/protocol';
import type { ResolvedPaths } from '../ports/index.ts';
import type { ParameterKind } from './match.ts';
import { relativeTo } from './path.ts';
import { effectsOf } from './shell/effects.ts';
import { segmentsOf } from './shell/segments.ts';
import { explainUrl } from './url.ts';

/** Undefined if no parameter has a kind. Only texts have one. */
export function explainParameters(
  input: Readonly<Record<string, unknown>>,
  kinds: Readonly<Record<string, ParameterKind>> = {},
  resolved?: ResolvedPaths,
): Record<string, ExplainedParameter> | undefined {
  const explained = Object.entries(kinds).flatMap(([name, kind]) => {
    const value = Object.hasOwn(input, name) ? input[name] : undefined;
    if (typeof value !== 'string' || kind === 'text') return [];
    return [[name, explainParameter(value, kind, name, resolved)] as const];
  });
  return explained.length === 0 ? undefined : Object.fromEntries(explained);
}

function explainParameter(
  value: string,
  kind: Exclude<ParameterKind, 'text'>,
  name: string,
  resolved: ResolvedPaths | undefined,
): ExplainedParameter {
  switch (kind) {
    case 'command': {
      const segments = segmentsOf(value);
      const understood = segments.every(({ role }) => role !== 'unparsed');
      return { kind, segments, understood, effects: effectsOf(segments) };
    }
    case 'path': {
      const path = resolved?.paths[name];
      if (resolved === undefined || path === undefined) return { kind, path: value };
      const { root } = resolved;
      return { kind, path: value, resolved: path, outside: isOutside(root, path) };
    }
    case 'url':
      return { kind, url: value, ...explainUrl(value) };
  }
}

function isOutside(root: string, path: string): boolean {
  return path !== root && relativeTo(root, path) === path;
}
