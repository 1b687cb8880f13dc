-- API keys, sessions and their records, jobs, event segments, token usage.
-- JSON that a caller or a tenant wrote is json, not jsonb: jsonb refuses \u0000 and lone surrogates.

create table public.api_keys (
  key_id text primary key check (key_id ~ '^key_[A-Za-z0-9_-]{1,64}$'),
  -- sha256 of the secret; the secret itself is shown once and kept nowhere.
  secret_sha256 bytea not null unique check (octet_length(secret_sha256) = 32),
  role text not null check (role in ('caller', 'tenant_admin', 'platform', 'operator')),
  name text not null default '' check (length(name) <= 200),
  created_at timestamptz not null default now(),
  revoked_at timestamptz
);

create table public.api_key_tenants (
  key_id text not null references public.api_keys (key_id) on delete cascade,
  tenant_id text not null references public.tenants (id) on delete cascade,
  primary key (key_id, tenant_id)
);
create index api_key_tenants_tenant on public.api_key_tenants (tenant_id);

create table public.sessions (
  tenant_id text not null references public.tenants (id),
  session_id text not null check (session_id ~ '^[A-Za-z0-9_-]{1,64}$'),
  created_at timestamptz not null default now(),
  last_job_at timestamptz not null default now(),
  -- How far the session's file has been shipped: last record's seq, and the byte after it.
  shipped_seq bigint not null default 0,
  shipped_bytes bigint not null default 0,
  primary key (tenant_id, session_id)
);

create table public.session_records (
  tenant_id text not null,
  session_id text not null,
  seq bigint not null,
  -- The record's line without its LF, byte for byte.
  line bytea not null,
  primary key (tenant_id, session_id, seq),
  foreign key (tenant_id, session_id) references public.sessions (tenant_id, session_id) on delete cascade
);

create table public.jobs (
  job_id text primary key check (job_id ~ '^job_[A-Za-z0-9_-]{1,64}$'),
  -- Order of arrival; the list's cursor.
  ordinal bigint generated always as identity unique,
  tenant_id text not null references public.tenants (id),
  session_id text not null,
  state text not null default 'queued' check (state in ('queued', 'starting', 'running', 'ended')),
  outcome text check (outcome in
    ('ok', 'failed', 'cancelled', 'timeout', 'oom', 'output_limit', 'budget', 'spawn_failed', 'lost')),
  engine text,
  attempt integer not null default 0,
  -- The machine that runs or ran it.
  node text,
  queue_id uuid not null unique,
  idempotency_key text check (length(idempotency_key) between 1 and 255),
  body_sha256 bytea not null check (octet_length(body_sha256) = 32),
  payload json not null,
  -- The model that was asked for; null: the daemon's own.
  model text,
  requested_limits json not null,
  -- Limits, totals and network as they stood at the claim; every attempt runs under these.
  granted json,
  metadata json,
  cancel_cause text check (cancel_cause in ('cancelled', 'budget')),
  cause json,
  exit json,
  evidence json,
  resources json,
  enforcement json,
  -- The last line, LF included, of a job that ended before the spawner had accepted its attempt.
  end_line bytea,
  created_at timestamptz not null default date_trunc('milliseconds', clock_timestamp()),
  claimed_at timestamptz,
  started_at timestamptz,
  ended_at timestamptz,
  unique (tenant_id, idempotency_key),
  foreign key (tenant_id, session_id) references public.sessions (tenant_id, session_id),
  constraint jobs_ended_has_outcome check ((state = 'ended') = (outcome is not null)),
  constraint jobs_ended_has_time check ((state = 'ended') = (ended_at is not null)),
  constraint jobs_claimed_has_engine check (state not in ('starting', 'running') or engine is not null)
);
create index jobs_newest on public.jobs (tenant_id, ordinal desc);
create index jobs_session on public.jobs (tenant_id, session_id, ordinal);
create index jobs_queued on public.jobs (tenant_id) where state = 'queued';
create index jobs_live on public.jobs (tenant_id) where state in ('starting', 'running');

create table public.event_segments (
  job_id text not null references public.jobs (job_id) on delete cascade,
  attempt integer not null,
  first_seq bigint not null,
  last_seq bigint not null check (last_seq >= first_seq),
  raw_bytes integer not null,
  -- Whole LF-terminated lines as they are in the spool, zstd.
  data bytea not null,
  primary key (job_id, attempt, first_seq)
);
-- Already compressed: a second try costs time and gains nothing.
alter table public.event_segments alter column data set storage external;

create table public.token_usage (
  tenant_id text not null references public.tenants (id),
  -- First day of the calendar month, UTC.
  month date not null,
  input_tokens bigint not null default 0,
  output_tokens bigint not null default 0,
  total_tokens bigint not null default 0,
  primary key (tenant_id, month)
);

grant select, insert, update, delete on
  public.api_keys, public.api_key_tenants, public.sessions, public.session_records, public.jobs,
  public.event_segments, public.token_usage
  to djinnd_app;
grant select, insert, update, delete on public.api_keys, public.api_key_tenants to djinnd_operator;
grant select on
  public.sessions, public.session_records, public.jobs, public.event_segments, public.token_usage
  to djinnd_operator;
