/**
 * Approvals in Slack and by e-mail: receives the webhooks of Relay, posts each request with its decision
 * link, and updates the message when it is decided. See docs/guides/approvals-in-slack.md.
 *
 *   npx node examples/slack-bridge/bridge.ts
 */
import { spawn } from 'node:child_process';
import { createHmac, timingSafeEqual } from 'node:crypto';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
} from 'node:http';
import { createClient, type RelayClient } from 'relay-kit/sdk';

export interface BridgeOptions {
  readonly relay: RelayClient;
  /** Of the webhook: `whsec_…`. */
  readonly secret: string;
  readonly slack?: { readonly token: string; readonly channel: string; readonly api?: string };
  /** Recipients, and the command that reads a message: `sendmail -t` or one like it. */
  readonly mail?: { readonly to: string; readonly command: readonly [string, ...string[]] };
  /** What was sent for which approval, so that a restart does not lose it. */
  readonly stateFile: string;
}

interface Notification {
  readonly type: string;
  readonly approval: { readonly id: string; readonly tool: string };
  readonly decisionUrl?: string;
}

interface Posted {
  readonly channel: string;
  readonly ts: string;
}

/** What was sent for an approval. A retry sends the rest. */
interface Sent {
  readonly mailed?: boolean;
  readonly posted?: Posted;
}

const maxBodyBytes = 1024 * 1024;

export function createBridge(options: BridgeOptions): Server {
  const bridge = new Bridge(options);
  return createServer((request, response) => {
    const reply = (status: number) => void response.writeHead(status).end();
    void bodyOf(request)
      .then(async (body) => {
        if (body === undefined) return reply(413);
        if (!isFromRelay(options.secret, request.headers, body)) return reply(401);
        await bridge.receive(JSON.parse(body) as Notification);
        return reply(204);
      })
      .catch((error: unknown) => {
        // Relay sends it again.
        console.error(error);
        reply(500);
      });
  });
}

/** Undefined if it is too large. The sender is not known yet. */
async function bodyOf(request: IncomingMessage): Promise<string | undefined> {
  if (Number(request.headers['content-length'] ?? 0) > maxBodyBytes) return undefined;
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBodyBytes) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Standard Webhooks: the HMAC of id, timestamp and the exact body, at most five minutes old. */
function isFromRelay(secret: string, headers: IncomingHttpHeaders, body: string): boolean {
  const id = String(headers['webhook-id']);
  const timestamp = String(headers['webhook-timestamp']);
  if (!(Math.abs(Date.now() / 1000 - Number(timestamp)) <= 300)) return false;
  const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
  const wanted = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest();
  return String(headers['webhook-signature'])
    .split(' ')
    .some((signature) => {
      const given = Buffer.from(signature.replace('v1,', ''), 'base64');
      return given.length === wanted.length && timingSafeEqual(given, wanted);
    });
}

class Bridge {
  readonly #options: BridgeOptions;
  readonly #sent: Record<string, Sent>;
  /** The last notification of each approval that is being handled. */
  readonly #last = new Map<string, Promise<void>>();

  constructor(options: BridgeOptions) {
    this.#options = options;
    const { stateFile } = options;
    this.#sent = existsSync(stateFile)
      ? (JSON.parse(readFileSync(stateFile, 'utf8')) as Record<string, Sent>)
      : {};
  }

  /** One at a time for each approval: Relay can send the same again, or the next, before this is done. */
  async receive(notification: Notification): Promise<void> {
    const { id } = notification.approval;
    const before = this.#last.get(id) ?? Promise.resolve();
    const handled = before.catch(() => {}).then(() => this.#handle(notification));
    this.#last.set(id, handled);
    try {
      await handled;
    } finally {
      if (this.#last.get(id) === handled) this.#last.delete(id);
    }
  }

  async #handle({ type, approval, decisionUrl }: Notification): Promise<void> {
    if (type === 'approval.requested') await this.#announce(approval.id, decisionUrl);
    if (type === 'approval.decided' || type === 'approval.expired') await this.#close(approval.id);
  }

  async #announce(id: string, decisionUrl: string | undefined): Promise<void> {
    const { mailed, posted } = this.#sent[id] ?? {};
    const { mail, slack, relay } = this.#options;
    const isMailed = mail === undefined || mailed === true;
    const isPosted = slack === undefined || posted !== undefined;
    // Webhooks come at least once, and in any order.
    if (isMailed && isPosted) return;
    const approval = await relay.approvals.get(id);
    if (approval.status !== 'pending') return;
    const title = `${approval.tool} needs approval`;
    const link = decisionUrl ?? 'Decide it in the console of Relay.';
    if (!isMailed) {
      await this.#mail(title, `${approval.display.text}\n\n${link}\n`);
      this.#remember(id, { mailed: true });
    }
    if (!isPosted) {
      const blocks = [plain(title), plain(approval.display.text), linked(decisionUrl)];
      const message = await this.#slack('chat.postMessage', { text: escaped(title), blocks });
      if (message !== undefined) this.#remember(id, { posted: message });
    }
  }

  async #close(id: string): Promise<void> {
    const sent = this.#sent[id];
    if (sent === undefined) return;
    const { status, tool, display, decidedBy } = await this.#options.relay.approvals.get(id);
    const title = `${tool}: ${status}${decidedBy === undefined ? '' : ` by ${decidedBy.name}`}`;
    if (sent.posted !== undefined) {
      const blocks = [plain(title), plain(display.text)];
      await this.#slack('chat.update', { ...sent.posted, text: escaped(title), blocks });
    }
    delete this.#sent[id];
    this.#save();
  }

  /** Slack answers 200 with `ok: false` if it refuses. */
  async #slack(method: string, message: object): Promise<Posted | undefined> {
    const { slack } = this.#options;
    if (slack === undefined) return undefined;
    const response = await fetch(`${slack.api ?? 'https://slack.com/api'}/${method}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${slack.token}`,
        'content-type': 'application/json; charset=utf-8',
      },
      body: JSON.stringify({ channel: slack.channel, ...message }),
      signal: AbortSignal.timeout(8_000),
    });
    const { ok, error, channel, ts } = (await response.json()) as Posted & {
      ok: boolean;
      error?: string;
    };
    if (!ok) throw new Error(`Slack refused ${method}: ${error}`);
    return { channel, ts };
  }

  async #mail(subject: string, body: string): Promise<void> {
    const { mail } = this.#options;
    if (mail === undefined) return;
    const [command, ...args] = mail.command;
    const sending = spawn(command, args, { stdio: ['pipe', 'inherit', 'inherit'] });
    // A command that does not read its input: its exit code says whether it has failed.
    sending.stdin.on('error', () => {});
    // No line break in a header: it would begin another one.
    const header = subject.replaceAll(/[^\x20-\x7e]/g, ' ');
    sending.stdin.end(
      `To: ${mail.to}\nSubject: ${header}\nContent-Type: text/plain; charset=utf-8\n\n${body}`,
    );
    const code = await new Promise((resolve, reject) => {
      sending.once('error', reject).once('close', resolve);
    });
    if (code !== 0) throw new Error(`${command} ended with code ${String(code)}`);
  }

  #remember(id: string, sent: Sent): void {
    this.#sent[id] = { ...this.#sent[id], ...sent };
    this.#save();
  }

  #save(): void {
    const { stateFile } = this.#options;
    writeFileSync(`${stateFile}.new`, JSON.stringify(this.#sent), { mode: 0o600 });
    renameSync(`${stateFile}.new`, stateFile);
  }
}

/** Not `mrkdwn`: what a model wrote must not become a link or a mention. At most 3,000 characters. */
function plain(content: string): object {
  const cut = content.length > 2_900 ? `${content.slice(0, 2_900)}… (cut: open the link)` : content;
  return { type: 'section', text: { type: 'plain_text', text: cut, emoji: false } };
}

function linked(url: string | undefined): object {
  const words =
    url === undefined ? 'Decide it in the console of Relay.' : `<${url}|See and decide>`;
  return { type: 'section', text: { type: 'mrkdwn', text: words } };
}

/** The three characters that Slack's own markup is made of. */
function escaped(words: string): string {
  return words.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

function setting(name: string): string {
  const value = process.env[name];
  if (value === undefined || value === '') throw new Error(`Set ${name}`);
  return value;
}

if (import.meta.main) {
  const { SLACK_TOKEN: token, SLACK_API: api, MAIL_TO: to, PORT: port = '4500' } = process.env;
  const bridge = createBridge({
    relay: createClient({ baseUrl: setting('RELAY_URL'), apiKey: setting('RELAY_API_KEY') }),
    secret: setting('RELAY_WEBHOOK_SECRET'),
    stateFile: process.env['BRIDGE_STATE'] ?? 'bridge-state.json',
    ...(token === undefined
      ? {}
      : {
          slack: {
            token,
            channel: setting('SLACK_CHANNEL'),
            ...(api === undefined ? {} : { api }),
          },
        }),
    ...(to === undefined
      ? {}
      : { mail: { to, command: [process.env['SENDMAIL'] ?? '/usr/sbin/sendmail', '-t'] } }),
  });
  bridge.listen(Number(port), '127.0.0.1', () => {
    const address = bridge.address();
    const chosen = typeof address === 'object' ? address?.port : port;
    console.log(`The bridge receives webhooks on http://127.0.0.1:${chosen}`);
  });
}
