/** The small page behind a decision link: what would run, and two buttons. No script, no frame. */
import { createHash } from 'node:crypto';
import type { RelayRecord } from '@relay/core';
import { displayOf } from '../handlers/display.ts';

const style = `body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:3rem auto;padding:0 1rem}
pre{white-space:pre-wrap;overflow-wrap:anywhere;border:1px solid;padding:1rem}
form{display:inline-block;margin-right:1rem}button{font:inherit;padding:.5rem 1.5rem}
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

/** Deciding is a POST: whoever only opens the link, a mail scanner or a preview, decides nothing. */
export function askingPage(relay: RelayRecord): string {
  const { text, flags } = displayOf(relay.tool, relay.params);
  const warning =
    flags.length === 0
      ? ''
      : `<p class="warning">Beware: it holds characters that do not show or look like others (${escaped(flags.join(', '))}). They are written out.</p>`;
  return page(
    'May this run?',
    `<p>The agent <b>${escaped(relay.agentPath.join(' › '))}</b> wants to use <b>${escaped(relay.tool)}</b>:</p>
${warning}<pre>${escaped(text)}</pre>
<p>Run ${escaped(relay.runId)}. The request expires at ${escaped(new Date(relay.expiresAt).toISOString())}.</p>
<form method="post"><input type="hidden" name="approved" value="true"><button>Approve</button></form>
<form method="post"><input type="hidden" name="approved" value="false"><button>Deny</button></form>`,
  );
}

export function answeredPage(status: string): string {
  return page(`This request is ${status}`, '<p>Nothing more can be decided here.</p>');
}

function page(title: string, body: string): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escaped(title)}</title><style>${style}</style></head>
<body><h1>${escaped(title)}</h1>
${body}
</body></html>
`;
}

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (char) => `&#${char.codePointAt(0)};`);
}
