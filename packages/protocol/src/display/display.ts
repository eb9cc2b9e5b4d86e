/**
 * A request as an approver sees it: complete, with the paths that it leads to and the changes that it
 * makes, and without misleading characters. All APIs, pages and clients show this text.
 */
import type { z } from 'zod';
import type {
  ApprovalKind,
  displaySchema,
  EarlierDenial,
  Preview,
} from '../schemas/permissions.ts';
import { type DisplayFlag, escapeMisleading, flagOfCharacter } from './characters.ts';
import { misleadingWords } from './words.ts';

export {
  describeFlags,
  displayFlags,
  escapeMisleading,
  type MisleadingCharacter,
  splitMisleading,
} from './characters.ts';
export { didYouMean, nearestTo } from './nearest.ts';

export interface DisplayedRequest {
  readonly kind?: ApprovalKind;
  readonly tool: string;
  readonly params: unknown;
  readonly question?: unknown;
  readonly preview?: Preview | undefined;
  readonly earlierDenial?: EarlierDenial | undefined;
  /** What the agent itself says about the call. */
  readonly shown?: Readonly<Record<string, unknown>> | undefined;
  /** False: what the call would do is not known. */
  readonly isConcrete?: boolean | undefined;
  /** The arguments as the approver changed them. */
  readonly edited?: { readonly params: unknown; readonly preview?: Preview | undefined } | null;
}

export type Display = z.infer<typeof displaySchema>;

/** The parts of the text, in its order; all are safe to show. */
export interface DisplayParts {
  /** Paths with the files that they lead to. */
  readonly links: readonly string[];
  /** Warnings about words of the call. */
  readonly notes: readonly string[];
  readonly call: string;
  readonly diff: string | undefined;
  /** What happened to the request before or since. */
  readonly remarks: readonly string[];
  readonly flags: readonly DisplayFlag[];
}

export const outcomeWarning =
  'This call was started before a crash or a stop of the server and may have taken effect';

export function displayOf(request: DisplayedRequest): Display {
  const { notes, links, call, diff, remarks, flags } = displayParts(request);
  // An outcome is asked about because the call may have run: an approver must read that first.
  const first = request.kind === 'outcome' ? [`${outcomeWarning}:`] : [];
  const change = diff === undefined ? [] : [diff];
  return { text: [...first, ...links, ...notes, call, ...change, ...remarks].join('\n'), flags };
}

/** Undefined if the tool and its arguments say everything, and nothing in them is misleading. */
export function displayUnlessPlain(request: DisplayedRequest): Display | undefined {
  const display = displayOf(request);
  const { diff, execution } = request.preview ?? {};
  const isPlain = display.flags.length === 0 && diff === undefined && execution === undefined;
  return isPlain ? undefined : display;
}

export function displayParts(request: DisplayedRequest): DisplayParts {
  const { tool, params, question, preview, earlierDenial, edited } = request;
  const flags = new Set<DisplayFlag>();
  const call = `${tool} ${jsonOf(question ?? params, flags)}`;
  const links = linesOf(preview, flags);
  const remarks = [
    ...executionOf(preview),
    ...saidOf(request, flags),
    ...denialOf(earlierDenial),
    ...editOf(edited, flags),
  ];
  // The call comes last: it can be so long that not all of it is checked.
  const words = misleadingWords([...links, ...remarks, preview?.diff ?? '', call].join('\n'));
  for (const { flag } of words) flags.add(flag);
  const safe = (text: string) => escapeMisleading(text, flags);
  return {
    links: links.map(safe),
    notes: words.map(({ note }) => safe(`Warning: ${note}`)),
    call: safe(call),
    diff: preview?.diff === undefined ? undefined : safe(preview.diff),
    remarks: remarks.map(safe),
    // Computed last: the other parts add flags.
    flags: [...flags].toSorted(),
  };
}

/** An escape sequence in a JSON string. */
const escape = /\\(?:\\|u([\da-f]{4})|([bfr])|.)/g;

/** Indented, so that every value is quoted and on its own line. JSON itself escapes some characters. */
function jsonOf(value: unknown, flags: Set<DisplayFlag>): string {
  const json = JSON.stringify(value, null, 2) ?? 'null';
  for (const [, hex, letter] of json.matchAll(escape)) {
    const char = hex === undefined ? '' : String.fromCharCode(Number.parseInt(hex, 16));
    const flag = letter === undefined ? flagOfCharacter(char) : 'control';
    if (flag !== undefined) flags.add(flag);
  }
  return json;
}

function linesOf(preview: Preview | undefined, flags: Set<DisplayFlag>): string[] {
  const { links = [] } = preview ?? {};
  if (links.length > 0) flags.add('resolves-elsewhere');
  return links.map(({ name, path, target }) => `${pathText(path)} → ${pathText(target)} (${name})`);
}

/** A path that could be read as something else is quoted. */
function pathText(path: string): string {
  return /^[\p{L}\p{M}\p{N}._\/@+\-]+$/v.test(path) ? path : JSON.stringify(path);
}

/** Where a command runs that is approved. */
function executionOf({ execution }: Preview = {}): string[] {
  if (execution === undefined) return [];
  const where = execution.sandboxed ? 'in the sandbox' : 'outside the sandbox';
  return [`Runs in ${pathText(execution.folder)}, ${where}`];
}

function saidOf({ shown, isConcrete }: DisplayedRequest, flags: Set<DisplayFlag>): string[] {
  return [
    ...(isConcrete === false ? ['The agent does not say what this call would do exactly'] : []),
    ...(Object.keys(shown ?? {}).length === 0
      ? []
      : [`The session says about it ${jsonOf(shown, flags)}`]),
  ];
}

function denialOf(denial: EarlierDenial | undefined): string[] {
  if (denial === undefined) return [];
  const why = denial.reason === undefined ? '' : `: ${JSON.stringify(denial.reason)}`;
  return [`Denied before by ${JSON.stringify(denial.by.name)} at ${denial.at}${why}`];
}

function editOf(edited: DisplayedRequest['edited'], flags: Set<DisplayFlag>): string[] {
  if (edited === undefined || edited === null) return [];
  const { params, preview } = edited;
  return [
    `Changed by the approver to ${jsonOf(params, flags)}`,
    ...linesOf(preview, flags),
    ...executionOf(preview),
    ...(preview?.diff === undefined ? [] : [preview.diff]),
  ];
}
