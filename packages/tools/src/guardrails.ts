/**
 * Two guardrails for general use. They find plain text only and can be evaded, so they complement
 * permissions and never replace them.
 */
import type { Guardrail } from '@relay/core';

/** Patterns that match only secrets. Each starts with a fixed word, so that a search is linear. */
export const secretPatterns: readonly { readonly name: string; readonly pattern: RegExp }[] = [
  { name: 'a private key', pattern: /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----/ },
  { name: 'a Relay API key', pattern: /\brelay_(?:live|sess|cons|link)_[0-9a-f]{32}/ },
  { name: 'an OpenAI API key', pattern: /\bsk-(?:proj-|svcacct-)?[A-Za-z0-9_-]{20}/ },
  { name: 'an Anthropic API key', pattern: /\bsk-ant-[A-Za-z0-9_-]{20}/ },
  { name: 'a Google API key', pattern: /\bAIza[0-9A-Za-z_-]{35}/ },
  { name: 'an AWS access key', pattern: /\b(?:AKIA|ASIA)[0-9A-Z]{16}\b/ },
  { name: 'a GitHub token', pattern: /\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{22})/ },
  { name: 'a GitLab token', pattern: /\bglpat-[\w-]{20}/ },
  { name: 'a Slack token', pattern: /\bxox[abprs]-[\w-]{10}/ },
  { name: 'a Stripe key', pattern: /\b[rs]k_live_[0-9A-Za-z]{16}/ },
  { name: 'an npm token', pattern: /\bnpm_[A-Za-z0-9]{36}/ },
  { name: 'a signed token', pattern: /\beyJ[\w-]{10,2000}\.eyJ[\w-]{10,8000}\.[\w-]{10}/ },
  {
    name: 'a URL with a password',
    pattern: /\b[a-z][a-z0-9+.-]{1,20}:\/\/[^\s/:@]{1,100}:[^\s/@]{3,200}@/,
  },
];

/** For output: refuses answers that contain a credential. */
export const secretsInOutput: Guardrail = {
  name: 'secrets-in-output',
  check(text) {
    const found = secretPatterns.find(({ pattern }) => pattern.test(text));
    return found === undefined
      ? { ok: true }
      : { ok: false, reason: `The answer contains ${found.name}` };
  },
};

const injections: readonly RegExp[] = [
  /\b(?:ignore|disregard|forget|override|bypass)\b.{0,40}\b(?:previous|prior|above|earlier|preceding|all|your|the|system)\b.{0,30}\b(?:instruction|prompt|rule|guideline|direction|message|polic)/,
  /\b(?:reveal|show|print|repeat|output|leak|tell me)\b.{0,40}\b(?:your|the|system|hidden|initial)\b.{0,20}\b(?:system prompt|instructions|prompt|rules)\b/,
  /\byou are (?:now|no longer)\b.{0,40}\b(?:unrestricted|jailbroken|dan|developer mode|without (?:\w+ )?(?:rules|restrictions|limits))/,
  /\b(?:enable|enter|activate|switch (?:in)?to)\b.{0,20}\b(?:developer|debug|god|jailbreak|dan|sudo) mode\b/,
  /\bpretend\b.{0,40}\b(?:no|without)\b.{0,15}\b(?:rules|restrictions|guidelines|filters)\b/,
  /\bdo not (?:tell|inform|ask|alert)\b.{0,30}\b(?:the )?(?:user|human|operator|person)\b/,
  /<\/?(?:system|assistant|instructions)>|\[(?:system|inst)\]|<\|(?:im_start|system)\|>/,
];

/** For input: refuses texts that try to override the instructions. */
export const promptInjection: Guardrail = {
  name: 'prompt-injection',
  check(text) {
    const plain = plainText(text);
    const found = injections.some((pattern) => pattern.test(plain));
    return found
      ? { ok: false, reason: 'The input tries to override the instructions' }
      : { ok: true };
  },
};

const maxChars = 200_000;

/** Normalises look-alike characters, invisible characters and white space. */
function plainText(text: string): string {
  return text
    .slice(0, maxChars)
    .normalize('NFKC')
    .replaceAll(/[\p{Cf}\p{Mn}]/gu, '')
    .replaceAll(/[\s\p{Zs}]+/gu, ' ')
    .toLowerCase();
}
