/** Forms that nothing but a secret has. Each begins with a fixed word, so the search is linear. */
export interface SecretForm {
  readonly what: string;
  readonly form: RegExp;
}

export const secretForms: readonly SecretForm[] = [
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
