/** The result of one check. */
export interface Finding {
  readonly check: string;
  readonly state: 'ok' | 'warning' | 'wrong';
  readonly message: string;
  /** How to fix it. */
  readonly fix?: string;
  /** Lines of a file, shown below it. */
  readonly excerpt?: string | undefined;
}

export function ok(check: string, message: string): Finding {
  return { check, state: 'ok', message };
}

export function warning(check: string, message: string, fix: string): Finding {
  return { check, state: 'warning', message, fix };
}

export function wrong(check: string, message: string, fix: string): Finding {
  return { check, state: 'wrong', message, fix };
}
