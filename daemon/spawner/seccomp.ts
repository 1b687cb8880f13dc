// The system call filter of every sandbox, as the bytes that bubblewrap's --seccomp takes (struct sock_filter[]).
// A list of refusals in the manner of container runtimes: what an unprivileged tool needs is not on it.

/** Refused with EPERM: number on x64, number on arm64 (null: does not exist there). */
const REFUSED: Readonly<Record<string, readonly [number, number | null]>> = {
  acct: [163, 89],
  add_key: [248, 217],
  bpf: [321, 280],
  clock_adjtime: [305, 266],
  clock_settime: [227, 112],
  delete_module: [176, 106],
  fanotify_init: [300, 262],
  finit_module: [313, 273],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fsopen: [430, 430],
  fspick: [433, 433],
  init_module: [175, 105],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  io_uring_setup: [425, 425],
  ioperm: [173, null],
  iopl: [172, null],
  kcmp: [312, 272],
  kexec_file_load: [320, 294],
  kexec_load: [246, 104],
  // The session keyring is the spawner's: without this, tenants would share it.
  keyctl: [250, 219],
  lookup_dcookie: [212, 18],
  mount: [165, 40],
  mount_setattr: [442, 442],
  move_mount: [429, 429],
  open_by_handle_at: [304, 265],
  open_tree: [428, 428],
  perf_event_open: [298, 241],
  pivot_root: [155, 41],
  quotactl: [179, 60],
  quotactl_fd: [443, 443],
  reboot: [169, 142],
  request_key: [249, 218],
  setdomainname: [171, 162],
  sethostname: [170, 161],
  setns: [308, 268],
  settimeofday: [164, 170],
  swapoff: [168, 225],
  swapon: [167, 224],
  syslog: [103, 116],
  umount2: [166, 39],
  unshare: [272, 97],
  userfaultfd: [323, 282],
  uselib: [134, null],
  ustat: [136, null],
  vhangup: [153, 58],
};

const MACHINES = {
  x64: { audit: 0xc000003e, column: 0, clone: 56, ioctl: 16, socket: 41, firstForeign: 0x40000000 },
  arm64: { audit: 0xc00000b7, column: 1, clone: 220, ioctl: 29, socket: 198, firstForeign: null },
} as const;
const CLONE3 = 435;
/** Every CLONE_NEW… flag: a namespace of its own would give a program the kernel's less tried paths. */
const CLONE_NEW_ANY = 0x7e020000;
/** ioctls that type into a terminal. */
const TERMINAL_INPUT = [0x5412, 0x541c];
/**
 * AF_UNIX, AF_INET, AF_INET6, AF_NETLINK. A network namespace does not hold the others: a vsock reaches the host of a
 * virtual machine from any of them.
 */
const SOCKET_FAMILIES = [1, 2, 10, 16];

// linux/filter.h, linux/seccomp.h
const LOAD_WORD = 0x20;
const JUMP_EQUAL = 0x15;
const JUMP_AT_LEAST = 0x35;
const JUMP_ANY_BIT = 0x45;
const RETURN = 0x06;
const ALLOW = 0x7fff0000;
const EPERM = 0x00050000 | 1;
const ENOSYS = 0x00050000 | 38;
const EAFNOSUPPORT = 0x00050000 | 97;
const DATA = { number: 0, machine: 4, argument0: 16, argument1: 24 };

type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, value: number];
const load = (offset: number): Instruction => [LOAD_WORD, 0, 0, offset];
const answer = (action: number): Instruction => [RETURN, 0, 0, action];
const answerIf = (jump: number, value: number, action: number): Instruction[] => [
  [jump, 0, 1, value],
  answer(action),
];

/** The filter for one kind of machine, or null where its numbers are not known. */
export function seccompFilter(arch: string): Buffer | null {
  const machine = Object.hasOwn(MACHINES, arch) ? MACHINES[arch as keyof typeof MACHINES] : null;
  if (machine === null) return null;
  const refused = Object.values(REFUSED).flatMap((numbers) => numbers[machine.column] ?? []);
  const families = SOCKET_FAMILIES.flatMap((family) => answerIf(JUMP_EQUAL, family, ALLOW));
  const terminal = TERMINAL_INPUT.flatMap((request) => answerIf(JUMP_EQUAL, request, EPERM));
  const program: Instruction[] = [
    load(DATA.machine),
    [JUMP_EQUAL, 1, 0, machine.audit],
    answer(ENOSYS),
    load(DATA.number),
    ...(machine.firstForeign === null ? [] : answerIf(JUMP_AT_LEAST, machine.firstForeign, ENOSYS)),
    ...refused.flatMap((number) => answerIf(JUMP_EQUAL, number, EPERM)),
    ...answerIf(JUMP_EQUAL, CLONE3, ENOSYS), // its flags are in memory: callers fall back to clone
    [JUMP_EQUAL, 0, 4, machine.clone],
    load(DATA.argument0),
    ...answerIf(JUMP_ANY_BIT, CLONE_NEW_ANY, EPERM),
    answer(ALLOW),
    [JUMP_EQUAL, 0, families.length + 2, machine.socket],
    load(DATA.argument0),
    ...families,
    answer(EAFNOSUPPORT),
    [JUMP_EQUAL, 1, 0, machine.ioctl],
    answer(ALLOW),
    load(DATA.argument1),
    ...terminal,
    answer(ALLOW),
  ];
  const bytes = Buffer.alloc(program.length * 8);
  for (const [index, [code, ifTrue, ifFalse, value]] of program.entries()) {
    bytes.writeUInt16LE(code, index * 8);
    bytes.writeUInt8(ifTrue, index * 8 + 2);
    bytes.writeUInt8(ifFalse, index * 8 + 3);
    bytes.writeUInt32LE(value, index * 8 + 4);
  }
  return bytes;
}
