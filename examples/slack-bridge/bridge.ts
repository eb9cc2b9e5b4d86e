/**
 * Approvals in Slack and by e-mail: receives the webhooks of Relay, posts each request with its decision
 * link, and updates the message when it is decided. See docs/guides/approvals-in-slack.md.
 *
 *   npx node examples/slack-bridge/bridge.ts
 */
import { spawn } from 'node:child_process';
import { createHmac, timingSafeEqual } from 'node:crypto';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import { text } from 'node:stream/consumers';
import { createClient, type RelayClient } from '@relay/sdk';

export interface BridgeOptions {
  readonly relay: RelayClient;
  /** Of the webhook: `whsec_…`. */
  readonly secret: string;
  readonly slack?: { readonly token: string; readonly channel: string; readonly api?: string };
  /** Recipients, and the command that reads a message: `sendmail -t` or one like it. */
  readonly mail?: { readonly to: string; readonly command: readonly [string, ...string[]] };
  /** Which message belongs to which approval, so that a restart does not lose it. */
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

export function createBridge(options: BridgeOptions): Server {
  const bridge = new Bridge(options);
  return createServer((request, response) => {
    const reply = (status: number) => void response.writeHead(status).end();
    void text(request)
      .then(async (body) => {
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
  readonly #posted: Record<string, Posted>;

  constructor(options: BridgeOptions) {
    this.#options = options;
    const { stateFile } = options;
    this.#posted = existsSync(stateFile)
      ? (JSON.parse(readFileSync(stateFile, 'utf8')) as Record<string, Posted>)
      : {};
  }

  async receive({ type, approval, decisionUrl }: Notification): Promise<void> {
    if (type === 'approval.requested') await this.#announce(approval.id, decisionUrl);
    if (type === 'approval.decided' || type === 'approval.expired') await this.#close(approval.id);
  }

  async #announce(id: string, decisionUrl: string | undefined): Promise<void> {
    // Webhooks come at least once, and in any order.
    if (this.#posted[id] !== undefined) return;
    const approval = await this.#options.relay.approvals.get(id);
    if (approval.status !== 'pending') return;
    const title = `${approval.tool} needs approval`;
    const link = decisionUrl ?? 'Decide it in the console of Relay.';
    await this.#mail(title, `${approval.display.text}\n\n${link}\n`);
    const posted = await this.#slack('chat.postMessage', {
      text: escaped(title),
      blocks: [plain(title), plain(approval.display.text), linked(decisionUrl)],
    });
    this.#posted[id] = posted ?? { channel: '', ts: '' };
    this.#save();
  }

  async #close(id: string): Promise<void> {
    const posted = this.#posted[id];
    if (posted === undefined) return;
    const { status, tool, display, decidedBy } = await this.#options.relay.approvals.get(id);
    const title = `${tool}: ${status}${decidedBy === undefined ? '' : ` by ${decidedBy.name}`}`;
    if (posted.ts !== '') {
      const blocks = [plain(title), plain(display.text)];
      await this.#slack('chat.update', { ...posted, text: escaped(title), blocks });
    }
    delete this.#posted[id];
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

  #save(): void {
    const { stateFile } = this.#options;
    writeFileSync(`${stateFile}.new`, JSON.stringify(this.#posted), { mode: 0o600 });
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
  const { SLACK_TOKEN: token, MAIL_TO: to, PORT: port = '4500' } = process.env;
  const bridge = createBridge({
    relay: createClient({ baseUrl: setting('RELAY_URL'), apiKey: setting('RELAY_API_KEY') }),
    secret: setting('RELAY_WEBHOOK_SECRET'),
    stateFile: process.env['BRIDGE_STATE'] ?? 'bridge-state.json',
    ...(token === undefined ? {} : { slack: { token, channel: setting('SLACK_CHANNEL') } }),
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
