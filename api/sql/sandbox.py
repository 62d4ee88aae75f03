"""What a process gives up for good: files but two folders, the network, other processes, and memory beyond a limit.

The kernel keeps each of these, whatever the process runs afterwards. Landlock takes away files by path; the filter of
system calls takes away what Landlock does not know (sockets of any kind, programs, other processes, a file's mode and
times). Pure ctypes: nothing to install, no rights needed.

Sources: https://docs.kernel.org/userspace-api/landlock.html, https://docs.kernel.org/userspace-api/seccomp_filter.html,
include/uapi/asm-generic/unistd.h and arch/x86/entry/syscalls/syscall_64.tbl of Linux.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_SIGKILL = 9

# Landlock.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_READ = _READ_FILE | _READ_DIR
_WRITE_FILE, _REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG, _TRUNCATE = (
    1 << 1,
    1 << 4,
    1 << 5,
    1 << 7,
    1 << 8,
    1 << 14,
)
_WRITE = _READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _TRUNCATE
_FILES = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
"""Rights on files that each version of Landlock knows; all of them are taken away."""
_NET_SINCE, _SCOPES_SINCE = 4, 6

# The filter of system calls.
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_SET_FILTER, _ALL_THREADS = 1, 1
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_EPERM, _ENOSYS = 1, 38
_X32 = 0x40000000
_CLONE_THREAD = 0x00010000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENT_AT = 0, 4, 16

REFUSED: Mapping[str, tuple[int | None, int | None]] = {
    # the network, and what is like it
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
    "accept": (43, 202), "accept4": (288, 242), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "shmget": (29, 194), "shmat": (30, 196), "msgget": (68, 186),
    "semget": (64, 190), "mq_open": (240, 180),
    # programs and other processes
    "execve": (59, 221), "execveat": (322, 281), "fork": (57, None), "vfork": (58, None), "ptrace": (101, 117),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "process_madvise": (440, 440),
    "process_mrelease": (448, 448), "kcmp": (312, 272), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424), "tkill": (200, 130), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "setpriority": (141, 140), "ioprio_set": (251, 30),
    "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "sched_setattr": (314, 274), "setpgid": (109, 154), "setsid": (112, 157), "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    # files, past their paths: modes, owners, times, links, handles, watches
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "lchown": (94, None), "fchown": (93, 55), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "setxattrat": (463, 463), "removexattr": (197, 14), "lremovexattr": (198, 15),
    "fremovexattr": (199, 16), "removexattrat": (466, 466), "link": (86, None), "linkat": (265, 37),
    "symlink": (88, None), "symlinkat": (266, 36), "mknod": (133, None), "mknodat": (259, 33),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "inotify_init": (253, None),
    "inotify_init1": (294, 26), "fanotify_init": (300, 262), "quotactl": (179, 60), "acct": (163, 89),
    # the kernel and its views
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97),
    "setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "syslog": (103, 116),
    "personality": (135, 92), "sethostname": (170, 161), "setdomainname": (171, 162), "settimeofday": (164, 170),
    "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266),
}  # fmt: skip
"""System calls that neither Python nor the engine needs here: name -> its number on x86_64 and aarch64."""
OF_ITSELF: Mapping[str, tuple[int, int]] = {"kill": (62, 129), "tgkill": (234, 131), "prlimit64": (302, 261)}
"""Calls whose first argument is a process, which has to be this one."""
_CLONE, _CLONE3 = (56, 220), (435, 435)


@dataclass(frozen=True)
class Isolation:
    """What this machine's kernel can take away. landlock: its version, 0: it has none.   filter: of system calls."""

    landlock: int
    filter: bool

    @property
    def is_whole(self) -> bool:
        return self.landlock > 0 and self.filter

    def text(self) -> str:
        """In a line, for people who run a server."""
        files = f"Landlock {self.landlock}" if self.landlock else "no Landlock: a worker could open the store's files"
        calls = "filter of system calls" if self.filter else "no filter of system calls: a worker could use the network"
        return f"{files}; {calls}"


def isolation() -> Isolation:
    """Asks the kernel; changes nothing."""
    return Isolation(_landlock_version(), _has_filter())


def die_with(parent: int) -> None:
    """Makes the kernel kill this process when the thread that started it ends. parent: the process that should be
    there; if it has gone already, this process ends now."""
    _prctl(_PR_SET_PDEATHSIG, _SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def step_back(nice: int) -> None:
    """Lets others have the processors, and be spared when memory runs out; leaves no core behind."""
    with contextlib.suppress(OSError):  # a service manager may keep priorities from us
        os.nice(nice)
    with contextlib.suppress(OSError):  # a container may, too; then the kernel chooses by size
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    _limit(resource.RLIMIT_CORE, 0, 0)
    _prctl(_PR_SET_DUMPABLE, 0)


def seal(read: Sequence[Path], write: Sequence[Path]) -> Isolation:
    """Takes away everything but reading below `read` and reading and writing below `write`; answers what the kernel
    could do.   Errors: OSError if it said it could and then did not; RuntimeError if there is a second thread, which
    would keep what it has."""
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        raise RuntimeError("a second thread runs already; it would not be confined")
    found = isolation()
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    if found.landlock:
        _landlock(found.landlock, read, write)
    if found.filter:
        _filter(os.getpid())
    return found


def limit_files(size: int) -> None:
    """Lets no file grow beyond so many bytes; a write that would fails."""
    _limit(resource.RLIMIT_FSIZE, size, size)


def memory_mapped() -> int:
    """Bytes of this process's own that it may write to, whether or not they are in memory."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmData:")) * 1024


def limit_memory(size: int) -> None:
    """Lets this process map so many bytes of its own; a call that wants more fails."""
    _limit(resource.RLIMIT_DATA, size, resource.RLIM_INFINITY)


def _limit(what: int, soft: int, hard: int) -> None:
    # A service manager may keep limits from us; whoever started this process watches its memory as well.
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(what, (soft, hard))


def _landlock_version() -> int:
    found = _LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG)
    return int(found) if found > 0 else 0


def _landlock(version: int, read: Sequence[Path], write: Sequence[Path]) -> None:
    rights = _FILES[min(version, max(_FILES))]
    attributes = struct.pack("=Q", rights)
    if version >= _NET_SINCE:
        attributes += struct.pack("=Q", 3)  # neither bind nor connect
    if version >= _SCOPES_SINCE:
        attributes += struct.pack("=Q", 3)  # no abstract sockets, no signals to those outside
    ruleset = _checked(_LIBC.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0))
    try:
        for wanted, paths in ((_READ, read), (_WRITE, write)):
            for path in paths:
                _allow_below(ruleset, path, wanted & rights)
        _checked(_LIBC.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _allow_below(ruleset: int, path: Path, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        fits = rights if path.is_dir() else rights & _READ_FILE
        _checked(_LIBC.syscall(_ADD_RULE, ruleset, 1, struct.pack("=Qi", fits, place), 0))
    finally:
        os.close(place)


def _has_filter() -> bool:
    if platform.machine() not in _SECCOMP:
        return False
    actions = Path("/proc/sys/kernel/seccomp/actions_avail")
    return actions.exists() and "errno" in actions.read_text(encoding="ascii")


def _filter(own: int) -> None:
    code = filter_code(platform.machine(), own)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    _checked(_LIBC.syscall(_SECCOMP[platform.machine()], _SET_FILTER, _ALL_THREADS, program))


def filter_code(machine: str, own: int) -> bytes:
    """The filter as the kernel runs it. own: this process, the only one that it may send signals to."""
    which = 0 if machine == "x86_64" else 1
    refused, unknown = _step(_RETURN, _REFUSE | _EPERM), _step(_RETURN, _REFUSE | _ENOSYS)
    number, first = _step(_LOAD, _NUMBER_AT), _step(_LOAD, _ARGUMENT_AT)
    code = [
        _step(_LOAD, _ARCHITECTURE_AT), _step(_EQUAL, _ARCHITECTURE[machine], 1, 0), _step(_RETURN, _KILL), number,
    ]  # fmt: skip
    if machine == "x86_64":
        code += [_step(_AT_LEAST, _X32, 0, 1), refused]
    for numbers in REFUSED.values():
        if (call := numbers[which]) is not None:
            code += [_step(_EQUAL, call, 0, 1), refused]
    for numbers in OF_ITSELF.values():
        # prlimit64 says 0 for itself; kill would mean the whole group by it, which is this process alone.
        code += [_step(_EQUAL, numbers[which], 0, 5), first, _step(_EQUAL, own, 2, 0), _step(_EQUAL, 0, 1, 0), refused,
                 number]  # fmt: skip
    # A thread, but no process. What clone3 asks for lies in memory, which a filter does not see: its callers fall back.
    code += [_step(_EQUAL, _CLONE[which], 0, 3), first, _step(_ANY_BIT, _CLONE_THREAD, 1, 0), refused]
    code += [number, _step(_EQUAL, _CLONE3[which], 0, 1), unknown, _step(_RETURN, _ALLOW)]
    return b"".join(code)


def _step(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", operation, if_true, if_false, value)


def _prctl(option: int, value: int) -> None:
    _checked(_LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
