// Words to look for, in every form under which they could leak. What a search is given is disguised, so that the
// search never finds itself.
import { randomBytes } from 'node:crypto';

export interface Secret {
  name: string;
  value: string;
}

export interface Hit {
  name: string;
  form: string;
  place: string;
}

/** A value with characters that base64, URLs and JSON write differently. */
export function newSecret(name: string): Secret {
  const half = () => randomBytes(9).toString('hex');
  return { name, value: `Canary/${half()}+${half()}=` };
}

const known = new Map<string, Map<string, Buffer>>();

/** Every form, by its name. Base64 has three, by where in the encoded text the value begins. */
function formsOf(value: string): Map<string, Buffer> {
  const forms = known.get(value) ?? makeForms(value);
  known.set(value, forms);
  return forms;
}

function makeForms(value: string): Map<string, Buffer> {
  const bytes = Buffer.from(value);
  const forms = new Map<string, Buffer>([['plain', bytes]]);
  const add = (name: string, text: string): void => {
    if (![...forms.values()].some((form) => form.equals(Buffer.from(text))))
      forms.set(name, Buffer.from(text));
  };
  const percent = encodeURIComponent(value);
  const json = JSON.stringify(value).slice(1, -1);
  add('url', percent);
  add(
    'url in small letters',
    percent.replaceAll(/%../g, (code) => code.toLowerCase()),
  );
  add('json', json);
  add('json with slashes escaped', json.replaceAll('/', '\\/'));
  add('json with plus escaped', json.replaceAll('+', '\\u002B'));
  add('hex', bytes.toString('hex'));
  for (const shift of [0, 1, 2]) {
    const padded = Buffer.concat([Buffer.alloc(shift), bytes]);
    const text = padded.toString('base64').replaceAll('=', '');
    // The characters at both ends also depend on what stands beside the value.
    const inner = text.slice(shift === 0 ? 0 : shift + 1, padded.length % 3 === 0 ? undefined : -1);
    add(`base64 ${shift}`, inner);
    add(`base64url ${shift}`, inner.replaceAll('+', '-').replaceAll('/', '_'));
  }
  return forms;
}

/** Finds every secret in some bytes. */
export function findIn(content: Buffer | string, secrets: readonly Secret[], place: string): Hit[] {
  const bytes = typeof content === 'string' ? Buffer.from(content) : content;
  return secrets.flatMap(({ name, value }) =>
    [...formsOf(value)].filter(([, form]) => bytes.includes(form)).map(([form]) => ({ name, form, place })),
  );
}

/** The forms for a search inside a sandbox, none of them as it is. */
export function disguise(secrets: readonly Secret[]): { name: string; form: string; hex: string }[] {
  return secrets.flatMap(({ name, value }) =>
    [...formsOf(value)].map(([form, bytes]) => ({
      ...{ name, form },
      hex: Buffer.from(bytes.map((byte) => byte ^ 0xa5)).toString('hex'),
    })),
  );
}
