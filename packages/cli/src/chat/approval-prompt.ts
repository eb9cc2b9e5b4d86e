/** Prompts the user for the decision on one approval. */
import { describeFlags } from '@relay/protocol/display';
import type { Paint } from '../output/paint.ts';
import { escapeLine, escapeUnsafe, safeJson } from '../output/escape.ts';
import { whyEachTime } from '../output/rule-text.ts';
import type { ApprovalRequest, Decision } from './client.ts';
import type { OpenEditor } from './editor.ts';
import { Interrupted, type Terminal } from './terminal.ts';

export interface ApprovalPromptOptions {
  readonly terminal: Terminal;
  readonly paint: Paint;
  readonly writeLine: (line: string) => void;
  /** Without it, arguments are edited on one line. */
  readonly openEditor?: OpenEditor | undefined;
}

/** The whole request: what a decision is about. */
export function showRequest(
  request: ApprovalRequest,
  { paint, writeLine }: Pick<ApprovalPromptOptions, 'paint' | 'writeLine'>,
): void {
  const { kind, tool, text, flags, agents, prompt, schema } = request;
  const { idempotencyKey, changedFrom, votes } = request;
  const path = agents.length > 1 ? ` (${agents.map(escapeUnsafe).join(' › ')})` : '';
  const name = escapeUnsafe(tool);
  const titles = {
    question: `? ${name} asks${path}: ${escapeUnsafe(prompt ?? '')}`,
    outcome: `? Did ${name} take effect${path}?`,
    permission: `? ${name} needs approval${path}:`,
  };
  writeLine(paint('yellow', titles[kind]));
  const lines = kind === 'question' ? answerFields(schema).map(fieldText) : text.split('\n');
  for (const line of lines) writeLine(`    ${line}`);
  if (idempotencyKey !== undefined) writeLine(`    idempotency key: ${escapeLine(idempotencyKey)}`);
  if (changedFrom !== undefined) {
    writeLine('  Another approver changed the arguments. The agent asked for:');
    for (const line of safeJson(changedFrom, 2).split('\n')) writeLine(`    ${line}`);
  }
  if (votes !== undefined) writeLine(`  approvals so far: ${votes}`);
  // After the text: the beginning of a long one has left the screen.
  for (const warning of describeFlags(flags)) {
    writeLine(paint('red', `  ! Warning: the request ${escapeUnsafe(warning)}`));
  }
}

/** What is executed, or answered, instead of what was requested. */
export function showInput(
  { kind }: Pick<ApprovalRequest, 'kind'>,
  input: unknown,
  writeLine: (line: string) => void,
): void {
  writeLine(kind === 'question' ? '  Your answer:' : '  It runs with these arguments instead:');
  for (const line of safeJson(input, 2).split('\n')) writeLine(`    ${line}`);
}

type Input = NonNullable<Decision['input']>;

export class ApprovalPrompt {
  readonly #options: ApprovalPromptOptions;
  #asked: ApprovalRequest | undefined;

  constructor(options: ApprovalPromptOptions) {
    this.#options = options;
  }

  /**
   * `undefined`: the input has ended without a decision. Editing starts from the arguments of the `rejected`
   * decision, if the server has rejected one about the same arguments.
   */
  async ask(
    request: ApprovalRequest,
    signal: AbortSignal,
    rejected?: Decision,
  ): Promise<Decision | undefined> {
    const { id, digest } = request;
    const isChanged = this.#asked?.id === id && this.#asked.digest !== digest;
    this.#asked = request;
    // What is typed now may still be meant for the arguments that were shown before.
    if (isChanged) this.#options.terminal.ignoreNextInput();
    this.#show(request);
    if (request.kind === 'question') return this.#question(request, signal);
    if (request.kind === 'outcome') return this.#outcome(signal);
    return this.#permission(request, signal, isChanged ? undefined : rejected?.input);
  }

  #show(request: ApprovalRequest): void {
    const { writeLine } = this.#options;
    showRequest(request, this.#options);
    if (request.kind === 'outcome') {
      writeLine('  completed: it took effect; failed: it did not. Neither runs it again.');
      writeLine('  rerun: run it again; if it did take effect, it takes effect twice.');
    } else if (request.kind === 'permission' && request.rule !== undefined) {
      writeLine(`  ${whyEachTime(request.rule)}.`);
    }
  }

  async #permission(
    request: ApprovalRequest,
    signal: AbortSignal,
    draft: unknown = request.params,
  ): Promise<Decision | undefined> {
    const { canEdit, rule } = request;
    // While such a rule stands, "always" would have no effect.
    const canAllowAlways = rule === undefined;
    const more = `${canAllowAlways ? '  [a]lways' : ''}${canEdit ? '  [e]dit' : ''}`;
    const prompt = `  [y]es  [n]o${more} > `;
    for (;;) {
      const choice = await this.#choose(prompt, signal);
      if (choice === undefined) return undefined;
      if (/^(y|yes|o|once)$/.test(choice)) return { approved: true };
      if (canAllowAlways && /^(a|always)$/.test(choice)) return { approved: true, always: true };
      const isEdit = canEdit && /^(e|edit)$/.test(choice);
      if (/^(n|no|d|deny)$/.test(choice)) {
        const denial = await backOnInterrupt(this.#denial(signal));
        if (denial !== undefined) return denial;
      } else if (isEdit) {
        const input = await backOnInterrupt(this.#edited(draft, signal));
        if (input !== undefined) return { approved: true, input };
      } else this.#rejectChoice(choice, prompt);
    }
  }

  async #outcome(signal: AbortSignal): Promise<Decision | undefined> {
    const { writeLine } = this.#options;
    const prompt = '  [c]ompleted  [f]ailed  [r]erun > ';
    for (;;) {
      const choice = await this.#choose(prompt, signal);
      if (choice === undefined) return undefined;
      if (choice === 'r' || choice === 'rerun') return { outcome: 'rerun' };
      if (choice === 'f' || choice === 'failed') {
        const reason = await backOnInterrupt(this.#reason(signal));
        if (reason !== undefined) return { outcome: 'failed', ...reason };
      } else if (choice === 'c' || choice === 'completed') {
        const line = await backOnInterrupt(this.#line('  Its result, as JSON or text > ', signal));
        if (line === undefined) continue;
        if (line.trim() !== '') return { outcome: 'completed', output: jsonOrText(line) as Input };
        writeLine('  Nothing is recorded yet: for a call without a result, type null.');
      } else this.#rejectChoice(choice, prompt);
    }
  }

  async #question(
    { schema, canEdit }: ApprovalRequest,
    signal: AbortSignal,
  ): Promise<Decision | undefined> {
    if (!canEdit) {
      this.#options.writeLine('  Questions can be answered only with a key (RELAY_API_KEY).');
      return { approved: false, reason: 'No user is available to answer' };
    }
    const prompt = '  [a]nswer  [d]ecline > ';
    for (;;) {
      const choice = await this.#choose(prompt, signal);
      if (choice === undefined) return undefined;
      if (/^(d|decline|n|no)$/.test(choice)) {
        const denial = await backOnInterrupt(this.#denial(signal));
        if (denial !== undefined) return denial;
      } else if (/^(a|answer)$/.test(choice)) {
        const input = await backOnInterrupt(this.#answer(schema, signal));
        if (input !== undefined) return { approved: true, input: input as Input };
      } else this.#rejectChoice(choice, prompt);
    }
  }

  async #denial(signal: AbortSignal): Promise<Decision> {
    return { approved: false, ...(await this.#reason(signal)) };
  }

  async #reason(signal: AbortSignal): Promise<Pick<Decision, 'reason'>> {
    const line = await this.#line('  Reason for the agent (optional) > ', signal);
    const reason = line?.trim() ?? '';
    return reason === '' ? {} : { reason };
  }

  /** `undefined`: back to the choice. */
  async #edited(params: unknown, signal: AbortSignal): Promise<Input | undefined> {
    const { openEditor } = this.#options;
    if (openEditor === undefined) return this.#editedLine(params, signal);
    const texts = longTexts(params);
    const field = texts.length === 0 ? undefined : await this.#chosenText(texts, signal);
    if (field === null) return undefined;
    if (field === undefined) return this.#editedJson(params, openEditor, signal);
    const before = field.text;
    const text = await openEditor(before, 'text.txt');
    // Editors end a file with a line break.
    const after = before.endsWith('\n') ? text : text?.replace(/\n$/, '');
    if (after === undefined || after === before) return this.#unchanged(after);
    return { ...(params as Record<string, Input>), [field.name]: after };
  }

  /** One of several long texts; `undefined`: all arguments; `null`: back. */
  async #chosenText(
    texts: readonly LongText[],
    signal: AbortSignal,
  ): Promise<LongText | undefined | null> {
    const names = texts.map(({ name, lines }, at) => {
      return `[${at + 1}] ${escapeLine(name)} (${lines} lines)`;
    });
    const last = texts.length + 1;
    const prompt = `  Edit ${names.join('  ')}  [${last}] all as JSON > `;
    for (;;) {
      const choice = await this.#choose(prompt, signal);
      if (choice === undefined) return null;
      if (choice === String(last)) return undefined;
      const text = texts[Number(choice) - 1];
      if (text !== undefined) return text;
      this.#rejectChoice(choice, prompt);
    }
  }

  async #editedJson(
    params: unknown,
    openEditor: OpenEditor,
    signal: AbortSignal,
  ): Promise<Input | undefined> {
    const before = `${safeJson(params, 2)}\n`;
    let text = before;
    for (;;) {
      const edited = await openEditor(text, 'arguments.json');
      if (edited === undefined || edited === before) return this.#unchanged(edited);
      try {
        return JSON.parse(edited) as Input;
      } catch (error) {
        this.#options.writeLine(`  Invalid JSON: ${escapeLine((error as Error).message)}`);
        text = edited;
      }
      const line = await this.#line('  Enter: edit again; Ctrl-C: back > ', signal);
      if (line === undefined) return undefined;
    }
  }

  #unchanged(edited: string | undefined): undefined {
    const failure = 'The editor failed, and nothing was changed.';
    const same = 'Nothing was changed: the arguments are those that the editor began with.';
    this.#options.writeLine(`  ${edited === undefined ? failure : same}`);
  }

  async #editedLine(params: unknown, signal: AbortSignal): Promise<Input | undefined> {
    let text = safeJson(params);
    for (;;) {
      const line = await this.#line('  Arguments > ', signal, text);
      if (line === undefined || line.trim() === '') return undefined;
      try {
        return JSON.parse(line) as Input;
      } catch (error) {
        this.#options.writeLine(`  Invalid JSON: ${escapeLine((error as Error).message)}`);
        text = line;
      }
    }
  }

  /** Asks for an object field by field; any other answer is one line. The server validates it. */
  async #answer(schema: Schema | undefined, signal: AbortSignal): Promise<unknown> {
    const fields = answerFields(schema);
    const answer: Record<string, unknown> = {};
    for (const field of fields) {
      const line = await this.#line(`  ${fieldText(field)} > `, signal);
      if (line === undefined) return undefined;
      if (line.trim() === '' && !field.isRequired) continue;
      answer[field.name] = readField(line, field.schema);
    }
    return isObject(schema) ? answer : answer[wholeAnswer];
  }

  /** There is no default choice: an empty line shows the request again, which may have left the screen. */
  async #choose(prompt: string, signal: AbortSignal): Promise<string | undefined> {
    const line = await this.#options.terminal.ask({ prompt, signal, fresh: true });
    return line?.trim().toLowerCase();
  }

  #rejectChoice(choice: string, prompt: string): void {
    const { terminal, writeLine } = this.#options;
    if (choice === '') {
      if (terminal.isInteractive && this.#asked) this.#show(this.#asked);
      return;
    }
    const keys = [...prompt.matchAll(/\[(\w)\]/g)].map(([, key]) => key);
    const valid = `type ${keys.slice(0, -1).join(', ')} or ${keys.at(-1)}.`;
    // In a pipe, the line may have been meant as a message, and is not on the screen.
    const line = terminal.isInteractive ? '' : ` "${escapeLine(choice)}", which is not sent`;
    writeLine(`  Invalid choice${line}: ${valid}`);
  }

  #line(prompt: string, signal: AbortSignal, prefill = ''): Promise<string | undefined> {
    const { terminal } = this.#options;
    return terminal.ask({ prompt, signal, prefill, fresh: true, cancelable: true });
  }
}

/** Ctrl-C at a prompt that follows a choice: back to the choice. */
async function backOnInterrupt<Value>(answer: Promise<Value>): Promise<Value | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof Interrupted) return undefined;
    throw error;
  }
}

interface LongText {
  readonly name: string;
  readonly text: string;
  readonly lines: number;
}

/** The arguments that are texts of several lines, which JSON shows on one. */
function longTexts(params: unknown): LongText[] {
  if (typeof params !== 'object' || params === null || Array.isArray(params)) return [];
  return Object.entries(params).flatMap(([name, text]) => {
    if (typeof text !== 'string' || !text.includes('\n')) return [];
    return { name, text, lines: text.replace(/\n$/, '').split('\n').length };
  });
}

type Schema = Readonly<Record<string, unknown>>;

/** A part of an answer, which is asked for on a line of its own. */
interface AnswerField {
  readonly name: string;
  readonly schema: Schema;
  readonly isRequired: boolean;
}

/** The name of an answer that has no fields. */
const wholeAnswer = 'Answer';

function isObject(schema: Schema = {}): boolean {
  return schema['type'] === 'object' && Object(schema['properties']) === schema['properties'];
}

function answerFields(schema: Schema = {}): AnswerField[] {
  if (!isObject(schema)) return [{ name: wholeAnswer, schema, isRequired: true }];
  const required = (schema['required'] ?? []) as readonly string[];
  return Object.entries(schema['properties'] as Record<string, Schema>).map(([name, field]) => {
    return { name, schema: field, isRequired: required.includes(name) };
  });
}

function fieldText({ name, schema, isRequired }: AnswerField): string {
  const { description } = schema;
  const choices = choicesOf(schema);
  return escapeLine(
    [
      typeof description === 'string' ? `${name}, ${description}` : name,
      ...(choices.length === 0 ? [] : [` (${choices.join(' | ')})`]),
      ...(isRequired ? [] : [', optional']),
    ].join(''),
  );
}

/** The values of an `enum`, or of the constants of a `oneOf` with their titles. */
function choicesOf(schema: Schema): string[] {
  if (schema['type'] === 'boolean') return ['yes', 'no'];
  if (Array.isArray(schema['enum'])) return schema['enum'].map(String);
  const options = (Array.isArray(schema['oneOf']) ? schema['oneOf'] : []) as readonly Schema[];
  return options.flatMap((option) => {
    if (!('const' in option)) return [];
    const value = String(option['const']);
    return typeof option['title'] === 'string' ? `${value}: ${option['title']}` : value;
  });
}

function readField(line: string, schema: Schema | undefined): unknown {
  if (schema?.['type'] === 'string') return line;
  if (schema?.['type'] === 'boolean' && /^(y|yes)$/i.test(line.trim())) return true;
  if (schema?.['type'] === 'boolean' && /^(n|no)$/i.test(line.trim())) return false;
  return jsonOrText(line);
}

function jsonOrText(line: string): unknown {
  try {
    return JSON.parse(line) as unknown;
  } catch {
    return line;
  }
}
