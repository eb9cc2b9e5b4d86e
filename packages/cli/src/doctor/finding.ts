/** One thing that was looked at. */
export interface Finding {
  readonly check: string;
  readonly state: 'ok' | 'warning' | 'wrong';
  readonly message: string;
  /** What to do about it. */
  readonly mend?: string;
}

export function ok(check: string, message: string): Finding {
  return { check, state: 'ok', message };
}

export function warning(check: string, message: string, mend: string): Finding {
  return { check, state: 'warning', message, mend };
}

export function wrong(check: string, message: string, mend: string): Finding {
  return { check, state: 'wrong', message, mend };
}
