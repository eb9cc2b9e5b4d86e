import type { ListedModel, ModelChange } from '@relay/server/operator';
import type { CliCommand, Context } from '../../command.ts';
import type { Column } from '../../output/table.ts';

export function registerModels(program: CliCommand): void {
  const models = program
    .command('models')
    .description('list known models with their windows and prices')
    .examples(['relay models', 'relay models update ./models.json'])
    .handle(listModels);
  models
    .command('update <file>')
    .description('merge windows and prices from a JSON file into the table of the data folder')
    .examples(
      ['relay models update ./models.json'],
      'The file: {"date": "2026-11-15", "models": {"gpt-6-sol": {"contextTokens": 922000, ' +
        '"price": {"inputPerMillion": 2, "outputPerMillion": 10}}}}. Restart the server afterwards.',
    )
    .handle(updateModels);
}

const dollars = (value: number | undefined) => (value === undefined ? '' : `$${value}`);

const columns: readonly Column<ListedModel>[] = [
  { title: 'model', value: ({ model }) => model },
  { title: 'window', value: ({ contextTokens }) => String(contextTokens ?? '') },
  { title: 'input', value: ({ price }) => dollars(price?.inputPerMillion) },
  { title: 'output', value: ({ price }) => dollars(price?.outputPerMillion) },
  { title: 'cached', value: ({ price }) => dollars(price?.cachedInputPerMillion) },
  { title: 'date', value: ({ date }) => date ?? '' },
  { title: 'source', value: ({ source }) => source },
];

async function listModels(context: Context): Promise<void> {
  const { listKnownModels } = await import('@relay/server/operator');
  const { env, cwd } = await context.installation();
  context.print.list(listKnownModels({ env, cwd }), columns, 'No models.');
}

async function updateModels(context: Context, [file = '']: readonly string[]): Promise<void> {
  const { updateModelTable } = await import('@relay/server/operator');
  const { env, cwd } = await context.installation();
  const changes = updateModelTable({ env, cwd }, file);
  const lines = changes.map(changeText);
  context.print.result({ changes }, [...lines, summaryOf(changes.length)].join('\n'));
}

function changeText({ model, before, after }: ModelChange): string {
  return `${model}: ${JSON.stringify(before ?? {})} → ${JSON.stringify(after)}`;
}

function summaryOf(count: number): string {
  if (count === 0) return 'Nothing changed.';
  return `${count === 1 ? '1 model' : `${count} models`} changed. Restart the server to use them.`;
}
