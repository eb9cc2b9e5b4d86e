/** The page behind a decision link: the call and a button per answer. No scripts, no frames. */
import { createHash } from 'node:crypto';
import type { ApprovalRecord } from '@relay/core';
import {
  describeFlags,
  displayParts,
  escapeMisleading,
  type OutcomeAnswer,
  outcomeWarning,
  type RelayError,
} from '@relay/protocol';
import { escapeHtml } from './docs-page.ts';

const style = `:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 1rem;overflow-wrap:anywhere}
pre{white-space:pre-wrap;border:1px solid;padding:1rem}
ins,del{text-decoration:none}ins{color:light-dark(#116329,#7ee787)}del{color:light-dark(#a40e26,#ffa198)}
form{display:flex;flex-wrap:wrap;gap:.75rem;margin:0 0 1.5rem}
button,input{font:inherit;padding:.75rem 1rem;border:1px solid;border-radius:.4rem}
button{min-width:8rem}input{flex:1 1 14rem;min-width:0;background:none;color:inherit}input::placeholder{color:inherit;opacity:.75}
.yes{background:#1f7a4d;border-color:#1f7a4d;color:#fff}.no{background:#a83232;border-color:#a83232;color:#fff}
.warning{border-left:.3rem solid;padding-left:1rem;font-weight:bold}ul.warning{padding-left:2rem}`;

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
  'cache-control': 'no-store',
  'x-robots-tag': 'noindex',
};

/** Of a reason, or of the result of a call. */
export const maxTextChars = 500;

/** Deciding is a POST: opening the link, as mail scanners and previews do, decides nothing. */
export function pendingPage(
  approval: ApprovalRecord,
  /** Who may decide, if the policy demands more than a link. */
  approvers: readonly string[],
): string {
  const { links, notes, call, diff, remarks, flags } = displayParts(approval);
  const items = [...describeFlags(flags).map((warning) => `The request ${warning}`), ...notes]
    .map((item) => `<li>${escapeHtml(item)}</li>`)
    .join('');
  const warning = flags.length === 0 ? '' : `<ul class="warning">${items}</ul>\n`;
  const paths = links.map((link) => `<p class="warning">${escapeHtml(link)}</p>\n`).join('');
  const change = diff === undefined ? '' : `<p>It changes:</p>\n<pre>${diffHtml(diff)}</pre>\n`;
  const text = [call, ...remarks].join('\n');
  const asksOutcome = approval.kind === 'outcome';
  const safe = (name: string) => `<b>${escapeHtml(escapeMisleading(name))}</b>`;
  const { agentPath } = approval;
  const agent = agentPath.length === 0 ? 'A caller' : `The agent ${safe(agentPath.join(' › '))}`;
  const tool = safe(approval.tool);
  return page(
    asksOutcome ? 'Did this tool call take effect?' : 'Approve this tool call?',
    `<p>${agent} ${asksOutcome ? 'used' : 'wants to use'} ${tool}:</p>
${paths}${warning}${change}<pre>${escapeHtml(text)}</pre>
${asksOutcome ? `<p class="warning">${outcomeWarning}. Check whether it did, then choose one answer.</p>\n` : ''}<p>${escapeHtml(subjectOf(approval))}. The request expires on ${escapeHtml(minuteInUtc(approval.expiresAt))}.</p>
${formsFor(approval, approvers)}`,
  );
}

function subjectOf({ runId, invocationId, sessionId }: ApprovalRecord): string {
  if (runId !== undefined) return `Run ${runId}`;
  return invocationId === undefined ? `Session ${sessionId ?? ''}` : `Invocation ${invocationId}`;
}

function diffHtml(diff: string): string {
  const lines = diff.split('\n').map((line) => {
    const html = escapeHtml(line);
    if (line.startsWith('+')) return `<ins>${html}</ins>`;
    return line.startsWith('-') ? `<del>${html}</del>` : html;
  });
  return lines.join('\n');
}

function formsFor({ kind, votes }: ApprovalRecord, approvers: readonly string[]): string {
  if (approvers.length === 0) return kind === 'outcome' ? outcomeForms : permissionForms;
  const { votes: given = [], quorum = 0 } = votes ?? {};
  const progress = given.length === 0 ? '' : `<p>${given.length} of ${quorum} approvals.</p>\n`;
  return `${progress}<p class="warning">This link cannot decide: the policy demands ${escapeHtml(approvers.join(', and '))}. They decide with their own key, for example with <code>relay approvals</code>.</p>`;
}

const permissionForms = `<form method="post"><input type="hidden" name="approved" value="true"><button class="yes">Approve</button></form>
<form method="post"><input type="hidden" name="approved" value="false"><button class="no">Deny</button>
${textInput('reason', 'Reason for denying (shown to the agent)')}</form>`;

/** None of the answers is a plain "approve": running the call again must be a choice of its own. */
const outcomeForms = `<p>It took effect. It does not run again, and the agent receives its result:</p>
<form method="post"><input type="hidden" name="outcome" value="completed"><button class="yes">It completed</button>
${textInput('output', 'Its result, as JSON or text (optional)')}</form>
<p>It did not take effect. It does not run again, and the agent receives an error:</p>
<form method="post"><input type="hidden" name="outcome" value="failed"><button class="no">It failed</button>
${textInput('reason', 'Reason (shown to the agent)')}</form>
<p>Run it again, with the same arguments. If it did take effect, it then takes effect twice:</p>
<form method="post"><input type="hidden" name="outcome" value="rerun"><button class="no">Run it again</button></form>`;

function textInput(name: string, label: string): string {
  return `<input name="${name}" maxlength="${maxTextChars}" autocomplete="off" aria-label="${label}" placeholder="${label}">`;
}

const outcomeTitles: Readonly<Record<OutcomeAnswer, string>> = {
  rerun: 'The call runs again',
  completed: 'The call is recorded as completed',
  failed: 'The call is recorded as failed',
};

export function decidedPage(status: string, outcome?: OutcomeAnswer): string {
  const title = outcome === undefined ? `This request is ${status}` : outcomeTitles[outcome];
  return page(title, '<p>It cannot be decided again.</p>');
}

export function failedPage({ code, message }: RelayError): string {
  return code === 'not_found'
    ? page('Link not found', '<p>The link is incomplete or no longer valid.</p>')
    : page('The decision was not recorded', `<p>${escapeHtml(message)}</p>`);
}

function minuteInUtc(at: number): string {
  return `${new Date(at).toISOString().slice(0, 16).replace('T', ' at ')} UTC`;
}

function page(title: string, body: string): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>${escapeHtml(title)}</title><style>${style}</style></head>
<body><h1>${escapeHtml(title)}</h1>
${body}
</body></html>
`;
}
