/** The answer to a question as a form. Its buttons are in the bar below the card. */
import { type Approval, type FieldIssue, issuesOfValue } from '@relay/protocol/wire';
import { useState } from 'react';
import { SchemaForm } from '../../call/schema-form.tsx';
import { decide, type JsonInput } from './decisions.ts';

interface QuestionProps {
  readonly approval: Approval;
  readonly digest: string;
  /** Of the form, for the button that sends it. */
  readonly formId: string;
}

export function Question({ approval: { id, schema = {} }, digest, formId }: QuestionProps) {
  const [value, setValue] = useState<unknown>(schema['type'] === 'object' ? {} : undefined);
  const [issues, setIssues] = useState<readonly FieldIssue[]>();
  const [problems, setProblems] = useState<readonly FieldIssue[]>([]);
  return (
    <form
      id={formId}
      className="rounded border border-line bg-surface p-4"
      onSubmit={(event) => {
        event.preventDefault();
        const found = issues ?? issuesOfValue(schema, value);
        setProblems(found);
        if (found.length > 0) return;
        const input = (value ?? null) as JsonInput;
        void decide(id, 'Answering', { approved: true, input, digest });
      }}
    >
      <SchemaForm
        schema={schema}
        value={value}
        problems={problems}
        onChange={(next, found) => {
          setValue(next);
          setIssues(found);
          setProblems([]);
        }}
      />
    </form>
  );
}
