// Text that is safe to store and send: well-formed UTF-16 and bounded excerpts. Pure.

const LONE_SURROGATE = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g;

/** Replaces every lone surrogate by U+FFFD (Node 18 has no `String.prototype.toWellFormed`). */
export function wellFormed(text: string): string {
  return text.replace(LONE_SURROGATE, '\uFFFD');
}

/** True when the text ends in the first half of a surrogate pair whose second half may still come. */
export function endsInHighSurrogate(text: string): boolean {
  const last = text.charCodeAt(text.length - 1);
  return last >= 0xd800 && last <= 0xdbff;
}

/** At most `limit` UTF-16 units of the text, never half a character, with the number of dropped units named. */
export function excerpt(text: string, limit: number): string {
  if (text.length <= limit) return wellFormed(text);
  return `${wellFormed(text.slice(0, limit))}… (${text.length - limit} more)`;
}

/** At most `limit` UTF-8 bytes of the text, never half a character. */
export function excerptBytes(text: string, limit: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= limit) return wellFormed(text);
  let end = limit;
  while (end > 0 && ((bytes[end] as number) & 0xc0) === 0x80) end -= 1;
  return `${bytes.toString('utf8', 0, end)}…`;
}

/** The forms in which a server may echo a secret. */
function secretForms(secret: string): string[] {
  const base64 = Buffer.from(secret).toString('base64');
  return [
    secret,
    encodeURIComponent(secret),
    base64,
    base64.replace(/=+$/, ''),
    JSON.stringify(secret).slice(1, -1),
  ];
}

/** Replaces every given secret in the text. Secrets shorter than 6 characters are left: they match by chance. */
export function redact(text: string, secrets: readonly (string | undefined)[]): string {
  let result = text;
  for (const secret of secrets) {
    if (secret === undefined || secret.length < 6) continue;
    for (const form of secretForms(secret)) result = result.split(form).join('[redacted]');
  }
  return result;
}
