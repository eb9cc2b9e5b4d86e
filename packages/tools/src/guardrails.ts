/**
 * Two guardrails that are worth having everywhere. They look for what is written plainly; whoever
 * hides it well gets past them, so they come on top of permissions and never instead of them.
 */
import type { Guardrail } from '@relay/core';
import { secretForms } from './secret-forms.ts';

/** For what an agent says: refuses answers that hold a credential. */
export const secretsInOutput: Guardrail = {
  name: 'secrets-in-output',
  check(text) {
    const found = secretForms.find(({ form }) => form.test(text));
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
