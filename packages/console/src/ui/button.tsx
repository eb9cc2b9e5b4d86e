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

/** `icon`: square, for an icon alone. */
type Size = 'sm' | 'md' | 'icon';

const sizes: Readonly<Record<Size, string>> = {
  sm: 'h-7 px-2 text-xs',
  md: 'h-8 px-3 text-sm',
  icon: 'size-8 shrink-0 pointer-coarse:w-11',
};

interface ButtonProps extends ComponentProps<'button'> {
  /** Default: `plain`. */
  readonly kind?: ButtonKind;
  readonly size?: Size;
}

/** At least 44 px high where a finger is the pointer. */
export const buttonClass = (kind: ButtonKind, size: Size = 'md', className?: string) =>
  cx(
    'inline-flex items-center justify-center gap-1.5 rounded border font-medium whitespace-nowrap select-none',
    'transition-colors duration-100 disabled:cursor-not-allowed disabled:opacity-50 pointer-coarse:min-h-11',
    sizes[size],
    kinds[kind],
    className,
  );

export function Button({ kind = 'plain', size = 'md', className, ...props }: ButtonProps) {
  return <button type="button" className={buttonClass(kind, size, className)} {...props} />;
}

interface IconButtonProps extends Omit<ButtonProps, 'aria-label' | 'size'> {
  /** What it does: its name for screen readers, and its title. */
  readonly label: string;
}

export function IconButton({ label, kind = 'quiet', ...props }: IconButtonProps) {
  return <Button kind={kind} size="icon" aria-label={label} title={label} {...props} />;
}
