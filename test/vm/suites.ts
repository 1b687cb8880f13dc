// Which test files each flavour of the virtual machine runs, in one boot. Patterns are relative to the repository.

export const FLAVOURS = ['plain', 'systemd'] as const;
export type Flavour = (typeof FLAVOURS)[number];

export interface Suite {
  /** Options of test/vm/vm. */
  options: string[];
  files: string[];
}

export const SUITES: Record<Flavour, Suite> = {
  // The disk is there for swap and quotas.
  plain: {
    options: ['--mem', '3072', '--disk', '512', '--timeout', '2400'],
    files: [
      'test/cgroups/*.test.ts',
      'test/vm/*.test.ts',
      'test/daemon/spawner/limits.test.ts',
      'test/worker/tools/tools-group.test.ts',
    ],
  },
  systemd: {
    options: ['--systemd', '--mem', '3072', '--timeout', '1800'],
    files: ['test/vm/systemd/*.test.ts'],
  },
};
