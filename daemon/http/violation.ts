// Says in words which member of a request broke its schema and what is expected there; values are never repeated.
import { maskSecrets } from '../log.ts';

/** The parts of an Ajv error that are used here. */
export interface Violation {
  keyword: string;
  instancePath: string;
  params: Record<string, unknown>;
  message?: string | undefined;
}

/** One sentence for the first violation. `part` is body, querystring, params or headers. */
export function describeViolation(part: string, violations: readonly Violation[], body: unknown): string {
  const first = violations[0];
  const where = part === 'body' ? 'The body' : part === 'querystring' ? 'The query' : 'The path';
  if (first === undefined) return `${where} is not valid.`;
  if (part === 'body' && (body === undefined || body === null) && first.instancePath === '') {
    return 'The body is missing. Send a JSON object with content-type application/json.';
  }
  const place = first.instancePath === '' ? where : `${where} at ${printable(first.instancePath)}`;
  switch (first.keyword) {
    case 'additionalProperties':
      return `${place} has the unknown member "${printable(String(first.params.additionalProperty))}". Remove it.`;
    case 'required':
      return `${place} lacks the member "${printable(String(first.params.missingProperty))}". Add it.`;
    case 'const':
    case 'anyOf':
      return `${place} ${choices(violations)}.`;
    default:
      return `${place} ${printable(first.message ?? 'is not valid')}.`;
  }
}

/** A union of literals fails once per literal: names them all. */
function choices(violations: readonly Violation[]): string {
  const path = violations[0]?.instancePath;
  const allowed = violations.filter(
    ({ keyword, instancePath }) => keyword === 'const' && instancePath === path,
  );
  if (allowed.length > 0) return `must be ${allowed.map(({ params }) => params.allowedValue).join(', ')}`;
  const types = violations.filter(({ keyword, instancePath }) => keyword === 'type' && instancePath === path);
  if (types.length > 0) return `must be ${types.map(({ params }) => params.type).join(' or ')}`;
  return 'has none of the allowed forms';
}

/** A key that was sent as a member's name is not repeated either. */
function printable(text: string): string {
  const masked = maskSecrets(text, []);
  const cut = masked.length > 100 ? `${masked.slice(0, 100)}…` : masked;
  return cut.replaceAll(/[^\x20-\x7e…]/g, '?');
}
