// The one body parser: strict UTF-8, strict JSON, no prototype keys. Never repeats a piece of the body in an error.
import type { FastifyRequest } from 'fastify';
import { Problem } from '../errors.ts';
import type { App } from './fastify-types.ts';

type Done = (error: Error | null, body?: unknown) => void;

/** Replaces fastify's parsers; a media type other than application/json is then answered 415. */
export function useJsonBodies(app: App): void {
  const parse = app.getDefaultJsonParser('error', 'error');
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    parseJson(parse as Parse, request, body as Buffer, done);
  });
}

type Parse = (request: FastifyRequest, text: string, done: Done) => void;

function parseJson(parse: Parse, request: FastifyRequest, body: Buffer, done: Done): void {
  if (body.length === 0) {
    done(null, undefined);
    return;
  }
  const encoding = request.headers['content-encoding'] ?? 'identity';
  if (encoding.toLowerCase() !== 'identity') {
    done(new Problem('DJ_MEDIA_TYPE', 'Send the body without Content-Encoding.'));
    return;
  }
  const charset = /;\s*charset\s*=\s*"?([^";\s]+)/i.exec(request.headers['content-type'] ?? '')?.[1];
  if (charset !== undefined && !/^utf-?8$/i.test(charset)) {
    done(new Problem('DJ_MEDIA_TYPE', 'Send JSON in UTF-8.'));
    return;
  }
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(body);
  } catch {
    done(new Problem('DJ_BODY_INVALID', 'The body is not valid UTF-8.'));
    return;
  }
  parse(request, text, (error, value) => {
    if (error === null || error === undefined) done(null, value);
    else done(new Problem('DJ_BODY_INVALID', invalidJson(text)));
  });
}

function invalidJson(text: string): string {
  try {
    JSON.parse(text);
  } catch (error) {
    const position = /at position (\d+)/.exec(String(error))?.[1];
    const place = position === undefined ? '' : ` (at character ${position})`;
    return `The body is not valid JSON${place}.`;
  }
  return 'The body has a member named "__proto__" or "constructor.prototype". Remove it.';
}
