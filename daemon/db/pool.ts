// The connection pool of djinnd and the one way to run a transaction. Knows no table.
import pg from 'pg';
import type { Logger } from '../log.ts';

export type Pool = pg.Pool;
export type Client = pg.PoolClient;
/** Whatever runs one statement: the pool, or a client inside a transaction. */
export type Queryable = Pick<pg.ClientBase, 'query'>;

export type DatabaseRole = 'djinnd_owner' | 'djinnd_app' | 'djinnd_operator';

export interface DatabaseOptions {
  connectionString?: string;
  /** A host, or the directory of a unix socket. */
  host?: string;
  port?: number;
  user?: string;
  database?: string;
  /** Connections at most, 10 when absent; streams hold none, whatever their number. */
  max?: number;
  /** The role that every connection acts as; the login needs to be a member. `djinnd_app` when absent. */
  role?: DatabaseRole;
}

const CONNECT_TIMEOUT_MS = 5_000;
const STATEMENT_TIMEOUT_MS = 60_000;

/** int8 as a number: every bigint of the schema is checked to lie below 2^53. */
const types: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format: 'text' | 'binary' | undefined) =>
    oid === pg.types.builtins.INT8 && format !== 'binary'
      ? Number
      : pg.types.getTypeParser(oid, format)) as typeof pg.types.getTypeParser,
};

/** Connection settings shared by the pool and by migrate's single client. */
export function clientConfig(options: DatabaseOptions): pg.ClientConfig {
  return {
    ...(options.connectionString === undefined ? {} : { connectionString: options.connectionString }),
    ...(options.host === undefined ? {} : { host: options.host }),
    ...(options.port === undefined ? {} : { port: options.port }),
    ...(options.user === undefined ? {} : { user: options.user }),
    ...(options.database === undefined ? {} : { database: options.database }),
    application_name: 'djinnd',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    types,
  };
}

/**
 * Creates the pool. The role is set by the startup packet, so that it holds on every connection and no statement can
 * forget it. A lost server is logged and never ends the process; the next query connects again.
 */
export function createPool(options: DatabaseOptions, log: Logger): Pool {
  const pool = new pg.Pool({
    ...clientConfig(options),
    max: options.max ?? 10,
    // Statements that do not wait for each other's answers share a round trip.
    pipeline: true,
    options:
      `-c role=${options.role ?? 'djinnd_app'} -c timezone=UTC ` +
      `-c statement_timeout=${STATEMENT_TIMEOUT_MS} -c idle_in_transaction_session_timeout=60000`,
    // Beyond the server's own timeout: a server that is silently gone would otherwise be waited for until TCP gives up.
    query_timeout: STATEMENT_TIMEOUT_MS + 5_000,
  });
  pool.on('error', (error) => log.warn({ err: error }, 'an idle database connection was lost'));
  return pool;
}

/**
 * Runs `work` in one transaction (read committed) and returns its result; any throw rolls back. `lock` is an advisory
 * lock to take with it, in the same round trip.
 */
export async function inTransaction<T>(
  pool: Pool,
  work: (client: Client) => Promise<T>,
  lock?: { space: number; key: number },
): Promise<T> {
  const client = await pool.connect();
  let broken: Error | undefined;
  // Outside a query nothing else hears of a connection that is lost, and an `error` without a listener ends djinnd.
  const lost = (error: Error): void => {
    broken = error;
  };
  client.on('error', lost);
  try {
    const locked = lock === undefined ? '' : `; select pg_advisory_xact_lock(${lock.space}, ${lock.key})`;
    await client.query(`begin${locked}`);
    const result = await work(client);
    await client.query('commit');
    return result;
  } catch (error) {
    // The first error is the one to report; a connection that cannot roll back is thrown away.
    await client.query('rollback').catch((failed: Error) => {
      broken = failed;
    });
    throw error;
  } finally {
    client.release(broken); // the pool listens again from here on
    client.removeListener('error', lost);
  }
}

/** True when the error means that the database cannot be reached now, and not that a statement is wrong. */
export function isDatabaseAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = (error as Error & { code?: string }).code ?? '';
  return (
    /^(08...|57P0[1-5]|53300|ECONN(REFUSED|RESET|ABORTED)|ENOENT|EPIPE|ETIMEDOUT|E(HOST|NET)UNREACH|ENOTFOUND|EAI_AGAIN)$/.test(
      code,
    ) ||
    /Connection terminated|timeout exceeded when trying to connect|Query read timeout|Client has encountered a connection error|not queryable/i.test(
      error.message,
    )
  );
}
