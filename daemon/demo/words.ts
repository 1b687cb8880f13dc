// What the demo says on stderr. Text only.
import type { Config } from '../config.ts';
import { places } from '../parent/directories.ts';
import { DEMO_PROMPT } from './model.ts';

/** How to go on from here: engine switch in SQL, psql, curl. `key` is shown only while the service stays up. */
export function howTo(config: Config, url: string, key: string): string {
  const djinnd = config.instance === '' ? 'bin/djinnd' : `bin/djinnd --instance ${config.instance}`;
  return `
switch the engine, in force for the next job:
  ${djinnd} sql "UPDATE tenants SET wbb_engine='scripted' WHERE id='demo'"
the same with psql:
  psql -h ${places(config).databaseSocket} -U djinnd_operator djinnd -c "UPDATE tenants SET wbb_engine='scripted' WHERE id='demo'"
post a job and read its events:
  curl -N -H "Authorization: Bearer ${key}" -H 'Content-Type: application/json' \\
    -d '{"prompt":"${DEMO_PROMPT}"}' ${url}/v1/jobs
`;
}

export function keptUp(config: Config, url: string, key: string): string {
  const { host, port } = config.metricsListen;
  return `
it stays up until you press Ctrl-C
  API       ${url}
  docs      ${url}/docs
  metrics   http://${host}:${port}/metrics
  key       ${key}   (tenant demo)
`;
}
