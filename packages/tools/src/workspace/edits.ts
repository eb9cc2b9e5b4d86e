/** Texts changed by edits that name what they replace. What does not fit changes nothing. */

export interface Edit {
  readonly old: string;
  readonly new: string;
  readonly all?: boolean | undefined;
}

export class EditRefused extends Error {
  override readonly name = 'EditRefused';
}

/** `before` is undefined where there is no file yet: then the one edit brings the whole text. */
export function applyEdits(before: string | undefined, edits: readonly Edit[]): string {
  if (before === undefined) {
    const [first] = edits;
    if (edits.length === 1 && first?.old === '') return first.new;
    throw new EditRefused('There is no such file; to make it, give one edit with an empty "old"');
  }
  return edits.reduce((text, edit, index) => applyEdit(text, edit, `edits[${index}]`), before);
}

function applyEdit(text: string, { old, new: replacement, all = false }: Edit, at: string): string {
  if (old === '') {
    if (text === '') return replacement;
    throw new EditRefused(`${at}: the file is there already, so "old" must say what to replace`);
  }
  if (old === replacement) throw new EditRefused(`${at}: "old" and "new" are the same`);
  const first = text.indexOf(old);
  if (first < 0) throw new EditRefused(`${at}: the file does not hold this text: ${excerpt(old)}`);
  if (all) return text.replaceAll(old, () => replacement);
  const second = text.indexOf(old, first + 1);
  if (second >= 0) {
    throw new EditRefused(
      `${at}: the file holds this text more than once (lines ${lineOf(text, first)} and ${lineOf(text, second)}); ` +
        'give more of what surrounds it, or set "all"',
    );
  }
  return text.slice(0, first) + replacement + text.slice(first + old.length);
}

function lineOf(text: string, at: number): number {
  return text.slice(0, at).split('\n').length;
}

export function excerpt(text: string): string {
  return JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text);
}
