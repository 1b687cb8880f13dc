// `djinnd demo`: one job from start to end on a throw-away instance. stdout carries its event stream and nothing else.
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { Pool } from 'pg';
import type { Config, Env } from '../config.ts';
import { createKey, revokeKey } from '../db/api-keys.ts';
import { changeTenant, createTenant } from '../db/tenants.ts';
import { type EndLine, postJob } from '../demo/job.ts';
import { DEMO_PROMPT, SEEDED_FILE, startDemoModel, WANTED_VERSION } from '../demo/model.ts';
import { demoEnv, type Service, startService } from '../demo/service.ts';
import { howTo, keptUp } from '../demo/words.ts';
import { readAsTenant, workspaceDir } from '../demo/workspace.ts';
import { type CommandContext, CommandError, parseCommandArgs, stopSignal } from './command.ts';
import { withOperator } from './database.ts';
import { formatEnforcement } from './enforcement-table.ts';

export const help = `Runs one job from start to end on a throw-away instance: embedded database, spawner, daemon, a fake model.

Usage: npm run demo [-- --keep]
       djinnd demo [--keep]

The job is "${DEMO_PROMPT}"; its event stream is the only thing on stdout.
--keep leaves everything up and prints addresses and a key, until Ctrl-C.
With DJINN_API_KEY (and DJINN_API_BASE, DJINN_MODEL) set it asks that model instead of the fake one.
Exit codes: 0 the file really changed, 1 it did not or something failed, 2 wrong usage.
`;

const TENANT = 'demo';

export async function run(args: string[], context: CommandContext): Promise<number> {
  const { values } = parseCommandArgs(args, { keep: { type: 'boolean', default: false } });
  const stop = new AbortController();
  const stopped = stopSignal().then(() => stop.abort());
  const fake = context.env.DJINN_API_KEY ? null : await startDemoModel();
  let service: Service | null = null;
  try {
    const env: Env = await demoEnv({
      ...context.env,
      ...(fake === null ? {} : { DJINN_API_BASE: fake.baseUrl, DJINN_MODEL: 'demo-model' }),
    });
    context.note('starting database, spawner and daemon\n');
    service = await startService(env, stop.signal);
    const ended = service.ended.then((reason) => Promise.reject(new CommandError(reason)));
    const work = showJob({ ...context, env }, service, values.keep);
    const code = await Promise.race([work, ended, stopped.then(() => 1)]);
    if (!values.keep || code !== 0) return code;
    await Promise.race([stopped, ended]);
    return 0;
  } catch (error) {
    if (stop.signal.aborted) return 1;
    throw error instanceof CommandError ? error : new CommandError((error as Error).message);
  } finally {
    const code = await service?.close();
    if (code !== undefined && code !== 0)
      context.note(`djinnd start ended with ${code}: something may be left behind\n`);
    await fake?.stop();
  }
}

async function showJob(context: CommandContext, service: Service, keep: boolean): Promise<number> {
  const { config, url, enforcement } = service;
  context.note(`\n${formatEnforcement(enforcement)}`);
  if (process.getuid?.() !== 0)
    context.note(`not root: every tenant's job runs as this user, ${NOT_ISOLATED}\n`);
  const sessionId = `demo-${randomBytes(6).toString('hex')}`;
  const { keyId, secret } = await withOperator(context, (pool) => prepareTenant(pool));
  await seed(context, service, secret, sessionId);
  context.note(`\nPOST ${url}/v1/jobs  "${DEMO_PROMPT}"\n\n`);
  const end = await postJob(url, secret, { prompt: DEMO_PROMPT, sessionId }, (bytes) => context.write(bytes));
  const changed = await report(context, config, sessionId, end);
  context.note(howTo(config, url, keep ? secret : '$KEY'));
  if (keep) context.note(keptUp(config, url, secret));
  else {
    await withOperator(context, (pool) => revokeKey(pool, keyId));
    context.note(`(these need a running service: npm run demo -- --keep)\n`);
    context.note(
      `left on disk: ${service.config.stateDir} (workspaces, database)${process.getuid?.() === 0 ? ', and the system users of its tenants' : ''}\n`,
    );
  }
  return changed ? 0 : 1;
}

const NOT_ISOLATED = 'so tenants are kept apart by the sandbox alone';

async function prepareTenant(pool: Pool): Promise<{ keyId: string; secret: string }> {
  const tenant = await changeTenant(pool, TENANT, { wbbEngine: 'scripted' });
  if (tenant === null) await createTenant(pool, TENANT, { wbbEngine: 'scripted' });
  return createKey(pool, { role: 'caller', tenantIds: [TENANT], name: 'demo' });
}

/**
 * Nobody but the tenant writes into its workspace, so the file is put there by a job of its own: the first of the
 * session, on the scripted engine. Then the engine is switched, as an operator would.
 */
async function seed(
  context: CommandContext,
  service: Service,
  key: string,
  sessionId: string,
): Promise<void> {
  const argv = ['sh', '-c', 'cat > package.json'];
  const prompt = JSON.stringify({ steps: [{ exec: { argv, input: SEEDED_FILE } }] });
  const end = await postJob(service.url, key, { prompt, sessionId }, () => Promise.resolve());
  if (end.outcome !== 'ok')
    throw new CommandError(`package.json could not be put into the workspace: ${JSON.stringify(end)}`);
  context.note(
    '\npackage.json 0.1.0 was written by a first job of the same session (engine scripted, as the tenant)\n',
  );
  await withOperator(context, (pool) => changeTenant(pool, TENANT, { wbbEngine: 'djinn' }));
}

async function report(
  context: CommandContext,
  config: Config,
  sessionId: string,
  end: EndLine,
): Promise<boolean> {
  const dir = workspaceDir(config, TENANT, sessionId);
  const { user, owner, text } = await readAsTenant(config, TENANT, join(dir, 'package.json'));
  const version = /"version":\s*"([^"]*)"/.exec(text)?.[1];
  const changed = end.outcome === 'ok' && version === WANTED_VERSION && owner === user;
  context.note(
    `\nworkspace  ${dir}\n` +
      `result     outcome ${end.outcome}; package.json now says ${version}, owned by ${owner} (read as ${user})` +
      `${changed ? '' : '  <- NOT what was asked for'}\n`,
  );
  if (end.outcome !== 'ok') context.note(`cause      ${JSON.stringify(end.cause)}\n`);
  return changed;
}
