import { z } from 'zod';
import { displayFlags } from '../display/characters.ts';
import { roleNames } from './roles.ts';
import { groupSchema, idSchema, jsonSchema, toolCallIdSchema } from './values.ts';

/** So that a request, and each decision by its rules, takes a bounded time. */
export const ruleLimits = {
  /** In all lists together. */
  rules: 500,
  paramsPerRule: 32,
  /** Characters of all patterns together. */
  patternChars: 32 * 1024,
} as const;

/** zod drops a key named `__proto__` silently, which would make a rule wider than it was written. */
const ownParameters = z.unknown().superRefine((value, context) => {
  if (!isObject(value) || !Object.hasOwn(value, '__proto__')) return;
  context.addIssue({
    code: 'custom',
    path: ['__proto__'],
    message: 'Not allowed as a parameter name',
  });
});

/** A record whose input type is a record too. */
function recordOf<Value extends z.ZodType>(value: Value, most = Infinity) {
  type Input = Record<string, z.input<Value>>;
  const few = ownParameters.superRefine((given, context) => {
    const count = isObject(given) ? Object.keys(given).length : 0;
    if (count <= most) return;
    context.addIssue({
      code: 'custom',
      message: `Has ${count} parameters; at most ${most} are allowed`,
    });
  });
  const schema: z.ZodType<Record<string, z.output<Value>>> = few.pipe(z.record(z.string(), value));
  return schema as z.ZodType<Record<string, z.output<Value>>, Input>;
}

/** A tool's exact name, with globs for the parameters it constrains or with the exact arguments. */
export const toolPermissionSchema = z.strictObject({
  tool: z.string().min(1),
  params: recordOf(z.string(), ruleLimits.paramsPerRule).optional(),
  /** Matches a call with exactly these arguments; patterns are taken literally. */
  exact: recordOf(jsonSchema).optional(),
});
export type ToolPermission = z.infer<typeof toolPermissionSchema>;

export const denialSchema = z.strictObject({
  toolCallId: toolCallIdSchema,
  reason: z.string().optional(),
});

/** Counts the rules before anything else looks at them. */
export function withRuleLimits<Schema extends z.ZodType>(
  schema: Schema,
  lists: readonly string[],
): z.ZodType<z.output<Schema>, z.input<Schema>> {
  const counted = z.preprocess((value, context) => {
    const message = ruleLimitExceeded(value, lists);
    if (message !== undefined) context.addIssue({ code: 'custom', message });
    return value;
  }, schema);
  return counted as unknown as z.ZodType<z.output<Schema>, z.input<Schema>>;
}

function ruleLimitExceeded(value: unknown, lists: readonly string[]): string | undefined {
  const rules = lists.flatMap((list) => itemsOf(value, list));
  if (rules.length > ruleLimits.rules) {
    return `Contains ${rules.length} rules; at most ${ruleLimits.rules} are allowed, in all lists together`;
  }
  let chars = 0;
  for (const rule of rules) {
    const params = isObject(rule) && isObject(rule['params']) ? rule['params'] : {};
    for (const pattern of Object.values(params))
      chars += typeof pattern === 'string' ? pattern.length : 0;
  }
  if (chars <= ruleLimits.patternChars) return undefined;
  return `Contains patterns of ${chars} characters in total; at most ${ruleLimits.patternChars} are allowed`;
}

function itemsOf(value: unknown, list: string): readonly unknown[] {
  const items = isObject(value) ? value[list] : undefined;
  return Array.isArray(items) ? items : [];
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

const unlimitedPermissionsSchema = z.strictObject({
  allowlist: z.array(toolPermissionSchema).optional(),
  allowOnce: z.array(toolPermissionSchema).optional(),
  deny: z.array(denialSchema).optional(),
  denylist: z.array(toolPermissionSchema).optional(),
  /** A person must approve each matching call, whatever allows it. */
  ask: z.array(toolPermissionSchema).optional(),
  /** No approver is available: a call that needs an approval is denied. */
  headless: z.boolean().optional(),
});
export type Permissions = z.infer<typeof unlimitedPermissionsSchema>;

export const permissionsSchema = withRuleLimits(unlimitedPermissionsSchema, [
  'allowlist',
  'allowOnce',
  'deny',
  'denylist',
  'ask',
]);

const rules = z.array(toolPermissionSchema);

const approverGroups = ['roles', 'groups', 'keys'] as const;

/**
 * Who may decide about matching calls, and how many of them must agree. Without `roles`, `groups` and
 * `keys`: everyone with the scope `approve`.
 */
export const approverRuleSchema = z
  .strictObject({
    tool: z.string().min(1),
    params: recordOf(z.string()).optional(),
    /** Only calls of this agent. Default: of all agents. */
    agent: z.string().min(1).max(128).optional(),
    roles: z.array(z.enum(roleNames)).min(1).max(roleNames.length).optional(),
    groups: z.array(groupSchema).min(1).max(32).optional(),
    /** Ids of API keys. */
    keys: z.array(idSchema).min(1).max(100).optional(),
    /** How many persons must approve. */
    quorum: z.int().min(1).max(10).default(1),
    /** The person who started the run may not decide. */
    notRequester: z.boolean().default(false),
  })
  .superRefine((rule, context) => {
    const [, ...others] = approverGroups.filter((name) => rule[name] !== undefined);
    for (const path of others) {
      const message = 'Only one of roles, groups and keys is allowed';
      context.addIssue({ code: 'custom', path: [path], message });
    }
  });
export type ApproverRule = z.infer<typeof approverRuleSchema>;

/** Standing rules of a tenant. */
export const policyRulesSchema = z.strictObject({
  allow: rules.default([]),
  deny: rules.default([]),
  ask: rules.default([]),
  /** The first that matches counts. */
  approvers: z.array(approverRuleSchema).max(500).default([]),
});
export type PolicyRules = z.infer<typeof policyRulesSchema>;

export const policyLists = ['allow', 'deny', 'ask', 'approvers'] as const;

const approvedResponse = z.strictObject({
  approved: z.literal(true),
  always: z.boolean().optional(),
});
/** What the approver saw: the `executedDigest` of the approval, else its `digest`. */
export const seenDigestSchema = z.string().min(1).max(128);
const deniedResponse = z.strictObject({
  approved: z.literal(false),
  reason: z.string().optional(),
});

/** An approver's answer to an approval of kind `permission`. */
export type PermissionResponse = z.infer<typeof approvedResponse> | z.infer<typeof deniedResponse>;

/**
 * The answers to an approval of kind `outcome`, whose tool was started before a crash or a
 * stop of the server: run it again, it took effect (with this output), or it did not.
 */
export const outcomeAnswers = ['rerun', 'completed', 'failed'] as const;
export type OutcomeAnswer = (typeof outcomeAnswers)[number];

const outcomeResponse = z.strictObject({
  outcome: z.enum(outcomeAnswers),
  output: jsonSchema.optional(),
  reason: z.string().optional(),
});

/** An approver's answer. `input` replaces the call's arguments, or answers a question. */
export const relayResponseSchema = z.union([
  z.discriminatedUnion('approved', [
    approvedResponse.extend({
      input: jsonSchema.optional(),
      /** Never accepted with `approved`: an approval of kind `outcome` is answered by `outcome`. */
      output: jsonSchema.optional(),
      digest: seenDigestSchema.optional(),
    }),
    deniedResponse,
  ]),
  outcomeResponse,
]);
export type RelayResponse = z.infer<typeof relayResponseSchema>;

export const approvalKinds = ['permission', 'question', 'outcome'] as const;
export type ApprovalKind = (typeof approvalKinds)[number];

/** Who decided: the owner of an API key, a rule, a timeout, or Relay itself. */
export const deciderSchema = z.object({
  type: z.enum(['key', 'session', 'rule', 'timeout', 'system']),
  id: z.string(),
  name: z.string(),
  /** The owner of the key, if it has one. */
  owner: z.string().optional(),
  /** The role in which the key acts: its own, else the widest that its scopes contain. */
  role: z.enum(roleNames).optional(),
});
export type Decider = z.infer<typeof deciderSchema>;

/** A person is the owner of a key, else the key: all keys of one owner are the same person. */
export function personOf({ owner, id }: Pick<Decider, 'id' | 'owner'>): string {
  return owner ?? id;
}

/** A person's last denial of the same call, with the same arguments, in the same run. */
export const earlierDenialSchema = z.object({
  at: z.iso.datetime(),
  by: deciderSchema,
  reason: z.string().optional(),
});
export type EarlierDenial = z.infer<typeof earlierDenialSchema>;

/**
 * A request as an approver must see it, with misleading characters made visible. `text` has everything:
 * paths with what they lead to, warnings, the call, and the change to a file as a diff.
 */
export const displaySchema = z.object({
  text: z
    .string()
    .describe(
      'The whole request, safe to show: paths with what they lead to, the call, its change',
    ),
  flags: z
    .array(z.enum(displayFlags))
    .readonly()
    .describe('Why the request must be read with care'),
});

/** What the arguments of a call lead to, as its tool found it when the approval was requested. */
export const previewSchema = z.object({
  /** Paths of the call that lead elsewhere than their text says; `name` is the parameter. */
  links: z
    .array(z.object({ name: z.string(), path: z.string(), target: z.string() }))
    .optional()
    .describe('Paths of the call that lead elsewhere than their text says'),
  diff: z.string().optional().describe('The change to a file, as a unified diff'),
  execution: z
    .object({
      folder: z.string().describe('The folder on the server'),
      sandboxed: z.boolean().describe('Whether it runs in the sandbox if a person approves it'),
    })
    .optional()
    .describe('Where a command runs if it is approved'),
  /** Of everything that was previewed, also of what is too long to be shown. */
  digest: z.string().optional(),
});
export type Preview = z.infer<typeof previewSchema>;

/** What a piece of a shell command is. */
export const commandRoles = [
  /** The program or builtin that runs. */
  'command',
  /** May be the program that runs: each of `root` and `rm` in `sudo -u root rm`, `rm` in `$x rm`. */
  'possible-command',
  /** Runs the command after it: `sudo`, `env`, `timeout`, `xargs`. */
  'wrapper',
  'option',
  'argument',
  'assignment',
  /** Of the shell: `if`, `for`, `do`. */
  'keyword',
  /** Between commands or around them: `&&`, `|`, `;`, a line break, a parenthesis. */
  'operator',
  /** With the file that it reads or writes. */
  'redirection',
  /** Replaced at run time: `$X`, `$(…)`. Commands in it have their own roles. */
  'expansion',
  'comment',
  'space',
  /** Was not understood, and may be anything. */
  'unparsed',
] as const;
export type CommandRole = (typeof commandRoles)[number];

export const commandSegmentSchema = z.object({ text: z.string(), role: z.enum(commandRoles) });
export type CommandSegment = z.infer<typeof commandSegmentSchema>;

/** What a command may do that an approver should not overlook. A missing one proves nothing. */
export const commandEffects = [
  'deletes',
  'changes-files',
  'changes-permissions',
  'installs',
  'publishes',
  'network',
  'privileges',
  'system',
  'rewrites-history',
  /** Text that another program executes, or a program whose name is filled in by the shell. */
  'runs-code',
] as const;
export type CommandEffect = (typeof commandEffects)[number];

/** A parameter of a call, as its tool declares it. */
export const explainedParameterSchema = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('command'),
    /** Joined, their texts are the command. */
    segments: z.array(commandSegmentSchema),
    /** Whether no segment is `unparsed`. */
    understood: z.boolean(),
    /** By the names of well-known programs. */
    effects: z.array(z.enum(commandEffects)),
  }),
  z.object({
    kind: z.literal('path'),
    path: z.string(),
    /** The path on the server, with all links followed. */
    resolved: z.string().optional(),
    /** Whether it leads out of the workspace. Unknown if it could not be resolved. */
    outside: z.boolean().optional(),
  }),
  z.object({
    kind: z.literal('url'),
    url: z.string(),
    /** Without the colon. Absent, like the host, if the text is not a URL. */
    scheme: z.string().optional(),
    /** With the port if it is not the default one; names with other than ASCII letters as `xn--…`. */
    host: z.string().optional(),
    /** Whether it has a user name or password before the host. */
    credentials: z.boolean(),
    /** False: clients disagree about what it means, or it is not an address of the web. */
    understood: z.boolean(),
  }),
]);
export type ExplainedParameter = z.infer<typeof explainedParameterSchema>;
