// The job as the program reads it on stdin: djinnd's payload and what only the spawner knows. Pure.
import { type Job, PROTOCOL_VERSION } from '../../worker/protocol.ts';
import type { JobPayload, StartParams } from './wire.ts';

/** Inside the sandbox: the socket that djinnd listens on for this job. */
const GATEWAY_URL = 'unix:/run/djinn/gw/model.sock:/v1';
const TOOLS_CGROUP = { procs: '/run/djinn/cgroup/tools.procs', events: '/run/djinn/cgroup/tools.events' };

export interface JobSurroundings {
  resumed: boolean;
  workspace: 'existing' | 'new';
  /** Paths of this job's program; null without cgroups. */
  toolsCgroup: { procs: string; events: string } | null;
  cwd: string;
}

/** In a sandbox everything has its fixed place. */
export function insideSandbox(hasCall: boolean): Pick<JobSurroundings, 'toolsCgroup' | 'cwd'> {
  return { toolsCgroup: hasCall ? TOOLS_CGROUP : null, cwd: '/workspace' };
}

/** One line, LF included. */
export function jobLine(
  params: Omit<StartParams, 'payload'>,
  payload: JobPayload,
  around: JobSurroundings,
): string {
  const job: Job = {
    v: PROTOCOL_VERSION,
    jobId: params.jobId,
    attempt: params.attempt,
    sessionId: params.sessionId,
    engine: params.engine,
    prompt: payload.prompt,
    ...(payload.images === undefined ? {} : { images: payload.images as NonNullable<Job['images']> }),
    ...(payload.systemPrompt === undefined ? {} : { systemPrompt: payload.systemPrompt }),
    models: payload.models.map((model) => ({ ...model, baseUrl: GATEWAY_URL, gateway: true })),
    ...(payload.tools === undefined ? {} : { tools: payload.tools }),
    ...(payload.sandboxMode === undefined ? {} : { sandboxMode: payload.sandboxMode }),
    cwd: around.cwd,
    session: { provider: 'fd' },
    resumed: around.resumed,
    workspace: around.workspace,
    ...(around.toolsCgroup === null ? {} : { toolsCgroup: around.toolsCgroup }),
  };
  return `${JSON.stringify(job)}\n`;
}
