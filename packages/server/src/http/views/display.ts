/**
 * A tool call as an approver sees it: complete, and without misleading characters. Invisible, bidi and
 * control characters are escaped and reported as flags.
 */
import type { ApprovalRecord } from '@relay/core';
import type { EarlierDenial } from '@relay/protocol';

export interface Display {
  readonly text: string;
  /** The kinds of misleading characters in the call. */
  readonly flags: readonly Flag[];
}

export type Flag = 'control' | 'bidi' | 'invisible' | 'confusable-space' | 'lone-surrogate';

const bidi = /\p{Bidi_Control}/u;
/** Includes line and paragraph separators, which only some renderers break at. */
const control = /[\p{Cc}\p{Zl}\p{Zp}]/u;
const space = /[^\P{Zs} ]/u;
/** Includes blank characters that Unicode classifies as letters: Hangul fillers, and Braille blank. */
const invisible =
  /[\p{Cf}\p{Default_Ignorable_Code_Point}\p{Cn}\p{Co}\u115f\u1160\u2800\u3164\uffa0]/u;

function flagOf(char: string): Flag | undefined {
  if (bidi.test(char)) return 'bidi';
  if (control.test(char)) return 'control';
  if (space.test(char)) return 'confusable-space';
  if (/\p{Cs}/u.test(char)) return 'lone-surrogate';
  return invisible.test(char) ? 'invisible' : undefined;
}

/** An escape sequence in a JSON string. */
const escape = /\\(?:\\|u([\da-f]{4})|([bfr])|.)/g;

/** As indented JSON, so that every value is quoted and on its own line. */
export function displayOf(tool: string, params: unknown, earlierDenial?: EarlierDenial): Display {
  const flags = new Set<Flag>();
  const json = `${JSON.stringify(params, null, 2) ?? 'null'}${denialLine(earlierDenial)}`;
  let text = '';
  for (const char of `${tool} ${json}`) {
    const isPlain = (char >= ' ' && char <= '~') || char === '\n';
    const flag = isPlain ? undefined : flagOf(char);
    if (flag !== undefined) flags.add(flag);
    text += flag === undefined ? char : `\\u{${char.codePointAt(0)?.toString(16)}}`;
  }
  for (const [, hex, letter] of json.matchAll(escape)) {
    const flag = hex === undefined ? undefined : flagOf(String.fromCharCode(parseInt(hex, 16)));
    if (flag !== undefined) flags.add(flag);
    if (letter !== undefined) flags.add('control');
  }
  return { text, flags: [...flags].toSorted() };
}

/** An outcome is asked about because the call may have run: an approver must read that first. */
export function displayOfApproval(approval: ApprovalRecord): Display {
  const { kind, tool, params, question, earlierDenial } = approval;
  const display = displayOf(tool, question ?? params, earlierDenial);
  if (kind !== 'outcome') return display;
  return { ...display, text: `${outcomeWarning}:\n${display.text}` };
}

export const outcomeWarning = 'This call was started before a crash and may have taken effect';

function denialLine(denial: EarlierDenial | undefined): string {
  if (denial === undefined) return '';
  const why = denial.reason === undefined ? '' : `: ${JSON.stringify(denial.reason)}`;
  return `\nDenied before by ${JSON.stringify(denial.by.name)} at ${denial.at}${why}`;
}
