// The version of the package, put in by the build.
declare const DJINN_VERSION: string | undefined;

export const version: string = typeof DJINN_VERSION === 'undefined' ? 'source' : DJINN_VERSION;
