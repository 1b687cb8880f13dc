// Schemas that several routes share: ids, pages, problems. Each is check, type and OpenAPI at once.
import { type Static, type TSchema, Type } from 'typebox';

export const ID_PATTERN = '^[A-Za-z0-9_-]{1,64}$';
export const JOB_ID_PATTERN = '^job_[A-Za-z0-9_-]{1,64}$';
export const ENGINE_PATTERN = '^[a-z][a-z0-9-]{0,31}$';
export const CURSOR_PATTERN = '^[0-9]{1,9}-[0-9]{1,15}$';

export const Strict = { additionalProperties: false } as const;

export const Count = (description: string, least = 0) =>
  Type.Integer({ minimum: least, maximum: Number.MAX_SAFE_INTEGER, description });

export const Nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

/** RFC 9457, with a stable `code`. Other members are added where a code has more to say. */
export const ProblemDocument = Type.Object(
  {
    type: Type.String({ description: 'Names the kind of problem; the same for each `code`.' }),
    title: Type.String(),
    status: Type.Integer(),
    code: Type.String({ description: 'Stable, such as `DJ_NOT_FOUND`.' }),
    detail: Type.String({ description: 'Which member is wrong and what to do.' }),
    requestId: Type.String({ description: 'Also in the `X-Request-Id` header and in the log.' }),
  },
  { $id: 'Problem', additionalProperties: true },
);

/** The response of a route's refusals, by status. */
export function refusals(...statuses: number[]): Record<number, object> {
  const entry = (status: number) => [
    status,
    {
      description: REASONS[status] ?? 'Refused',
      content: { 'application/problem+json': { schema: { $ref: 'Problem#' } } },
    },
  ];
  return Object.fromEntries(statuses.map(entry));
}

const REASONS: Record<number, string> = {
  400: 'Something about the request is not valid',
  401: 'No valid key',
  402: "The tenant's monthly budget is spent",
  403: 'This key may not do that',
  404: 'No such thing, or not yours',
  409: 'Conflicts with the present state',
  410: 'The history before the first kept cursor is gone; `firstCursor` names it',
  413: 'The body is too large',
  415: 'The content type is not supported',
  422: 'Understood, but not possible',
  429: 'Too much at once; see `Retry-After`',
  503: 'Not ready, stopping, or the limits cannot be enforced here',
};

export const PageQuery = {
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 200, default: 50, description: 'Entries per page.' }),
  ),
  cursor: Type.Optional(
    Type.String({ minLength: 1, maxLength: 256, description: '`next` of the page before.' }),
  ),
};

export const Next = Nullable(Type.String({ description: 'Cursor of the next page; null on the last one.' }));

export type Problem = Static<typeof ProblemDocument>;
