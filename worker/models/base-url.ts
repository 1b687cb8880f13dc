// Where a model's base URL leads. Pure; loads no network module.

/** A base URL that cannot be used. */
export class BaseUrlError extends Error {}

export interface Target {
  tls: boolean;
  /** Options for `http.request` that say where to connect. */
  connect: { socketPath: string } | { host: string; port: number };
  hostHeader: string;
  /** Path in front of `/chat/completions`. */
  prefix: string;
  /** Query behind it with its question mark (Azure's `?api-version=…`), or nothing. */
  query: string;
}

/** Reads `https://host/v1?query`, `http://host:port/v1` or `unix:/path.sock:/v1`. Throws a BaseUrlError that names the form. */
export function parseBaseUrl(baseUrl: string): Target {
  if (baseUrl.startsWith('unix:')) {
    const rest = baseUrl.slice('unix:'.length);
    const colon = rest.lastIndexOf(':');
    const socketPath = colon === -1 ? rest : rest.slice(0, colon);
    const prefix = colon === -1 ? '' : rest.slice(colon + 1);
    if (!socketPath.startsWith('/') || (prefix !== '' && !prefix.startsWith('/'))) {
      throw new BaseUrlError(`not a model URL: ${baseUrl} (expected unix:/path.sock:/v1)`);
    }
    return {
      tls: false,
      connect: { socketPath },
      hostHeader: 'localhost',
      prefix: prefix.replace(/\/+$/, ''),
      query: '',
    };
  }
  let url: URL;
  try {
    url = new URL(baseUrl);
  } catch {
    throw new BaseUrlError(`not a model URL: ${baseUrl} (expected https://host/v1)`);
  }
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw new BaseUrlError(`not a model URL: ${baseUrl} (expected https, http or unix)`);
  }
  if (url.username !== '' || url.password !== '') {
    throw new BaseUrlError(
      `not a model URL: ${url.origin} with a user name or password; use the key instead`,
    );
  }
  const tls = url.protocol === 'https:';
  const port = url.port === '' ? (tls ? 443 : 80) : Number(url.port);
  return {
    tls,
    connect: { host: url.hostname.replace(/^\[|\]$/g, ''), port },
    hostHeader: url.host,
    prefix: url.pathname.replace(/\/+$/, ''),
    query: url.search,
  };
}
