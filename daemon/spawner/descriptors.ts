// Descriptors that this process got from whoever started it: programs must not get them in turn.
import { closeSync, readdirSync, readFileSync } from 'node:fs';

const O_CLOEXEC = 0o2000000;

/**
 * Closes every descriptor above 2 that a child would inherit. Node opens its own close-on-exec and marks low inherited
 * ones at its start, but stops at the first gap above 15 (libuv, uv_disable_stdio_inheritance). Answers what it closed.
 */
export function closeInheritedDescriptors(): number[] {
  const closed: number[] = [];
  for (const name of readdirSync('/proc/self/fd')) {
    const fd = Number(name);
    if (fd <= 2 || !isInheritable(fd)) continue;
    closeSync(fd);
    closed.push(fd);
  }
  return closed;
}

function isInheritable(fd: number): boolean {
  try {
    const flags = /^flags:\s*([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1'))?.[1];
    return flags !== undefined && (Number.parseInt(flags, 8) & O_CLOEXEC) === 0;
  } catch {
    return false; // the descriptor of the listing itself, already closed
  }
}
