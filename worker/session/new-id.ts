// Makes up a session id.
import { readFileSync } from 'node:fs';

export function newSessionId(): string {
  try {
    // Loading `node:crypto` for one id costs 5 ms before the first event.
    return readFileSync('/proc/sys/kernel/random/uuid', 'utf8').trim();
  } catch {
    return `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}${Math.random().toString(36).slice(2)}`;
  }
}
