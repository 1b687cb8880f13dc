// The advisory locks of the jobs side: first keys of the two-key form, fixed for good.

/** With the hash of a tenant's id: admissions of that tenant. */
export const TENANT_LOCK = 0x646a_0001;
/** With 0: claims, of all machines. */
export const CLAIM_LOCK = 0x646a_0002;
