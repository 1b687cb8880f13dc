// Schemas of jobs: what a caller posts, what it gets back.
import { Type } from 'typebox';
import { Count, ENGINE_PATTERN, ID_PATTERN, JOB_ID_PATTERN, Next, PageQuery, Strict } from './common.ts';

/** pg-boss keeps an entry for 24 h at most, so a job has to be over before. */
const MOST_WALL_MS = 23 * 3_600_000;

export const Limits = Type.Object(
  {
    memoryBytes: Type.Optional(Count('Memory of the whole call, tools included.', 1)),
    pids: Type.Optional(Count('Processes and threads at a time.', 1)),
    cpuPercent: Type.Optional(Count('100 is one processor.', 1)),
    wallMs: Type.Optional(
      Type.Integer({ minimum: 1, maximum: MOST_WALL_MS, description: 'Time from start to end.' }),
    ),
    outputBytes: Type.Optional(Count('Bytes of events.', 1)),
    diskBytes: Type.Optional(Count('Bytes of temporary files.', 1)),
  },
  { ...Strict, description: "Each is at most the tenant's own; absent ones are the tenant's." },
);

const Image = Type.Object(
  {
    mediaType: Type.Union([
      Type.Literal('image/png'),
      Type.Literal('image/jpeg'),
      Type.Literal('image/gif'),
      Type.Literal('image/webp'),
    ]),
    data: Type.String({ minLength: 4, pattern: '^[A-Za-z0-9+/]+={0,2}$', description: 'Base64.' }),
  },
  Strict,
);

const ToolNames = Type.Array(Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$' }), { maxItems: 64 });

export const JobBody = Type.Object(
  {
    prompt: Type.String({ minLength: 1, description: 'What the agent is to do.' }),
    images: Type.Optional(Type.Array(Image, { maxItems: 20 })),
    sessionId: Type.Optional(
      Type.String({
        pattern: ID_PATTERN,
        description: 'Goes on with this session; an unknown one is created.',
      }),
    ),
    systemPrompt: Type.Optional(Type.String({ minLength: 1 })),
    model: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 128,
        pattern: '^[\\x21-\\x7e]+$',
        description: 'One of those allowed.',
      }),
    ),
    tools: Type.Optional(
      Type.Object(
        { allow: Type.Optional(ToolNames), deny: Type.Optional(ToolNames) },
        {
          ...Strict,
          description: '`allow` keeps only these, `deny` removes; both together: allowed and not denied.',
        },
      ),
    ),
    sandboxMode: Type.Optional(
      Type.Union([Type.Literal('workspace-write'), Type.Literal('read-only')], {
        description: 'Whether the tools may change the workspace.',
      }),
    ),
    limits: Type.Optional(Limits),
    cancelOnDisconnect: Type.Optional(
      Type.Boolean({
        description:
          'Cancels the job when the stream of this very request is cut. Without effect on `respond-async`.',
      }),
    ),
    metadata: Type.Optional(
      Type.Record(Type.String({ maxLength: 128 }), Type.Unknown(), {
        maxProperties: 64,
        description: "The caller's own, given back with the job and in lists; at most 16 KiB as JSON.",
      }),
    ),
    tenantId: Type.Optional(
      Type.String({
        pattern: ID_PATTERN,
        description: 'Platform keys must name one of theirs; other keys must not.',
      }),
    ),
  },
  Strict,
);

export const JobState = Type.Union([
  Type.Literal('queued'),
  Type.Literal('starting'),
  Type.Literal('running'),
  Type.Literal('ended'),
]);

export const Outcome = Type.Union(
  [
    Type.Literal('ok'),
    Type.Literal('failed'),
    Type.Literal('cancelled'),
    Type.Literal('timeout'),
    Type.Literal('oom'),
    Type.Literal('output_limit'),
    Type.Literal('budget'),
    Type.Literal('spawn_failed'),
    Type.Literal('lost'),
  ],
  { description: 'The first cause wins.' },
);

/** An object whose members grow over time: described here, passed on as it is stored. */
const Members = (description: string) =>
  Type.Unsafe<unknown>({ type: 'object', additionalProperties: true, description });

export const JobView = Type.Object({
  jobId: Type.String({ pattern: JOB_ID_PATTERN }),
  tenantId: Type.String({ pattern: ID_PATTERN }),
  sessionId: Type.String({ pattern: ID_PATTERN }),
  state: JobState,
  outcome: Type.Optional(Outcome),
  engine: Type.Optional(
    Type.String({ pattern: ENGINE_PATTERN, description: 'Stamped when the job was claimed.' }),
  ),
  attempt: Type.Integer({ minimum: 0, description: '0 while it is queued.' }),
  createdAt: Type.String({ format: 'date-time' }),
  startedAt: Type.Optional(Type.String({ format: 'date-time' })),
  endedAt: Type.Optional(Type.String({ format: 'date-time' })),
  cause: Type.Optional(
    Members('`code` and `message` of what ended the job; `stage` and `errno` of a failed start.'),
  ),
  exit: Type.Optional(
    Type.Unsafe<unknown>({
      type: ['object', 'null'],
      properties: { code: { type: ['integer', 'null'] }, signal: { type: ['string', 'null'] } },
      description: 'How the program ended; null when it never ran.',
    }),
  ),
  evidence: Type.Optional(Members('What the kernel counted, such as `oomKills`.')),
  resources: Type.Optional(Members('What the job used.')),
  enforcement: Type.Optional(Members('`full`, `partial` or `none` for each control.')),
  metadata: Type.Optional(Members("The caller's own.")),
});

export const JobList = Type.Object({ jobs: Type.Array(JobView), next: Next });

export const JobListQuery = Type.Object(
  {
    ...PageQuery,
    state: Type.Optional(JobState),
    tenantId: Type.Optional(
      Type.String({
        pattern: ID_PATTERN,
        description: 'Platform and operator keys may narrow the list to one tenant.',
      }),
    ),
  },
  Strict,
);

export const EventsQuery = Type.Object(
  {
    after: Type.Optional(
      Type.String({ maxLength: 32, description: 'Cursor `<attempt>-<seq>` of the last line already read.' }),
    ),
    follow: Type.Optional(
      Type.Boolean({
        default: false,
        description: 'Stays open until the `end` line; else stops at the present.',
      }),
    ),
  },
  Strict,
);

/** One line of a stream, for the document only: lines are passed on as the bytes they are. */
export const EventLine = Type.Object(
  {
    seq: Type.Optional(Type.Integer({ minimum: 0, description: 'Counts from 1 within the attempt.' })),
    ts: Type.Optional(Type.String({ format: 'date-time' })),
    jobId: Type.Optional(Type.String()),
    attempt: Type.Optional(Type.Integer({ minimum: 0 })),
    type: Type.String({
      description:
        'job, session, token, tool_call, tool_result, fallback, compact, done, error, resources, end; ' +
        'heartbeat on a quiet stream. Ignore types that you do not know.',
    }),
  },
  { additionalProperties: true, description: 'The cursor of a line is `<attempt>-<seq>`.' },
);
