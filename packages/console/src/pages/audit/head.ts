/** The head of an audit trail that a person has kept. */
import { type AuditHead, isObject } from '@relay/protocol/wire';

/** From JSON with `seq` and `hash`, as copied or exported, or from a cursor such as `42.9e1d…`. */
export function parseHead(text: string): Pick<AuditHead, 'seq' | 'hash'> | undefined {
  const [, cursorSeq, cursorHash] = /^\s*(\d{1,15})\.([0-9a-f]{64})\s*$/.exec(text) ?? [];
  if (cursorSeq !== undefined && cursorHash !== undefined) {
    return { seq: Number(cursorSeq), hash: cursorHash };
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isObject(value)) return undefined;
  const { seq, hash } = value;
  if (typeof seq !== 'number' || !Number.isSafeInteger(seq) || seq < 1) return undefined;
  if (typeof hash !== 'string' || !/^[0-9a-f]{64}$/.test(hash)) return undefined;
  return { seq, hash };
}
