// Reads query strings by their schema: "true" and "false" only for booleans, plain digits only for integers,
// one value per name. Nothing is coerced behind the caller's back.
import type { FastifyRequest } from 'fastify';
import type { TObject } from 'typebox';
import { Problem } from '../errors.ts';

/** Replaces `request.query` by typed values, before the schema is checked. Throws Problem DJ_QUERY_INVALID. */
export function parseQuery(request: FastifyRequest): void {
  const schema = request.routeOptions.schema?.querystring as TObject | undefined;
  if (schema === undefined) {
    refuseQuery(request);
    return;
  }
  const parsed: Record<string, unknown> = Object.create(null);
  for (const [name, value] of Object.entries(request.query as Record<string, unknown>)) {
    if (typeof value !== 'string')
      throw new Problem('DJ_QUERY_INVALID', 'A query member is given twice. Give it once.');
    parsed[name] = parseValue(name, value, typeOf(schema, name));
  }
  request.query = parsed;
}

/** A query that nobody reads would look as if it had been obeyed. */
function refuseQuery(request: FastifyRequest): void {
  const ignored =
    Object.keys(request.query as object).length > 0 && request.routeOptions.config.roles !== undefined;
  if (ignored) throw new Problem('DJ_QUERY_INVALID', 'This address takes no query. Remove it.');
}

function typeOf(schema: TObject, name: string): string | undefined {
  if (!Object.hasOwn(schema.properties, name)) return undefined;
  return (schema.properties as Record<string, { type?: string }>)[name]?.type;
}

function parseValue(name: string, value: string, type: string | undefined): unknown {
  if (type === 'boolean') {
    if (value === 'true') return true;
    if (value === 'false') return false;
    throw new Problem('DJ_QUERY_INVALID', `The query member "${name}" must be true or false.`);
  }
  if (type === 'integer') {
    if (/^(0|[1-9]\d{0,14})$/.test(value)) return Number(value);
    throw new Problem('DJ_QUERY_INVALID', `The query member "${name}" must be a whole number.`);
  }
  return value;
}
