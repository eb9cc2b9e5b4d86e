/** The small page behind a decision link: what would run, and two buttons. No script, no frame. */
import { createHash } from 'node:crypto';
import type { ApprovalRecord } from '@relay/core';
import type { RelayError } from '@relay/protocol';
import { displayOf } from './display.ts';

const style = `:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 1rem;overflow-wrap:anywhere}
pre{white-space:pre-wrap;border:1px solid;padding:1rem}
form{display:flex;flex-wrap:wrap;gap:.75rem;margin:0 0 1.5rem}
button,input{font:inherit;padding:.75rem 1rem;border:1px solid;border-radius:.4rem}
button{min-width:8rem}input{flex:1 1 14rem;min-width:0;background:none;color:inherit}
.yes{background:#1f7a4d;border-color:#1f7a4d;color:#fff}.no{background:#a83232;border-color:#a83232;color:#fff}
.warning{border-left:.3rem solid;padding-left:1rem;font-weight:bold}`;

const styleHash = createHash('sha256').update(style).digest('base64');

export const pageHeaders: Readonly<Record<string, string>> = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': [
    "default-src 'none'",
    `style-src 'sha256-${styleHash}'`,
    "form-action 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ].join('; '),
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'cache-control': 'no-store',
  'x-robots-tag': 'noindex',
};

/** In letters, for a reason that is typed into the page. */
export const longestReason = 500;

/** Deciding is a POST: whoever only opens the link, a mail scanner or a preview, decides nothing. */
export function askingPage(approval: ApprovalRecord): string {
  const { text, flags } = displayOf(approval.tool, approval.params);
  const warning =
    flags.length === 0
      ? ''
      : `<p class="warning">Beware: it holds characters that do not show or look like others (${escaped(flags.join(', '))}). They are written out.</p>`;
  return page(
    'May this run?',
    `<p>The agent <b>${escaped(approval.agentPath.join(' › '))}</b> wants to use <b>${escaped(approval.tool)}</b>:</p>
${warning}<pre>${escaped(text)}</pre>
<p>Run ${escaped(approval.runId)}. The request expires on ${escaped(minuteOf(approval.expiresAt))}.</p>
<form method="post"><input type="hidden" name="approved" value="true"><button class="yes">Approve</button></form>
<form method="post"><input type="hidden" name="approved" value="false"><button class="no">Deny</button>
<input name="reason" maxlength="${longestReason}" autocomplete="off" aria-label="Why not? The agent reads it" placeholder="Why not? The agent reads it"></form>`,
  );
}

export function answeredPage(status: string): string {
  return page(`This request is ${status}`, '<p>Nothing more can be decided here.</p>');
}

/** For people: programs are told the same as JSON. */
export function failedPage({ code, message }: RelayError): string {
  return code === 'not_found'
    ? page(
        'This link leads nowhere',
        '<p>It may have been withdrawn, or never have been whole.</p>',
      )
    : page('Nothing was decided', `<p>${escaped(message)}</p>`);
}

/** Whoever opens the page may be anywhere, so it is said in UTC. */
function minuteOf(at: number): string {
  return `${new Date(at).toISOString().slice(0, 16).replace('T', ' at ')} UTC`;
}

function page(title: string, body: string): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>${escaped(title)}</title><style>${style}</style></head>
<body><h1>${escaped(title)}</h1>
${body}
</body></html>
`;
}

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (char) => `&#${char.codePointAt(0)};`);
}
