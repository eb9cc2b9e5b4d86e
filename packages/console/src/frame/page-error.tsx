import { Component, type ReactNode } from 'react';
import { ErrorNotice } from '../ui/notice.tsx';

interface Props {
  readonly children: ReactNode;
}

/** A page that fails to render, or to load after an update, says so; the rest of the console goes on. */
export class PageError extends Component<Props, { error: unknown }> {
  override state: { error: unknown } = { error: undefined };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    const { error } = this.state;
    if (error === undefined) return this.props.children;
    return (
      <ErrorNotice
        title="This page could not be shown"
        error={error}
        onRetry={() => location.reload()}
      />
    );
  }
}
