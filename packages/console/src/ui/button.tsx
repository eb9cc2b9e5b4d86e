import type { ComponentProps } from 'react';
import { cx } from './cx.ts';

export type ButtonKind = 'primary' | 'approve' | 'danger' | 'plain' | 'quiet';

const kinds: Readonly<Record<ButtonKind, string>> = {
  primary: 'bg-solid text-on-solid border-solid hover:opacity-90',
  approve: 'bg-done-solid text-on-state border-done-solid hover:opacity-90',
  danger: 'bg-surface text-failed border-line-strong hover:bg-failed-soft',
  plain: 'bg-surface text-text border-line-strong hover:bg-hover',
  quiet: 'bg-transparent text-muted border-transparent hover:bg-hover hover:text-text',
};

interface ButtonProps extends ComponentProps<'button'> {
  /** Default: `plain`. */
  readonly kind?: ButtonKind;
  readonly size?: 'sm' | 'md';
}

/** At least 44 px high where a finger is the pointer. */
export const buttonClass = (kind: ButtonKind, size: 'sm' | 'md' = 'md', className?: string) =>
  cx(
    'inline-flex items-center justify-center gap-1.5 rounded border font-medium whitespace-nowrap select-none',
    'transition-colors duration-100 disabled:cursor-not-allowed disabled:opacity-50 pointer-coarse:min-h-11',
    size === 'sm' ? 'h-7 px-2 text-xs' : 'h-8 px-3 text-sm',
    kinds[kind],
    className,
  );

export function Button({ kind = 'plain', size = 'md', className, ...props }: ButtonProps) {
  return <button type="button" className={buttonClass(kind, size, className)} {...props} />;
}

interface IconButtonProps extends Omit<ButtonProps, 'aria-label'> {
  /** What it does: its name for screen readers, and its title. */
  readonly label: string;
}

export function IconButton({ label, kind = 'quiet', className, ...props }: IconButtonProps) {
  return (
    <Button
      kind={kind}
      aria-label={label}
      title={label}
      className={cx('w-8 px-0! pointer-coarse:w-11', className)}
      {...props}
    />
  );
}
