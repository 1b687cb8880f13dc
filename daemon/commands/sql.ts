// `djinnd sql`: runs SQL as the operator role and prints what psql would print.
import { text as readAll } from 'node:stream/consumers';
import pg from 'pg';
import { loadConfig } from '../config.ts';
import { type CommandContext, CommandError, parseCommandArgs, UsageError } from './command.ts';
import { explain, operatorUrl } from './database.ts';
import { formatTable } from './table.ts';

export const help = `Runs SQL as the operator role (djinnd_operator) and prints rows, or the command and its count.

Usage: djinnd [--instance NAME] sql "UPDATE tenants SET wbb_engine='djinn'"
       djinnd [--instance NAME] sql - < statements.sql

Several statements in one text are one transaction. For an interactive session use psql, as root:
  psql -h /run/djinnd/pg -U djinnd_operator djinnd
Exit codes: 0 done, 1 the database refused (its message is on stderr) or cannot be reached, 2 wrong usage.
`;

interface RawResult {
  fields: { name: string }[];
  rows: (string | null)[][];
}

export async function run(args: string[], context: CommandContext): Promise<number> {
  const { positionals } = parseCommandArgs(args, {}, 1);
  const [argument] = positionals;
  if (argument === undefined) throw new UsageError('sql needs a statement, or - to read it from stdin');
  const statement = argument === '-' ? await readAll(process.stdin) : argument;
  if (statement.trim() === '') throw new UsageError('the statement is empty');
  const config = loadConfig(context.env);
  const client = new pg.Client({
    connectionString: operatorUrl(config),
    application_name: 'djinnd sql',
    connectionTimeoutMillis: 10_000,
    options: '-c role=djinnd_operator',
    // Every value as the text that the server sends.
    types: { getTypeParser: () => (value: string) => value } as unknown as pg.CustomTypesConfig,
  });
  client.on('error', () => {}); // a connection that breaks rejects the query, which is reported below
  client.on('notice', (notice) => context.note(`${notice.severity}:  ${notice.message}\n`));
  const tags: string[] = [];
  try {
    await client.connect();
    onCommandTag(client, (tag) => tags.push(tag));
    const answer: unknown = await client.query({ text: statement, rowMode: 'array' });
    const results = (Array.isArray(answer) ? answer : [answer]) as RawResult[];
    for (const [index, result] of results.entries())
      await context.write(formatResult(result, tags[index] ?? ''));
    return 0;
  } catch (error) {
    throw describe(error, config);
  } finally {
    await client.end().catch(() => {}); // it may never have connected
  }
}

/** The whole command tag ("INSERT 0 1"), of which pg's own result keeps only parts. */
function onCommandTag(client: pg.Client, listener: (tag: string) => void): void {
  const { connection } = client as unknown as { connection: NodeJS.EventEmitter };
  connection.on('commandComplete', (message: { text: string }) => listener(message.text));
}

function formatResult({ fields, rows }: RawResult, tag: string): string {
  if (fields.length === 0) return tag === '' ? '' : `${tag}\n`;
  const table = formatTable(
    fields.map(({ name }) => name),
    rows.map((row) => row.map((value) => value ?? '')),
  );
  const count = `(${rows.length} ${rows.length === 1 ? 'row' : 'rows'})\n`;
  return `${table}${count}${/^(SELECT|SHOW|EXPLAIN)/.test(tag) ? '' : `${tag}\n`}`;
}

/** Postgres's own words, as psql shows them. */
function describe(error: unknown, config: Parameters<typeof explain>[1]): unknown {
  if (!(error instanceof pg.DatabaseError) || error.severity === 'FATAL') return explain(error, config);
  const lines = [`${error.severity}:  ${error.message}`];
  if (error.detail !== undefined) lines.push(`DETAIL:  ${error.detail}`);
  if (error.hint !== undefined) lines.push(`HINT:  ${error.hint}`);
  return new CommandError(lines.join('\n'));
}
