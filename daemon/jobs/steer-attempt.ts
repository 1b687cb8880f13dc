// Looks after an accepted attempt: listens for its model requests, says `go`, passes a cancel on; all of it again
// whenever the spawner's connection is new. The end of the attempt is seen by the reader of its spool, not here.
import { SpawnerError } from '../spawner/client.ts';
import type { Accepted, RunDeps, RunHandle } from './run-deps.ts';

const IDLE_MS = 60_000;
const FIRST_RETRY_MS = 100;
const LONGEST_RETRY_MS = 2_000;
/** A job whose gateway cannot listen would wait for ever: it is ended instead. */
const GATEWAY_TRIES = 8;

/** What the spawner has heard on the connection of this number. */
interface Told {
  losses: number;
  go: boolean;
  cancel: boolean;
  gatewayFailures: number;
}

/** Returns when `ended` is aborted. Never rejects. */
export async function steerAttempt(
  deps: RunDeps,
  run: RunHandle,
  { gatewayDir }: Accepted,
  ended: AbortSignal,
): Promise<void> {
  if (gatewayDir === null) return;
  const { spawner, log } = deps;
  const told: Told = { losses: run.losses, go: false, cancel: false, gatewayFailures: 0 };
  for (let failures = 0; !ended.aborted; ) {
    if (told.losses !== run.losses) Object.assign(told, { losses: run.losses, go: false, cancel: false });
    try {
      if (spawner.connected) await tell(deps, run, gatewayDir, told);
      failures = 0;
    } catch (error) {
      if (ended.aborted) break;
      log.warn({ err: error, jobId: run.row.jobId }, 'an attempt could not be steered; tried again');
      failures += 1;
    }
    const waitMs =
      failures === 0 ? IDLE_MS : Math.min(FIRST_RETRY_MS * 2 ** (failures - 1), LONGEST_RETRY_MS);
    await run.poked(waitMs, ended);
  }
}

/** Tells what the spawner has not heard on this connection. */
async function tell(
  { spawner, gateway, model, log }: RunDeps,
  run: RunHandle,
  gatewayDir: string,
  told: Told,
) {
  const { jobId, attempt, tenantId, cancelCause } = run.row;
  if (cancelCause !== null) {
    if (!told.cancel) await spawner.call('cancel', { jobId, attempt, cause: cancelCause });
    told.cancel = true;
    return;
  }
  if (told.go) return;
  try {
    await gateway.open({ jobId, attempt, tenantId, gatewayDir, models: [run.row.model ?? model.name] });
  } catch (error) {
    told.gatewayFailures += 1;
    if (told.gatewayFailures < GATEWAY_TRIES) throw error;
    log.error({ err: error, jobId }, 'the model gateway cannot listen for a job; the job is ended');
    await spawner.call('cancel', { jobId, attempt, cause: 'gateway' });
    told.go = true;
    return;
  }
  try {
    await spawner.call('go', { jobId, attempt });
  } catch (error) {
    if (!(error instanceof SpawnerError)) throw error;
    // It has ended meanwhile, which its spool says.
    log.debug({ err: error, jobId }, 'go was refused');
  }
  told.go = true;
}
