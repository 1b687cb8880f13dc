// Checks a call's arguments against its tool's JSON schema. Only judges: arguments are never changed or completed.

/** The part of JSON schema that the tools use. */
export interface Schema {
  type: 'object' | 'string' | 'integer' | 'boolean' | 'array';
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: false;
  items?: Schema;
  minItems?: number;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
}

const HALF_SURROGATE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;

/** The first thing that is wrong with `value`, as a sentence that names the field, or null. */
export function findProblem(value: unknown, schema: Schema, name = 'arguments'): string | null {
  switch (schema.type) {
    case 'object':
      return objectProblem(value, schema, name);
    case 'array':
      return arrayProblem(value, schema, name);
    case 'string':
      return stringProblem(value, schema, name);
    case 'integer':
      return integerProblem(value, schema, name);
    case 'boolean':
      return typeof value === 'boolean' ? null : `${name} must be true or false`;
  }
}

function objectProblem(value: unknown, schema: Schema, name: string): string | null {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return `${name} must be an object`;
  const properties = schema.properties ?? {};
  const fields = value as Record<string, unknown>;
  const required = schema.required ?? [];
  for (const key of required) {
    if (!Object.hasOwn(fields, key)) return `${inside(name, key)} is missing: it is required`;
  }
  for (const [key, field] of Object.entries(fields)) {
    const property = Object.hasOwn(properties, key) ? properties[key] : undefined;
    if (property === undefined) {
      return `${inside(name, key)} is not known; allowed are ${Object.keys(properties).join(', ')}`;
    }
    // Many models send null for an optional field that they leave out.
    if (field === null && !required.includes(key)) continue;
    const problem = findProblem(field, property, inside(name, key));
    if (problem !== null) return problem;
  }
  return null;
}

function arrayProblem(value: unknown, schema: Schema, name: string): string | null {
  if (!Array.isArray(value)) return `${name} must be a list`;
  if (value.length < (schema.minItems ?? 0)) return `${name} must have at least ${schema.minItems} entries`;
  if (schema.items === undefined) return null;
  for (const [index, item] of value.entries()) {
    const problem = findProblem(item, schema.items, `${name}[${index}]`);
    if (problem !== null) return problem;
  }
  return null;
}

function stringProblem(value: unknown, schema: Schema, name: string): string | null {
  if (typeof value !== 'string') return `${name} must be a string`;
  if (value.length < (schema.minLength ?? 0)) return `${name} must not be empty`;
  const maxLength = schema.maxLength ?? Number.POSITIVE_INFINITY;
  if (value.length > maxLength) {
    return `${name} is too long: ${value.length} characters, allowed are ${maxLength}`;
  }
  // Half a pair has no UTF-8 form: it would be written and run as something else.
  if (HALF_SURROGATE.test(value)) return `${name} contains half a surrogate pair, which is not text`;
  return null;
}

function integerProblem(value: unknown, schema: Schema, name: string): string | null {
  if (typeof value !== 'number' || !Number.isSafeInteger(value)) return `${name} must be a whole number`;
  if (value < (schema.minimum ?? Number.NEGATIVE_INFINITY)) {
    return `${name} must be at least ${schema.minimum}, not ${value}`;
  }
  if (value > (schema.maximum ?? Number.POSITIVE_INFINITY)) {
    return `${name} must be at most ${schema.maximum}, not ${value}`;
  }
  return null;
}

const inside = (name: string, key: string): string =>
  name === 'arguments' ? key.slice(0, 64) : `${name}.${key}`;
