// What a test needs to know about where it runs: on the host, or in the emulated machine of test/vm/vm.

/** True inside the virtual machine. */
export const inGuest = process.env.IN_VM === '1';

/** Factor for time limits: emulated code is 5 to 15 times slower. */
export const timeScale = inGuest ? 10 : 1;

/** A `skip` option for tests of limits that only the guest's kernel can hold: false in it, else what is missing. */
export const guestOnly: string | false = inGuest
  ? false
  : 'needs cgroup v2 with every controller: runs in the virtual machine (test/vm/run.ts)';

/** As `guestOnly`, for tests that need systemd as process 1. */
export const noSystemd: string | false = inGuest
  ? false
  : 'needs systemd: runs in the virtual machine (test/vm/run.ts)';
