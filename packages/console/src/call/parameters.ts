/** What `POST /v1/permissions/explain` says about the parameters of a call. */
export type CommandRole =
  | 'command'
  | 'possible-command'
  | 'wrapper'
  | 'option'
  | 'argument'
  | 'assignment'
  | 'keyword'
  | 'operator'
  | 'redirection'
  | 'expansion'
  | 'comment'
  | 'space'
  | 'unparsed';

export interface CommandSegment {
  readonly text: string;
  readonly role: CommandRole;
}

export type ExplainedParameter =
  | {
      readonly kind: 'command';
      readonly segments: readonly CommandSegment[];
      readonly understood: boolean;
    }
  | {
      readonly kind: 'path';
      readonly path: string;
      readonly resolved?: string | undefined;
      readonly outside?: boolean | undefined;
    }
  | {
      readonly kind: 'url';
      readonly url: string;
      readonly scheme?: string | undefined;
      readonly host?: string | undefined;
      readonly credentials: boolean;
      readonly understood: boolean;
    };
