"""What a confined process may no longer ask of the kernel, on Linux: a filter of system calls (seccomp).

`child` loads it by its path, so it imports nothing of Parley. The filter refuses what needs no open file: memory,
signals and descriptors of other processes, programs, sockets, changes to files by their names, wider limits, and new
processes. It is a list of what is refused, not of what is allowed: a decoder may map memory and make threads.
"""

import ctypes
import platform
import struct
import sys

NUMBERS = {
    "x86_64": (
        *(310, 311, 101, 312, 440),  # process_vm_readv, process_vm_writev, ptrace, kcmp, process_madvise
        *(62, 200, 234, 129, 297, 424, 434, 438),  # kill and its kin, pidfd_send_signal, pidfd_open, pidfd_getfd
        *(59, 322, 57, 58),  # execve, execveat, fork, vfork
        *(41, 53, 425, 304, 321, 298, 323),  # socket(pair), io_uring_setup, open_by_handle_at, bpf, perf, userfaultfd
        *(160, 272, 308, 165, 161, 248, 249, 250),  # setrlimit, unshare, setns, mount, chroot, keys
        *(76, 82, 264, 316, 87, 263, 84, 86, 265, 88, 266),  # truncate, rename…, unlink…, rmdir, link…, symlink…
        *(90, 268, 452, 92, 94, 260, 83, 258, 133, 259, 188, 189),  # chmod…, chown…, mkdir…, mknod…, setxattr…
    ),
    "aarch64": (
        *(270, 271, 117, 272, 440),
        *(129, 130, 131, 138, 240, 424, 434, 438),
        *(221, 281),
        *(198, 199, 425, 265, 280, 241, 282),
        *(164, 97, 268, 40, 51, 217, 218, 219),
        *(45, 38, 276, 35, 37, 36),
        *(53, 452, 54, 34, 33, 5, 6),
    ),
}
"""By machine, the numbers of the calls that are refused, in one order; on the second there is one of each `…`."""
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_PRLIMIT = {"x86_64": 302, "aarch64": 261}
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3, _CLONE_THREAD, _OTHER_ABI = 435, 0x10000, 0x40000000
_LOAD, _EQUAL, _ABOVE, _HAS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _EPERM, _ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026
_FIRST, _THIRD = 16, 32
"""Offsets of a call's arguments; each has a low half and then a high one."""
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
_SET_FILTER, _ALL_THREADS = 1, 1


def close() -> bool:
    """Refuse the calls of `NUMBERS` to all threads from now on; return whether the kernel does."""
    if sys.platform != "linux":
        return False
    libc, machine = ctypes.CDLL(None, use_errno=True), platform.machine()
    zero = ctypes.c_ulong(0)
    libc.prctl(_PR_SET_DUMPABLE, zero, zero, zero, zero)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero)
    if machine not in NUMBERS or sys.maxsize < 1 << 32:
        return False
    code = ctypes.create_string_buffer(program(machine))
    head = struct.pack("HxxxxxxP", (len(code) - 1) // 8, ctypes.addressof(code))
    number = ctypes.c_long(_SECCOMP[machine])
    return libc.syscall(number, ctypes.c_long(_SET_FILTER), ctypes.c_long(_ALL_THREADS), head) == 0


def program(machine: str) -> bytes:
    """Return the filter for *machine*, in the kernel's BPF."""
    lines = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, _ARCHITECTURES[machine]), (_RETURN, 0, 0, _EPERM), (_LOAD, 0, 0, 0)]
    lines += [(_ABOVE, 0, 1, _OTHER_ABI), (_RETURN, 0, 0, _EPERM)]
    for number in NUMBERS[machine]:
        lines += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _EPERM)]
    # Flags of clone3 are out of a filter's sight: without it, libraries make their threads by clone.
    lines += [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ENOSYS)]
    lines += [(_EQUAL, 0, 4, _CLONE[machine]), (_LOAD, 0, 0, _FIRST), (_HAS, 0, 1, _CLONE_THREAD)]
    lines += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _EPERM)]
    # Limits may be read, not set.
    lines += [(_EQUAL, 0, 5, _PRLIMIT[machine]), (_LOAD, 0, 0, _THIRD), (_EQUAL, 0, 2, 0)]
    lines += [(_LOAD, 0, 0, _THIRD + 4), (_EQUAL, 1, 0, 0), (_RETURN, 0, 0, _EPERM), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("HBBI", *line) for line in lines)
