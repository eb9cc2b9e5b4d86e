/** A rule that the address suggests, as the overview does. It is never added without a person's decision. */
import { useSearchParams } from 'wouter';
import { Button } from '../../ui/button.tsx';
import { Note } from '../../ui/notice.tsx';
import { parseRules, type ToolRule } from './draft.ts';
import { RuleSummary } from './rule-summary.tsx';

interface Props {
  /** Left out for those who may not change the policy. */
  readonly onAdd: ((rule: ToolRule) => void) | undefined;
}

export function Suggestion({ onAdd }: Props) {
  const [search, setSearch] = useSearchParams();
  const text = search.get('suggest');
  if (text === null) return null;
  const close = () =>
    setSearch(
      (before) => {
        before.delete('suggest');
        return before;
      },
      { replace: true },
    );
  const parsed = parseRules(`{"allow":[${text}]}`);
  const rule = 'problem' in parsed ? undefined : parsed.allow[0];
  if (rule === undefined) {
    return <Note tone="failed">The rule in the address of this page cannot be read.</Note>;
  }
  return (
    <Note
      tone="waiting"
      actions={
        <>
          {onAdd === undefined ? null : (
            <Button
              size="sm"
              onClick={() => {
                onAdd(rule);
                close();
              }}
            >
              Add it to the draft
            </Button>
          )}
          <Button size="sm" onClick={close}>
            Dismiss
          </Button>
        </>
      }
    >
      <p>
        Suggested for Allow, because people approved such calls. Calls that match it would run
        without an approval.
      </p>
      <RuleSummary rule={rule} />
    </Note>
  );
}
