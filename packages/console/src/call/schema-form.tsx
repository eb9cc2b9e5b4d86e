/** A form made from a JSON Schema, for the arguments of a call and the answers of questions. */
import { childPath, type FieldIssue, isObject, type JsonSchema } from '@relay/protocol/wire';
import { escapeMisleading } from '@relay/protocol/display';
import { Plus, X } from 'lucide-react';
import { createContext, type ReactNode, useContext, useId, useMemo, useRef, useState } from 'react';
import { SafeText } from '../text/safe-text.tsx';
import { Button, IconButton } from '../ui/button.tsx';
import { cx } from '../ui/cx.ts';
import { Input, Select, TextArea } from '../ui/form.tsx';
import {
  accepts,
  type Field,
  fieldOf,
  formatJson,
  formatNumber,
  isSame,
  issuesOf,
  type Parsed,
  parseJson,
  parseNumber,
  resolved,
  startValue,
  variantOf,
  withProperty,
} from './schema-fields.ts';

interface SchemaFormProps {
  readonly schema: JsonSchema;
  readonly value: unknown;
  /** The value keeps its types. With issues, it cannot be sent. */
  readonly onChange: (value: unknown, issues: readonly FieldIssue[]) => void;
  /** What the server says about the value; an empty path is about all of it. */
  readonly problems?: readonly FieldIssue[];
}

/** A text that is not a value of its field. The value stays what it was before. */
interface Draft {
  readonly text: string;
  readonly problem: string;
}

interface Form {
  readonly root: JsonSchema;
  readonly issues: readonly FieldIssue[];
  readonly problems: readonly FieldIssue[];
  readonly drafts: ReadonlyMap<string, Draft>;
  readonly touched: ReadonlySet<string>;
  readonly setDraft: (path: string, draft: Draft) => void;
  /** A field has a new value: its drafts, and those within, are gone. */
  readonly onEdited: (path: string) => void;
}

const FormContext = createContext<Form | undefined>(undefined);

function useForm(): Form {
  const form = useContext(FormContext);
  if (form === undefined) throw new Error('A field is outside of its form');
  return form;
}

export function SchemaForm({ schema, value, onChange, problems = [] }: SchemaFormProps) {
  const [drafts, setDrafts] = useState<ReadonlyMap<string, Draft>>(new Map());
  const [touched, setTouched] = useState<ReadonlySet<string>>(new Set());
  const issues = useMemo(() => issuesWith(schema, value, drafts), [schema, value, drafts]);
  /** Those of the edit that is being made: the state has them only afterwards. */
  let newDrafts = drafts;
  const keep = (next: ReadonlyMap<string, Draft>, path: string) => {
    newDrafts = next;
    setDrafts(next);
    setTouched(new Set(touched).add(path));
  };
  const form: Form = {
    root: schema,
    issues,
    problems,
    drafts,
    touched,
    setDraft: (path, draft) => {
      keep(new Map(drafts).set(path, draft), path);
      onChange(value, issuesWith(schema, value, newDrafts));
    },
    onEdited: (path) => keep(new Map([...drafts].filter(([each]) => !isWithin(each, path))), path),
  };
  const top = resolved(schema, schema);
  const field = fieldOf(top, schema);
  const isGroup = field.kind === 'group' && accepts(field, value);
  const own = [...problems, ...issues.filter(({ path }) => isGroup && path === '')];
  const edit = (next: unknown) => onChange(next, issuesWith(schema, next, newDrafts));
  return (
    <FormContext value={form}>
      <div className="flex min-w-0 flex-col gap-4">
        {own.length === 0 ? null : (
          <ul role="alert" className="flex flex-col gap-1 text-sm text-failed">
            {own.map(({ path, message }, index) => (
              <li key={index} className="break-words">
                {path === '' ? null : (
                  <code className="font-mono">
                    <SafeText text={path} maxLength={200} />:{' '}
                  </code>
                )}
                <SafeText text={message} />
              </li>
            ))}
          </ul>
        )}
        {isGroup ? (
          <Editor schema={top} value={value} path="" onChange={edit} />
        ) : (
          <LabelledEditor
            label="Value"
            schema={top}
            value={value}
            path=""
            isRequired
            onChange={edit}
            onRemove={undefined}
          />
        )}
      </div>
    </FormContext>
  );
}

function issuesWith(
  schema: JsonSchema,
  value: unknown,
  drafts: ReadonlyMap<string, Draft>,
): readonly FieldIssue[] {
  const unfinished = [...drafts].map(([path, { problem }]) => ({ path, message: problem }));
  return [...unfinished, ...issuesOf(schema, value).filter(({ path }) => !drafts.has(path))];
}

function isWithin(path: string, parent: string): boolean {
  if (parent === '' || path === parent) return true;
  return path.startsWith(`${parent}.`) || path.startsWith(`${parent}[`);
}

/** Parts of parts that have fields of their own; what is in them is edited as JSON. */
const maxLevel = 6;

function levelOf(path: string): number {
  return path.split(/[.[]/, maxLevel + 2).length;
}

interface EditorProps {
  readonly schema: JsonSchema;
  readonly value: unknown;
  readonly path: string;
  /** Undefined: it is absent. */
  readonly onChange: (value: unknown) => void;
  /** Whether it must have a value: an item of a list is there or removed. */
  readonly isItem?: boolean;
  /** Of the control, for its label. */
  readonly id?: string;
  readonly describedBy?: string;
}

/** The field for a value, without its label. */
function Editor(props: EditorProps) {
  const { root } = useForm();
  const { schema, value, path } = props;
  const field = fieldOf(schema, root);
  // What was begun as JSON stays JSON until it is removed: another field would take the cursor away.
  const isJson = useRef(false);
  isJson.current = value !== undefined && (isJson.current || !accepts(field, value));
  if (isJson.current || levelOf(path) > maxLevel) return <JsonEditor {...props} />;
  switch (field.kind) {
    case 'choice':
      return <ChoiceEditor {...props} field={field} />;
    case 'text':
      return <TextEditor {...props} field={field} />;
    case 'number':
      return <NumberEditor {...props} field={field} />;
    case 'list':
      return <ListEditor {...props} field={field} />;
    case 'group':
      return <GroupEditor {...props} field={field} />;
    case 'variants':
      return <VariantsEditor {...props} field={field} />;
    case 'json':
      return <JsonEditor {...props} />;
  }
}

type Of<Kind extends Field['kind']> = EditorProps & {
  readonly field: Extract<Field, { kind: Kind }>;
};

function ChoiceEditor(props: Of<'choice'>) {
  const { field, value, path, onChange, isItem = false, id, describedBy } = props;
  const { onEdited } = useForm();
  const chosen = field.options.findIndex((option) => isSame(option.value, value));
  return (
    <Select
      id={id}
      aria-describedby={describedBy}
      value={chosen}
      className="font-mono"
      onChange={({ target }) => {
        onEdited(path);
        onChange(field.options[Number(target.value)]?.value);
      }}
    >
      {isItem ? null : <option value={-1}>Not set</option>}
      {field.options.map(({ label }, index) => (
        <option key={index} value={index}>
          {label === '' ? '"" (empty text)' : escapeMisleading(label.slice(0, 200))}
        </option>
      ))}
    </Select>
  );
}

const formatExamples: Readonly<Record<string, string>> = {
  date: '2026-01-31',
  time: '13:45:00Z',
  'date-time': '2026-01-31T13:45:00Z',
  email: 'ada@example.com',
  uri: 'https://example.com/',
};

function TextEditor({ field, value, path, onChange, id, describedBy }: Of<'text'>) {
  const { onEdited } = useForm();
  const text = typeof value === 'string' ? value : '';
  const isLong = text.includes('\n') || (field.isLong && field.format === undefined);
  const shared = {
    id,
    'aria-describedby': describedBy,
    value: text,
    spellCheck: false,
    autoComplete: 'off',
    placeholder: value === undefined ? 'Not set' : 'Empty text',
    onChange: ({ target }: { readonly target: { readonly value: string } }) => {
      onEdited(path);
      onChange(target.value);
    },
  };
  if (!isLong) return <Input {...shared} className="font-mono" />;
  // For browsers that do not size it by its content.
  const rows = Math.min(12, text.split('\n', 12).length + Math.floor(text.length / 80));
  return (
    <TextArea
      {...shared}
      rows={rows}
      className="field-sizing-content max-h-[50vh] min-h-8 resize-none font-mono"
    />
  );
}

function NumberEditor({ id, describedBy, field, ...props }: Of<'number'>) {
  return (
    <DraftEditor {...props} format={formatNumber} parse={parseNumber}>
      {(text, onText) => (
        <Input
          id={id}
          aria-describedby={describedBy}
          value={text}
          inputMode={field.isInteger ? 'numeric' : 'decimal'}
          autoComplete="off"
          placeholder={props.value === undefined ? 'Not set' : undefined}
          className="font-mono"
          onChange={({ target }) => onText(target.value)}
        />
      )}
    </DraftEditor>
  );
}

function JsonEditor({ id, describedBy, ...props }: EditorProps) {
  const { root } = useForm();
  const isText = fieldOf(props.schema, root).kind === 'text';
  return (
    <DraftEditor {...props} format={formatJson} parse={parseJson}>
      {(text, onText) => (
        <div className="flex flex-col gap-1">
          <TextArea
            id={id}
            aria-describedby={describedBy}
            value={text}
            rows={Math.min(16, Math.max(2, text.split('\n', 16).length))}
            spellCheck={false}
            placeholder="Not set"
            className="font-mono"
            onChange={({ target }) => onText(target.value)}
          />
          <span className="text-xs text-muted">
            {isText
              ? 'As JSON, so that all its characters can be seen'
              : 'As JSON: texts in quotes'}
          </span>
        </div>
      )}
    </DraftEditor>
  );
}

interface DraftEditorProps extends Omit<EditorProps, 'schema'> {
  readonly format: (value: unknown) => string;
  readonly parse: (text: string) => Parsed;
  readonly children: (text: string, onText: (text: string) => void) => ReactNode;
}

/** A text that stands for a value. It stays as it was typed: `1.0` does not become `1` under the cursor. */
function DraftEditor(props: DraftEditorProps) {
  const { value, path, isItem = false, format, parse, onChange, children } = props;
  const { drafts, setDraft, onEdited } = useForm();
  const [typed, setTyped] = useState<string>();
  const parsedTyped = typed === undefined ? undefined : parse(typed);
  const isCurrent = parsedTyped?.ok === true && isSame(parsedTyped.value, value);
  const text = drafts.get(path)?.text ?? (isCurrent && typed !== undefined ? typed : format(value));
  return children(text, (next) => {
    setTyped(next);
    const parsed = parse(next);
    if (!parsed.ok) return setDraft(path, { text: next, problem: parsed.problem });
    if (parsed.value === undefined && isItem) {
      return setDraft(path, { text: next, problem: 'Enter a value, or remove the item' });
    }
    onEdited(path);
    onChange(parsed.value);
  });
}

function VariantsEditor({ field, value, path, onChange, ...rest }: Of<'variants'>) {
  const { root, onEdited } = useForm();
  const [chosen, setChosen] = useState<number>();
  const found = variantOf(field.variants, value, root);
  const current = field.variants[chosen ?? found];
  const isFitting = current !== undefined && accepts(fieldOf(current.schema, root), value);
  const at = chosen !== undefined && isFitting ? chosen : found;
  const variant = field.variants[at];
  if (variant === undefined)
    return <JsonEditor {...rest} value={value} path={path} onChange={onChange} />;
  const shown = fieldOf(variant.schema, root);
  const isFixed = shown.kind === 'choice' && shown.options.length === 1;
  return (
    <div className="flex min-w-0 flex-col gap-2">
      <Select
        aria-label="Kind of value"
        value={value === undefined && chosen === undefined ? -1 : at}
        onChange={({ target }) => {
          const index = Number(target.value);
          const next = field.variants[index];
          setChosen(next === undefined ? undefined : index);
          onEdited(path);
          onChange(next === undefined ? undefined : startValue(next.schema, root));
        }}
      >
        {rest.isItem === true ? null : <option value={-1}>Not set</option>}
        {field.variants.map(({ label }, index) => (
          <option key={index} value={index}>
            {escapeMisleading(label.slice(0, 200))}
          </option>
        ))}
      </Select>
      {value === undefined || isFixed ? null : (
        <Editor {...rest} schema={variant.schema} value={value} path={path} onChange={onChange} />
      )}
    </div>
  );
}

function ListEditor({ field, value, path, onChange }: Of<'list'>) {
  const { root, onEdited } = useForm();
  const items = Array.isArray(value) ? (value as unknown[]) : [];
  const schema = resolved(field.items, root);
  const change = (next: unknown[] | undefined) => {
    onEdited(path);
    onChange(next);
  };
  return (
    <div className="flex min-w-0 flex-col gap-3 border-l-2 border-line pl-3">
      {items.map((item, index) => (
        <LabelledEditor
          key={index}
          label={`${index + 1}`}
          schema={schema}
          value={item}
          path={`${path}[${index}]`}
          isRequired
          isItem
          onChange={(next) => onChange(items.map((each, at) => (at === index ? next : each)))}
          onRemove={() => change(items.filter((_, at) => at !== index))}
        />
      ))}
      <div className="flex flex-wrap items-center gap-2">
        <Button size="sm" onClick={() => change([...items, startValue(schema, root)])}>
          <Plus aria-hidden size={12} /> Add an item
        </Button>
        {value === undefined ? (
          <span className="text-xs text-muted">Not set</span>
        ) : items.length === 0 ? (
          <span className="text-xs text-muted">Empty list</span>
        ) : null}
      </div>
    </div>
  );
}

function GroupEditor({ field, value, path, onChange }: Of<'group'>) {
  const { root, onEdited } = useForm();
  const [name, setName] = useState('');
  const known = isObject(value) ? value : {};
  const isNamed = (each: string) => field.properties.some((property) => property.name === each);
  const others = Object.keys(known).filter((each) => !isNamed(each));
  const otherSchema = isObject(field.others) ? resolved(field.others, root) : {};
  const set = (each: string, next: unknown) => onChange(withProperty(value, each, next));
  const remove = (each: string) => {
    onEdited(childPath(path, each));
    set(each, undefined);
  };
  const isNew = name !== '' && !Object.hasOwn(known, name) && !isNamed(name);
  return (
    <div
      className={cx('flex min-w-0 flex-col gap-4', path !== '' && 'border-l-2 border-line pl-3')}
    >
      {field.properties.map(({ name: each, schema, isRequired }) => (
        <LabelledEditor
          key={each}
          label={each}
          schema={resolved(schema, root)}
          value={Object.hasOwn(known, each) ? known[each] : undefined}
          path={childPath(path, each)}
          isRequired={isRequired}
          onChange={(next) => set(each, next)}
          onRemove={isRequired ? undefined : () => remove(each)}
        />
      ))}
      {others.map((each) => (
        <LabelledEditor
          key={each}
          label={each}
          schema={otherSchema}
          value={known[each]}
          path={childPath(path, each)}
          isRequired={false}
          onChange={(next) => set(each, next)}
          onRemove={() => remove(each)}
        />
      ))}
      {field.others === undefined ? null : (
        <div className="flex max-w-md items-center gap-2">
          <Input
            aria-label="Name of another field"
            placeholder="Name of another field"
            value={name}
            onChange={({ target }) => setName(target.value)}
          />
          <Button
            size="sm"
            disabled={!isNew}
            onClick={() => {
              set(name, startValue(otherSchema, root));
              setName('');
            }}
          >
            <Plus aria-hidden size={12} /> Add
          </Button>
        </div>
      )}
    </div>
  );
}

interface LabelledEditorProps {
  readonly label: string;
  readonly schema: JsonSchema;
  readonly value: unknown;
  readonly path: string;
  readonly isRequired: boolean;
  readonly isItem?: boolean;
  readonly onChange: (value: unknown) => void;
  readonly onRemove: (() => void) | undefined;
}

function LabelledEditor(props: LabelledEditorProps) {
  const { label, schema, value, path, isRequired, isItem = false, onChange, onRemove } = props;
  const { root, issues, problems, touched } = useForm();
  const id = useId();
  const field = fieldOf(schema, root);
  const isNested = field.kind === 'group' || field.kind === 'list';
  const isWhole = isNested && accepts(field, value);
  // A field that is edited as JSON shows what is wrong within.
  const isHere = (issue: FieldIssue) =>
    isWhole ? issue.path === path : isWithin(issue.path, path);
  const found = [...problems, ...issues].filter(isHere);
  // An untouched field shows no error.
  const isQuiet =
    value === undefined && !touched.has(path) && !problems.some(({ path: each }) => each === path);
  const { title, description } = schema;
  const format = field.kind === 'text' ? field.format : undefined;
  const heading = (
    <>
      <span className="font-mono">
        <SafeText text={label} maxLength={100} />
      </span>
      {typeof title === 'string' && title !== label ? (
        <span className="font-normal">
          <SafeText text={title} maxLength={200} />
        </span>
      ) : null}
      <span className="font-normal text-muted">{isRequired ? '' : 'optional'}</span>
    </>
  );
  const about = (
    <div id={`${id}-about`} className="flex flex-col gap-0.5 text-xs text-muted empty:hidden">
      {typeof description === 'string' ? (
        <span className="break-words whitespace-pre-line">
          <SafeText text={description} maxLength={500} />
        </span>
      ) : null}
      {format === undefined ? null : (
        <span>
          Format: <SafeText text={format} maxLength={50} />
          {Object.hasOwn(formatExamples, format) ? `, such as ${formatExamples[format]}` : ''}
        </span>
      )}
      {found.map(({ path: at, message }, index) => (
        <span key={index} className={cx('break-words', !isQuiet && 'text-failed')}>
          {at === path ? '' : `${escapeMisleading(at.slice(path.length).replace(/^\./, ''))}: `}
          <SafeText text={message} maxLength={500} />
        </span>
      ))}
    </div>
  );
  const removal =
    onRemove !== undefined && value !== undefined ? (
      <IconButton
        label={`Remove ${escapeMisleading(label)}`}
        className="ml-auto"
        onClick={onRemove}
      >
        <X aria-hidden size={14} />
      </IconButton>
    ) : null;
  // A schema may refer to itself: the fields of what is not there are shown for the first level only.
  const isFolded = !isRequired || levelOf(path) > 1;
  const headingClass = 'flex flex-wrap items-center gap-2 text-sm font-medium';
  if (isWhole) {
    return (
      <fieldset className="flex min-w-0 flex-col gap-2">
        <legend className="contents">
          <span className={headingClass}>
            {heading}
            {removal}
          </span>
        </legend>
        {about}
        {value === undefined && field.kind === 'group' && isFolded ? (
          <div>
            <Button size="sm" onClick={() => onChange({})}>
              <Plus aria-hidden size={12} /> Set
            </Button>
          </div>
        ) : (
          <Editor schema={schema} value={value} path={path} isItem={isItem} onChange={onChange} />
        )}
      </fieldset>
    );
  }
  return (
    <div className="flex min-w-0 flex-col gap-1">
      <div className={headingClass}>
        <label htmlFor={id} className="flex min-w-0 flex-wrap items-center gap-2">
          {heading}
        </label>
        {removal}
      </div>
      <Editor
        schema={schema}
        value={value}
        path={path}
        isItem={isItem}
        onChange={onChange}
        id={id}
        describedBy={`${id}-about`}
      />
      {about}
    </div>
  );
}
