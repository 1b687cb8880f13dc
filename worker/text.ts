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

/** Replaces every given secret in the text. Secrets shorter than 6 characters are left: they match by chance. */
export function redact(text: string, secrets: readonly (string | undefined)[]): string {
  let result = text;
  for (const secret of secrets) {
    if (secret !== undefined && secret.length >= 6) result = result.split(secret).join('[redacted]');
  }
  return result;
}
