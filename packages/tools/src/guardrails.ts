/**
 * Two guardrails that are worth having everywhere. They look for what is written plainly; whoever
 * hides it well gets past them, so they come on top of permissions and never instead of them.
 */
import type { Guardrail } from '@relay/core';

interface Sign {
  readonly what: string;
  readonly form: RegExp;
}

/** Forms that nothing but a secret has. Each begins with a fixed word, so the search is linear. */
const secrets: readonly Sign[] = [
  { what: 'a private key', form: /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----/ },
  { what: 'an API key of Relay', form: /\brelay_(?:live|sess)_[0-9a-f]{32}/ },
  { what: 'an API key of OpenAI', form: /\bsk-(?:proj-|svcacct-)?[A-Za-z0-9_-]{20}/ },
  { what: 'an API key of Anthropic', form: /\bsk-ant-[A-Za-z0-9_-]{20}/ },
  { what: 'an API key of Google', form: /\bAIza[0-9A-Za-z_-]{35}/ },
  { what: 'an access key of AWS', form: /\b(?:AKIA|ASIA)[0-9A-Z]{16}\b/ },
  { what: 'a token of GitHub', form: /\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{22})/ },
  { what: 'a token of GitLab', form: /\bglpat-[\w-]{20}/ },
  { what: 'a token of Slack', form: /\bxox[abprs]-[\w-]{10}/ },
  { what: 'a key of Stripe', form: /\b[rs]k_live_[0-9A-Za-z]{16}/ },
  { what: 'a token of npm', form: /\bnpm_[A-Za-z0-9]{36}/ },
  { what: 'a signed token', form: /\beyJ[\w-]{10,2000}\.eyJ[\w-]{10,8000}\.[\w-]{10}/ },
  {
    what: 'a URL with a password',
    form: /\b[a-z][a-z0-9+.-]{1,20}:\/\/[^\s/:@]{1,100}:[^\s/@]{3,200}@/,
  },
];

/** For what an agent says: refuses answers that hold a credential. */
export const secretsInOutput: Guardrail = {
  name: 'secrets-in-output',
  check(text) {
    const found = secrets.find(({ form }) => form.test(text));
    return found === undefined ? { ok: true } : { ok: false, reason: `It holds ${found.what}` };
  },
};

const orders: readonly RegExp[] = [
  /\b(?:ignore|disregard|forget|override|bypass)\b.{0,40}\b(?:previous|prior|above|earlier|preceding|all|your|the|system)\b.{0,30}\b(?:instruction|prompt|rule|guideline|direction|message|polic)/,
  /\b(?:reveal|show|print|repeat|output|leak|tell me)\b.{0,40}\b(?:your|the|system|hidden|initial)\b.{0,20}\b(?:system prompt|instructions|prompt|rules)\b/,
  /\byou are (?:now|no longer)\b.{0,40}\b(?:unrestricted|jailbroken|dan|developer mode|without (?:\w+ )?(?:rules|restrictions|limits))/,
  /\b(?:enable|enter|activate|switch (?:in)?to)\b.{0,20}\b(?:developer|debug|god|jailbreak|dan|sudo) mode\b/,
  /\bpretend\b.{0,40}\b(?:no|without)\b.{0,15}\b(?:rules|restrictions|guidelines|filters)\b/,
  /\bdo not (?:tell|inform|ask|alert)\b.{0,30}\b(?:the )?(?:user|human|operator|person)\b/,
  /<\/?(?:system|assistant|instructions)>|\[(?:system|inst)\]|<\|(?:im_start|system)\|>/,
];

/** For what an agent is given: refuses texts that try to give it other orders. */
export const promptInjection: Guardrail = {
  name: 'prompt-injection',
  check(text) {
    const plain = plainText(text);
    const found = orders.some((form) => form.test(plain));
    return found ? { ok: false, reason: 'It tries to override instructions' } : { ok: true };
  },
};

const maxChars = 200_000;

/** Letters that look alike or do not show must not hide an order, nor must line breaks. */
function plainText(text: string): string {
  return text
    .slice(0, maxChars)
    .normalize('NFKC')
    .replaceAll(/[\p{Cf}\p{Mn}]/gu, '')
    .replaceAll(/[\s\p{Zs}]+/gu, ' ')
    .toLowerCase();
}
