/** The console of a real server, in a real browser. */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { beforeEach } from 'vitest';
import { requires } from '../../support/requires.ts';
import type { TestServer } from '../../support/server.ts';

export const executablePath = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
].find((path) => existsSync(path));

const noBrowser = executablePath === undefined ? 'chromium is not installed' : undefined;

/** Options of a suite that opens pages. */
export const inBrowser = requires('browser', noBrowser);

let browser: Promise<Browser> | undefined;

/** Builds the console if its sources have changed, and starts the browser, once per worker. */
async function launch(): Promise<Browser> {
  const script = fileURLToPath(new URL('../../../packages/console/build.mjs', import.meta.url));
  execFileSync(process.execPath, [script], { stdio: ['ignore', 'ignore', 'inherit'] });
  return chromium.launch({
    executablePath: executablePath ?? '',
    args: ['--no-sandbox', '--disable-gpu'],
  });
}

export interface ContextOptions {
  readonly theme?: 'light' | 'dark';
  readonly width?: number;
  readonly height?: number;
}

/** A person's browser, with cookies of its own. Fails the test if a page reports an error. */
export class TestBrowser {
  readonly #server: TestServer;
  readonly #contexts: BrowserContext[] = [];
  /** What pages reported: exceptions, and violations of the content security policy. */
  readonly problems: string[] = [];

  constructor(server: TestServer) {
    this.#server = server;
  }

  async open(options: ContextOptions = {}): Promise<Page> {
    const { theme = 'light', width = 1_280, height = 800 } = options;
    browser ??= launch();
    const context = await (
      await browser
    ).newContext({
      baseURL: this.#server.url,
      colorScheme: theme,
      viewport: { width, height },
      hasTouch: width < 500,
      reducedMotion: 'reduce',
    });
    // Before the test itself times out: the error then says what was waited for.
    context.setDefaultTimeout(15_000);
    this.#contexts.push(context);
    const page = await context.newPage();
    page.on('pageerror', (error) => this.problems.push(error.message));
    page.on('console', (message) => {
      const text = message.text();
      if (/Content Security Policy|Warning:/.test(text)) this.problems.push(text);
    });
    return page;
  }

  /** Opens a page of the console as the owner of a key. */
  async signIn(path = '/inbox', options: ContextOptions & { apiKey?: string } = {}): Promise<Page> {
    const page = await this.open(options);
    const { apiKey = this.#server.apiKey } = options;
    const response = await page.request.post('/console/login', {
      data: { apiKey },
      headers: { origin: this.#server.url },
    });
    if (!response.ok()) throw new Error(`Sign-in failed: ${await response.text()}`);
    await page.goto(`/console${path}`);
    return page;
  }

  async dispose(): Promise<void> {
    await Promise.all(this.#contexts.map((context) => context.close()));
  }
}

/**
 * Starts the server of a file before its first test, and one without data before a test is tried again: a
 * failed attempt leaves requests, rules and sessions, and perhaps no server.
 */
export function startServer(server: TestServer, setUp: () => unknown = () => undefined): void {
  beforeEach(async ({ task }) => {
    if (server.isRunning && (task.result?.retryCount ?? 0) === 0) return;
    await server.reset();
    await server.start();
    await setUp();
  });
}

/** After all tests of a file. */
export async function closeBrowser(): Promise<void> {
  await (await browser)?.close();
  browser = undefined;
}
