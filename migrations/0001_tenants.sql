-- Engines, tenants with their contract columns, and the audit log that records every change of them.
-- Runs as djinnd_owner. The roles djinnd_app and djinnd_operator exist before the first migration.

create table public.engines (
  name text primary key check (name ~ '^[a-z][a-z0-9-]{0,31}$'),
  created_at timestamptz not null default now()
);
insert into public.engines (name) values ('djinn');

create table public.tenants (
  id text primary key check (id ~ '^[A-Za-z0-9_-]{1,64}$'),
  wbb_engine text not null default 'djinn' references public.engines (name),
  memory_bytes bigint not null default 1073741824 check (memory_bytes between 16777216 and 1099511627776),
  pids integer not null default 512 check (pids between 8 and 1000000),
  cpu_percent integer not null default 100 check (cpu_percent between 1 and 100000),
  -- A queue entry expires after 24 h, so that a job must be over before.
  wall_ms bigint not null default 1800000 check (wall_ms between 1000 and 82800000),
  output_bytes bigint not null default 268435456 check (output_bytes between 65536 and 1099511627776),
  disk_bytes bigint not null default 1073741824 check (disk_bytes between 1048576 and 1099511627776),
  -- 0 pauses the tenant: its jobs wait.
  max_running integer not null default 4 check (max_running between 0 and 10000),
  max_queued integer not null default 1000 check (max_queued between 0 and 1000000),
  -- Tokens per calendar month (UTC); null is no cap.
  monthly_tokens bigint check (monthly_tokens between 0 and 1000000000000000),
  network text not null default 'none'
    constraint tenants_network_is_none_or_host check (network in ('none', 'host')),
  -- Totals of the tenant's slice over all its jobs; null is no total of its own.
  total_memory_bytes bigint check (total_memory_bytes between 16777216 and 17592186044416),
  total_pids integer check (total_pids between 8 and 4194304),
  total_cpu_percent integer check (total_cpu_percent between 1 and 1000000),
  created_at timestamptz not null default now()
);
comment on column public.tenants.network is 'none or host; lists of allowed hosts do not exist yet';

-- No foreign key to tenants: what happened stays readable after a tenant is gone.
create table public.audit_log (
  id bigint generated always as identity primary key,
  at timestamptz not null default clock_timestamp(),
  -- The login, and the role it acted as (the same unless SET ROLE was used).
  login text not null default session_user,
  acting_role text not null default current_user,
  tenant_id text not null,
  action text not null check (action ~ '^[a-z][a-z_.]{0,63}$'),
  -- Null for a row made or removed as a whole.
  column_name text,
  old_value jsonb,
  new_value jsonb
);
create index audit_log_tenant on public.audit_log (tenant_id, id);

-- Runs as the owner, so that nobody who may update tenants needs (or has) a right to write the log by hand.
-- Every column is compared, also those that later migrations add.
create function public.audit_tenants() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  before jsonb := case when tg_op = 'INSERT' then '{}'::jsonb else to_jsonb(old) end;
  after jsonb := case when tg_op = 'DELETE' then '{}'::jsonb else to_jsonb(new) end;
  tenant text := case when tg_op = 'DELETE' then old.id else new.id end;
  -- Inside a security definer function current_user is the owner; the role setting is still the caller's.
  acting text := coalesce(nullif(current_setting('role', true), 'none'), session_user);
begin
  if tg_op = 'UPDATE' then
    insert into public.audit_log (login, acting_role, tenant_id, action, column_name, old_value, new_value)
    select session_user, acting, tenant, 'update', a.key, before -> a.key, a.value
      from jsonb_each(after) a where a.value is distinct from before -> a.key;
  else
    insert into public.audit_log (login, acting_role, tenant_id, action, old_value, new_value)
    values (session_user, acting, tenant, lower(tg_op), nullif(before, '{}'), nullif(after, '{}'));
  end if;
  -- A hint that wakes the daemons; nothing depends on its arrival.
  perform pg_notify('djinnd_tenants', tenant);
  return null;
end $$;
revoke all on function public.audit_tenants() from public;

create trigger tenants_audit after insert or update or delete on public.tenants
  for each row execute function public.audit_tenants();

grant select, insert on public.engines to djinnd_app;
grant select, insert, update, delete on public.engines to djinnd_operator;
grant select, insert, update on public.tenants to djinnd_app;
grant select, insert, update, delete on public.tenants to djinnd_operator;
grant select on public.audit_log to djinnd_app, djinnd_operator;
-- The daemon may add entries of other kinds, but never choose their time or author.
grant insert (tenant_id, action, column_name, old_value, new_value) on public.audit_log to djinnd_app;
