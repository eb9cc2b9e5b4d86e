/**
 * What a person is shown of a call: all of it, and nothing that looks like something else. Characters
 * that do not show, or that turn the order of others around, are written out and named.
 */
export interface Display {
  readonly text: string;
  /** What there is to beware of. */
  readonly flags: readonly Flag[];
}

export type Flag = 'control' | 'bidi' | 'invisible' | 'confusable-space' | 'lone-surrogate';

/** Line breaks and tabs are what they look like; they are left to the JSON around them. */
function flagOf(code: number): Flag | undefined {
  if (code < 0x20 || (code >= 0x7f && code <= 0x9f)) return 'control';
  if (code === 0x61_c || (code >= 0x20_0e && code <= 0x20_0f)) return 'bidi';
  if ((code >= 0x20_2a && code <= 0x20_2e) || (code >= 0x20_66 && code <= 0x20_69)) return 'bidi';
  if (code === 0xad || code === 0x34_f || code === 0x18_0e || code === 0xfe_ff) return 'invisible';
  if ((code >= 0x20_0b && code <= 0x20_0d) || (code >= 0x20_60 && code <= 0x20_65)) {
    return 'invisible';
  }
  if ((code >= 0xfe_00 && code <= 0xfe_0f) || (code >= 0xe_00_00 && code <= 0xe_0f_ff)) {
    return 'invisible';
  }
  if (code === 0xa0 || code === 0x30_00 || code === 0x20_2f || code === 0x20_5f) {
    return 'confusable-space';
  }
  if (code >= 0x20_00 && code <= 0x20_0a) return 'confusable-space';
  if (code === 0x20_28 || code === 0x20_29) return 'control';
  return code >= 0xd8_00 && code <= 0xdf_ff ? 'lone-surrogate' : undefined;
}

/** As JSON, indented, so that every value has its line and its quotes. */
export function displayOf(tool: string, params: unknown): Display {
  const flags = new Set<Flag>();
  const written = JSON.stringify(params, null, 2) ?? 'null';
  let text = '';
  for (const char of `${tool} ${written}`) {
    const code = char.codePointAt(0) ?? 0;
    const flag = code === 0x0a ? undefined : flagOf(code);
    if (flag === undefined) {
      text += char;
      continue;
    }
    flags.add(flag);
    text += `\\u{${code.toString(16)}}`;
  }
  // JSON has written some of them out already.
  for (const [, hex = ''] of written.matchAll(/\\u([0-9a-f]{4})/g)) {
    const flag = flagOf(Number.parseInt(hex, 16));
    if (flag !== undefined) flags.add(flag);
  }
  return { text, flags: [...flags].toSorted() };
}
