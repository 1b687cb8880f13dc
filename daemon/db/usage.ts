// The token_usage table: tokens per tenant and calendar month (UTC), as the providers reported them.
import type { Queryable } from './pool.ts';

export interface TokenCount {
  inputTokens: number;
  outputTokens: number;
  totalTokens: number;
}

/** Adds to the running month and returns the month's total after it. */
export async function addUsage(db: Queryable, tenantId: string, count: TokenCount): Promise<number> {
  const { rows } = await db.query<{ total: number }>(
    `insert into token_usage as u (tenant_id, month, input_tokens, output_tokens, total_tokens)
     values ($1, date_trunc('month', now() at time zone 'utc')::date, $2, $3, $4)
     on conflict (tenant_id, month) do update set
       input_tokens = u.input_tokens + excluded.input_tokens,
       output_tokens = u.output_tokens + excluded.output_tokens,
       total_tokens = u.total_tokens + excluded.total_tokens
     returning total_tokens as total`,
    [tenantId, count.inputTokens, count.outputTokens, count.totalTokens],
  );
  return rows[0]?.total ?? 0;
}

/** Tokens of the running month, and the seconds until the next one begins. */
export async function monthUsage(
  db: Queryable,
  tenantId: string,
): Promise<{ totalTokens: number; monthEndsInS: number }> {
  const { rows } = await db.query<{ totalTokens: number; monthEndsInS: number }>(
    `select coalesce((select total_tokens from token_usage
              where tenant_id = $1 and month = date_trunc('month', now() at time zone 'utc')::date), 0)
              as "totalTokens",
            ceil(extract(epoch from date_trunc('month', now() at time zone 'utc') + interval '1 month'
              - (now() at time zone 'utc')))::int as "monthEndsInS"`,
    [tenantId],
  );
  return rows[0] ?? { totalTokens: 0, monthEndsInS: 1 };
}
