/** The operator's own windows and prices: `models.json` in the data folder, read at the start. */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { knownModel, knownModelsOf, knownPriceDate, type ModelTable } from '@relay/models';
import { defined, issueMessage } from '@relay/protocol';
import { z } from 'zod';
import { ConfigError, type Installation, readConfig } from './config.ts';
import { priceSchema } from './config-file.ts';

const tableSchema = z.strictObject({
  /** When the windows and prices were checked. */
  date: z.iso.date(),
  source: z.string().min(1).max(500).optional(),
  models: z.record(
    z.string().min(1).max(512),
    z
      .strictObject({
        contextTokens: z.int().min(1).optional(),
        price: priceSchema.optional(),
      })
      .refine((entry) => entry.contextTokens !== undefined || entry.price !== undefined, {
        message: 'Set contextTokens, price or both',
      }),
  ),
});
type Table = z.infer<typeof tableSchema>;

/** An entry says since when it holds: later updates replace only the models that they name. */
type Stored = Table['models'][string] & { readonly date: string; readonly source?: string };

const storedSchema = z.record(
  z.string(),
  z.strictObject({
    contextTokens: z.int().optional(),
    price: priceSchema.optional(),
    date: z.string(),
    source: z.string().optional(),
  }),
);

function pathIn(dataDir: string): string {
  return join(dataDir, 'models.json');
}

function readStored(dataDir: string): Record<string, Stored> {
  const path = pathIn(dataDir);
  return existsSync(path) ? (parsed(path, storedSchema) as Record<string, Stored>) : {};
}

/** Empty if there is none. A mistake in it stops the start. */
export function readModelTable(dataDir: string): ModelTable {
  return readStored(dataDir);
}

function parsed<Schema extends z.ZodType>(path: string, schema: Schema): z.infer<Schema> {
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new ConfigError(`${path} could not be read: ${why}`);
  }
  const result = schema.safeParse(value, { error: issueMessage });
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw new ConfigError(`${path}: ${issue?.path.join('.')}: ${issue?.message}`);
}

export interface ListedModel {
  readonly model: string;
  readonly provider: string;
  readonly contextTokens?: number | undefined;
  readonly price?: ReturnType<typeof priceSchema.parse> | undefined;
  /** Of the price. A built-in model without a price has none. */
  readonly date: string | undefined;
  readonly source: string;
}

/** The built-in models and those of the operator's table. */
export function listKnownModels({ env, cwd }: Installation): ListedModel[] {
  const own = readStored(readConfig(env, cwd).dataDir);
  const builtIn = ['openai', 'anthropic', 'google'].flatMap((provider) =>
    knownModelsOf(provider).map((model) => ({ provider, model })),
  );
  const names = new Set(builtIn.map(({ model }) => model));
  const added = Object.keys(own)
    .filter((name) => !names.has(name))
    .map((model) => ({ provider: model.includes(':') ? (model.split(':')[0] ?? '') : '', model }));
  return [...builtIn, ...added].map(({ provider, model }) => {
    const entry = own[model];
    const known = knownModel(model, own) ?? entry;
    const builtInDate = knownPriceDate(provider, model);
    const isBuiltIn =
      entry === undefined || (entry.price === undefined && builtInDate !== undefined);
    return {
      model,
      provider,
      contextTokens: known?.contextTokens,
      price: known?.price,
      date: isBuiltIn ? builtInDate : entry.date,
      source: isBuiltIn ? 'built in' : (entry.source ?? 'relay models update'),
    };
  });
}

export interface ModelChange {
  readonly model: string;
  readonly before: Table['models'][string] | undefined;
  readonly after: Table['models'][string];
}

/** Merges a file into the table, and returns what changed. */
export function updateModelTable({ env, cwd }: Installation, file: string): ModelChange[] {
  const { dataDir } = readConfig(env, cwd);
  const { models, date, source } = parsed(resolve(cwd, file), tableSchema);
  const stored = readStored(dataDir);
  const changes: ModelChange[] = [];
  const next = { ...stored };
  for (const [model, after] of Object.entries(models)) {
    const { date: _, source: __, ...own } = stored[model] ?? { date };
    const before = stored[model] === undefined ? knownModel(model) : own;
    next[model] = { ...own, ...after, date, ...defined({ source }) };
    const merged = { ...before, ...after };
    if (JSON.stringify(before ?? {}) !== JSON.stringify(merged)) {
      changes.push({ model, before, after: merged });
    }
  }
  const path = pathIn(dataDir);
  writeFileSync(`${path}.new`, `${JSON.stringify(next, undefined, 2)}\n`);
  renameSync(`${path}.new`, path);
  return changes;
}
