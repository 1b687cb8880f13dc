// Requests of a tenant that the daemon refuses, with the caller's key in every place where a program may put it.

const authorization = (key: string) => ({ authorization: `Bearer ${key}` });

export function refusedRequests(key: string): [path: string, request: RequestInit][] {
  const base64 = Buffer.from(`me:${key}`).toString('base64');
  const json = { ...authorization(key), 'content-type': 'application/json' };
  const post = (body: string, headers: Record<string, string> = json) => ({ method: 'POST', body, headers });
  return [
    ['/v1/jobs', { headers: authorization(`${key}x`) }],
    ['/v1/jobs', { headers: { authorization: `Basic ${base64}` } }],
    ['/v1/jobs', { headers: { authorization: key } }],
    ['/v1/jobs/job_unknown', { headers: json }],
    ['/v1/jobs?limit=no', { headers: json }],
    [`/v1/jobs?token=${key}`, { headers: json }],
    [`/v1/jobs/${key}`, { headers: json }],
    [`/${key}`, {}],
    [`/v1/jobs/${key}/cancel`, post('{}')],
    ['/v1/jobs', post(JSON.stringify({ prompt: 'x', [key]: 1 }))],
    ['/v1/jobs', post(JSON.stringify({ prompt: 'x', sessionId: key.repeat(3) }))],
    ['/nowhere', { headers: json }],
    ['/v1/jobs', post('{"prompt":')],
    ['/v1/jobs', post('{"prompt":1,"surprise":2}')],
    ['/v1/jobs', post(JSON.stringify({ prompt: 'x', tenantId: 'another' }))],
    ['/v1/jobs', post(JSON.stringify({ prompt: 'x', sessionId: '../../etc/passwd' }))],
    ['/v1/jobs', post(JSON.stringify({ prompt: 'x', model: 'nonsense', limits: { pids: -1 } }))],
    ['/v1/jobs', post('x', { ...json, 'content-type': 'text/plain' })],
    ['/v1/jobs', post('x'.repeat(1024), { ...json, 'content-encoding': 'gzip' })],
    ['/v1/jobs', { method: 'DELETE', headers: json }],
  ];
}
