/** Asks the person at the terminal about one request, until there is an answer. */
import type { Paint } from '../paint.ts';
import { visible } from '../visible.ts';
import { answerTo } from './form.ts';
import type { Decision, Request } from './request.ts';
import type { Terminal } from './terminal.ts';

export interface AskerOptions {
  readonly terminal: Terminal;
  readonly paint: Paint;
  readonly say: (line: string) => void;
}

export class Asker {
  readonly #options: AskerOptions;

  constructor(options: AskerOptions) {
    this.#options = options;
  }

  /** `undefined`: there is nobody to answer. */
  async ask(request: Request, signal: AbortSignal): Promise<Decision | undefined> {
    this.#present(request);
    if (request.kind === 'question') return this.#question(request, signal);
    if (request.kind === 'outcome') return this.#outcome(signal);
    return this.#permission(request, signal);
  }

  #present({ kind, tool, text, flags, agents, prompt }: Request): void {
    const { paint, say } = this.#options;
    const who = agents.length > 1 ? ` (${agents.map(visible).join(' › ')})` : '';
    if (kind === 'question') {
      say(paint('yellow', `? ${visible(tool)} asks${who}: ${visible(prompt ?? '')}`));
      return;
    }
    const what =
      kind === 'outcome'
        ? `? ${visible(tool)} was started before a crash, and nobody knows what became of it${who}:`
        : `? ${visible(tool)} wants to run${who}:`;
    say(paint('yellow', what));
    for (const line of text.split('\n')) say(`    ${line}`);
    if (flags.length > 0) say(paint('red', `  ! Beware, it holds: ${flags.join(', ')}`));
  }

  async #permission(request: Request, signal: AbortSignal): Promise<Decision | undefined> {
    const edit = request.canEdit ? '[e]dit  ' : '';
    const prompt = `  [o]nce  [a]lways  ${edit}[d]eny > `;
    for (;;) {
      const choice = await this.#choose(prompt, signal);
      if (choice === undefined) return undefined;
      if (choice === 'o' || choice === 'once') return { approved: true };
      if (choice === 'a' || choice === 'always') return { approved: true, always: true };
      if (choice === 'd' || choice === 'deny') return this.#denial(signal);
      if (request.canEdit && (choice === 'e' || choice === 'edit')) {
        const input = await this.#edited(request.params, signal);
        if (input !== undefined) return { approved: true, input };
      } else if (choice !== '') this.#options.say(`  ${keysOf(prompt)}`);
    }
  }

  async #outcome(signal: AbortSignal): Promise<Decision | undefined> {
    const prompt = '  [r]un it again  [i]t happened  [f]ail it > ';
    for (;;) {
      const choice = await this.#choose(prompt, signal);
      if (choice === undefined) return undefined;
      if (choice === 'r') return { approved: true };
      if (choice === 'f') return this.#denial(signal);
      if (choice === 'i') {
        const line = await this.#line('  Its result, as JSON or text > ', signal);
        if (line !== undefined) return { approved: true, output: jsonOrText(line) };
      } else if (choice !== '') this.#options.say(`  ${keysOf(prompt)}`);
    }
  }

  async #question(
    { schema, canEdit }: Request,
    signal: AbortSignal,
  ): Promise<Decision | undefined> {
    if (!canEdit) {
      this.#options.say('  It can be answered only with a key (RELAY_API_KEY).');
      return { approved: false, reason: 'Nobody could answer' };
    }
    for (;;) {
      const prompt = '  [a]nswer  [d]ecline > ';
      const choice = await this.#choose(prompt, signal);
      if (choice === undefined) return undefined;
      if (choice === 'd') return this.#denial(signal);
      if (choice !== 'a') {
        if (choice !== '') this.#options.say(`  ${keysOf(prompt)}`);
        continue;
      }
      const input = await answerTo(schema, (prompt) => this.#line(`  ${prompt} > `, signal));
      if (input !== undefined) return { approved: true, input: input as Input };
    }
  }

  async #denial(signal: AbortSignal): Promise<Decision> {
    const reason = (await this.#line('  Why not? (the agent reads it) > ', signal))?.trim() ?? '';
    return { approved: false, ...(reason === '' ? {} : { reason }) };
  }

  async #edited(params: unknown, signal: AbortSignal): Promise<Input | undefined> {
    let text = JSON.stringify(params);
    for (;;) {
      const line = await this.#line('  Arguments > ', signal, text);
      if (line === undefined || line.trim() === '') return undefined;
      try {
        return JSON.parse(line) as Input;
      } catch (error) {
        this.#options.say(`  That is not JSON: ${(error as Error).message}`);
        text = line;
      }
    }
  }

  /** There is no answer by default: whoever only presses Enter is asked again. */
  async #choose(prompt: string, signal: AbortSignal): Promise<string | undefined> {
    const line = await this.#line(prompt, signal);
    return line?.trim().toLowerCase();
  }

  #line(prompt: string, signal: AbortSignal, prefill = ''): Promise<string | undefined> {
    return this.#options.terminal.ask({ prompt, signal, prefill, fresh: true });
  }
}

type Input = NonNullable<Decision['input']>;

/** Whoever says something else, such as `yes`, is told what is an answer here. */
function keysOf(prompt: string): string {
  const keys = [...prompt.matchAll(/\[(\w)\]/g)].map(([, key]) => key);
  return `That is no answer here: type ${keys.slice(0, -1).join(', ')} or ${keys.at(-1)}.`;
}

function jsonOrText(line: string): NonNullable<Decision['output']> {
  try {
    return JSON.parse(line) as NonNullable<Decision['output']>;
  } catch {
    return line;
  }
}
