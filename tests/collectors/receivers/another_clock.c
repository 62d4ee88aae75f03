/* Runs a program under another wall clock: START + (now - when it began) * SPEED.
 *
 *   another_clock BEGAN START SPEED PROGRAM ...      BEGAN, START: seconds since 1970, with a fraction
 *
 * Go asks the vDSO for the time, which no preloaded library can replace. Here the kernel's word that there is a vDSO is
 * erased from the program's auxiliary vector, so that it makes system calls; a seccomp filter stops those that ask for
 * the wall clock, and this tracer answers them. The monotonic clock stays as it is: timers run at the real pace.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long double began, start, speed;
static pid_t program;

static void die(const char *what) {
    fprintf(stderr, "another_clock: %s: %s\n", what, strerror(errno));
    exit(125);
}

static struct timespec now(void) {
    struct timespec real, told;
    clock_gettime(CLOCK_REALTIME, &real);
    long double at = start + (real.tv_sec + real.tv_nsec / 1e9L - began) * speed;
    told.tv_sec = (time_t)at;
    told.tv_nsec = (long)((at - told.tv_sec) * 1e9L);
    return told;
}

static void forget_vdso(pid_t pid) {
    struct user_regs_struct regs;
    if (ptrace(PTRACE_GETREGS, pid, 0, &regs)) die("registers");
    unsigned long at = regs.rsp, word;
    struct iovec mine = {&word, sizeof word}, theirs;
#define READ(where) (theirs = (struct iovec){(void *)(where), sizeof word}, process_vm_readv(pid, &mine, 1, &theirs, 1, 0))
    if (READ(at) < 0) die("stack");
    at += (word + 2) * sizeof word; /* argc, argv, NULL */
    do READ(at), at += sizeof word; while (word); /* environment */
    for (;; at += 2 * sizeof word) {
        if (READ(at) < 0) die("auxiliary vector");
        if (word == AT_NULL) return;
        if (word == AT_SYSINFO_EHDR && ptrace(PTRACE_POKEDATA, pid, at, AT_IGNORE)) die("auxiliary vector");
    }
}

static void answer(pid_t pid) {
    struct user_regs_struct regs;
    if (ptrace(PTRACE_GETREGS, pid, 0, &regs)) return; /* killed meanwhile */
    struct timespec told = now();
    unsigned long into = regs.orig_rax == SYS_clock_gettime ? regs.rsi : regs.rdi;
    long pair[2] = {told.tv_sec, regs.orig_rax == SYS_gettimeofday ? told.tv_nsec / 1000 : told.tv_nsec};
    size_t size = regs.orig_rax == SYS_time ? sizeof(long) : sizeof pair;
    struct iovec mine = {pair, size}, theirs = {(void *)into, size};
    regs.rax = regs.orig_rax == SYS_time ? told.tv_sec : 0;
    if (into && process_vm_writev(pid, &mine, 1, &theirs, 1, 0) < 0) regs.rax = -EFAULT;
    regs.orig_rax = -1;
    ptrace(PTRACE_SETREGS, pid, 0, &regs);
}

static void hand_on(int signal) { kill(program, signal); }

static void become(char **command) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_gettimeofday, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_time, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CLOCK_REALTIME, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CLOCK_REALTIME_COARSE, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
    if (ptrace(PTRACE_TRACEME, 0, 0, 0)) die("ptrace");
    raise(SIGSTOP); /* until the tracer has set its options */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) die("seccomp");
    execvp(*command, command);
    die(*command);
}

int main(int count, char **given) {
    if (count < 5) { fprintf(stderr, "another_clock BEGAN START SPEED PROGRAM ...\n"); return 125; }
    began = strtold(given[1], 0), start = strtold(given[2], 0), speed = strtold(given[3], 0);
    if (!(program = fork())) become(given + 4);
    signal(SIGTERM, hand_on), signal(SIGINT, hand_on), signal(SIGHUP, hand_on);
    int status;
    if (waitpid(program, &status, 0) < 0 || !WIFSTOPPED(status)) die("ptrace");
    long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK
                   | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SETOPTIONS, program, 0, options)) die("ptrace options");
    ptrace(PTRACE_CONT, program, 0, 0);
    for (;;) {
        pid_t pid = waitpid(-1, &status, __WALL);
        if (pid < 0) { if (errno == EINTR) continue; die("wait"); }
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (pid == program) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            continue;
        }
        int signal = WSTOPSIG(status), event = status >> 16;
        if (event == PTRACE_EVENT_SECCOMP) answer(pid);
        else if (event == PTRACE_EVENT_EXEC) forget_vdso(pid);
        /* A new thread begins with a stop of its own, which is no signal to it. */
        ptrace(PTRACE_CONT, pid, 0, event || signal == SIGSTOP || signal == SIGTRAP ? 0 : signal);
    }
}
