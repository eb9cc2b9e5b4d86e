/** Form fields with their labels, hints and errors. */
import { Switch as BaseSwitch } from '@base-ui/react/switch';
import { type ComponentProps, type ReactNode, useId } from 'react';
import { cx } from './cx.ts';

const control =
  'w-full rounded border border-line-strong bg-surface px-2.5 text-sm text-text disabled:opacity-60 pointer-coarse:min-h-11';

interface FieldProps {
  readonly label: string;
  readonly hint?: ReactNode;
  readonly error?: string | undefined;
  readonly children: (ids: {
    readonly id: string;
    readonly 'aria-describedby': string;
  }) => ReactNode;
}

/** A label above a control; the hint or the error below it. */
export function Field({ label, hint, error, children }: FieldProps) {
  const id = useId();
  const about = `${id}-about`;
  return (
    <div className="flex flex-col gap-1">
      <label htmlFor={id} className="text-sm font-medium">
        {label}
      </label>
      {children({ id, 'aria-describedby': about })}
      <div id={about} className={cx('text-xs', error === undefined ? 'text-muted' : 'text-failed')}>
        {error ?? hint}
      </div>
    </div>
  );
}

export function Input({ className, ...props }: ComponentProps<'input'>) {
  return <input className={cx(control, 'h-8', className)} {...props} />;
}

export function TextArea({ className, ...props }: ComponentProps<'textarea'>) {
  return <textarea className={cx(control, 'py-1.5 leading-5', className)} {...props} />;
}

/** The platform's own: it works with every keyboard, screen reader and phone. */
export function Select({ className, ...props }: ComponentProps<'select'>) {
  return <select className={cx(control, 'h-8', className)} {...props} />;
}

interface SwitchProps {
  readonly label: string;
  readonly checked: boolean;
  readonly onChange: (checked: boolean) => void;
  readonly disabled?: boolean;
}

export function Switch({ label, checked, onChange, disabled = false }: SwitchProps) {
  return (
    <label className="inline-flex items-center gap-2 text-sm pointer-coarse:min-h-11">
      <BaseSwitch.Root
        checked={checked}
        disabled={disabled}
        onCheckedChange={onChange}
        className="flex h-5 w-9 rounded-full border border-line-strong bg-sunken p-px data-checked:border-solid data-checked:bg-solid"
      >
        <BaseSwitch.Thumb className="size-4 rounded-full bg-faint transition-transform data-checked:translate-x-4 data-checked:bg-on-solid" />
      </BaseSwitch.Root>
      {label}
    </label>
  );
}
