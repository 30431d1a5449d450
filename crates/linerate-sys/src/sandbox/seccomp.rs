//! Filter of system calls (seccomp(2)): refuses calls that an agent never makes and that would help
//! an attacker who has taken over the process.
//!
//! It is a deny list. The calls of a load depend on its engine, the C library, the resolver and the
//! architecture, and an allow list would break loads that nobody tried. io_uring opens files
//! without passing such a filter; Landlock limits those. Refused calls fail with `EPERM`. Since
//! Linux 5.11 the kernel caches the calls that are allowed for all arguments, so the filter costs
//! such calls of a load almost nothing.

use std::io;

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_RET_ALLOW,
    SECCOMP_RET_ERRNO, c_long, sock_filter,
};

/// Calls that are never made: other programs, other processes, mounts, namespaces, modules, another
/// kernel, keys, clocks and names of the host, and entries to kernel code that nothing here needs.
const REFUSED: &[c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fsconfig,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_syslog,
    libc::SYS_personality,
    libc::SYS_vhangup,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_perf_event_open,
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Socket families of loads and samplers. The last two come from a privileged helper, if at all.
const FAMILIES: [i32; 6] =
    [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, libc::AF_PACKET, libc::AF_XDP];
/// Commands of bpf(2) on objects that another process handed over: look up, update and delete an
/// element of a map, and run a program (live frames).
const COMMANDS: [u32; 4] = [1, 2, 3, 10];
/// Flags of clone(2) that create namespaces: `CLONE_NEWNS`, `NEWCGROUP`, `NEWUTS`, `NEWIPC`,
/// `NEWUSER`, `NEWPID` and `NEWNET`.
const NAMESPACES: u32 = 0x7e02_0000;
/// `TIOCSTI` and `TIOCLINUX` of asm-generic/ioctls.h insert characters into a terminal, as if its
/// user had typed them.
const TYPING: [u32; 2] = [0x5412, 0x541c];

/// `AUDIT_ARCH_*` of linux/audit.h: numbers of system calls are valid for one architecture only.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_00b7);
#[cfg(target_arch = "riscv64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_00f3);
#[cfg(target_arch = "arm")]
const ARCHITECTURE: Option<u32> = Some(0x4000_0028);
#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64",
    target_arch = "arm"
)))]
const ARCHITECTURE: Option<u32> = None;

/// Offsets in the filter's input (`struct seccomp_data`).
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;
const ARGUMENT_BYTES: u32 = 8;
/// Numbers from here on belong to the x32 interface of x86-64, under which every call has a second
/// number.
#[cfg(target_arch = "x86_64")]
const SECOND_NUMBERS: u32 = 0x4000_0000;

/// Installs the filter for the calling thread and all threads that it starts.
pub(super) fn install() -> io::Result<()> {
    let Some(architecture) = ARCHITECTURE else {
        return Err(io::Error::other("this architecture has no filter of system calls"));
    };
    raw::install(&program(architecture))
}

const fn refuse(errno: i32) -> sock_filter {
    statement(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | errno as u32)
}

const ALLOW: sock_filter = statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);

const fn statement(code: u32, value: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k: value }
}

/// Continues if the loaded word compares so with `value`; otherwise skips the next `skip`
/// instructions.
const fn unless_skip(comparison: u32, value: u32, skip: u8) -> sock_filter {
    sock_filter { code: (BPF_JMP | comparison | BPF_K) as u16, jt: 0, jf: skip, k: value }
}

/// Loads the lower half of argument `idx`.
const fn load_argument(idx: u32) -> sock_filter {
    let lower = if cfg!(target_endian = "big") { ARGUMENT_BYTES / 2 } else { 0 };
    statement(BPF_LD | BPF_W | BPF_ABS, ARGUMENTS_AT + idx * ARGUMENT_BYTES + lower)
}

fn program(architecture: u32) -> Vec<sock_filter> {
    let mut program = vec![
        statement(BPF_LD | BPF_W | BPF_ABS, ARCHITECTURE_AT),
        sock_filter { code: (BPF_JMP | BPF_JEQ | BPF_K) as u16, jt: 1, jf: 0, k: architecture },
        refuse(libc::EPERM),
        statement(BPF_LD | BPF_W | BPF_ABS, NUMBER_AT),
    ];
    #[cfg(target_arch = "x86_64")]
    program.extend([unless_skip(BPF_JGE, SECOND_NUMBERS, 1), refuse(libc::EPERM)]);
    program.extend(tree(&judged_calls()));
    program
}

/// Call number, and the instructions that decide on the call. Every path through them ends with a
/// verdict.
type Judged = (u32, Vec<sock_filter>);

/// Allows a call if `argument` is one of `values`; refuses it with `otherwise` if not.
fn any_of(argument: u32, values: &[u32], otherwise: i32) -> Vec<sock_filter> {
    let each = values.iter().flat_map(|value| [unless_skip(BPF_JEQ, *value, 1), ALLOW]);
    [load_argument(argument)].into_iter().chain(each).chain([refuse(otherwise)]).collect()
}

/// Refuses a call if `argument` is one of `values`; allows it if not.
fn none_of(argument: u32, values: &[u32]) -> Vec<sock_filter> {
    let each =
        values.iter().flat_map(|value| [unless_skip(BPF_JEQ, *value, 1), refuse(libc::EPERM)]);
    [load_argument(argument)].into_iter().chain(each).chain([ALLOW]).collect()
}

/// Returns the calls that are not simply allowed, by number.
fn judged_calls() -> Vec<Judged> {
    let number = |call: c_long| u32::try_from(call).expect("numbers of system calls are small");
    let no_namespace =
        vec![load_argument(0), unless_skip(BPF_JSET, NAMESPACES, 1), refuse(libc::EPERM), ALLOW];
    let mut calls: Vec<Judged> = vec![
        // Its flags are behind a pointer. The C library falls back to clone, whose flags are not.
        (number(libc::SYS_clone3), vec![refuse(libc::ENOSYS)]),
        (
            number(libc::SYS_socket),
            any_of(0, &FAMILIES.map(|family| family as u32), libc::EAFNOSUPPORT),
        ),
        (number(libc::SYS_bpf), any_of(0, &COMMANDS, libc::EPERM)),
        (number(libc::SYS_ioctl), none_of(1, &TYPING)),
        (number(libc::SYS_clone), no_namespace),
    ];
    calls.extend(REFUSED.iter().map(|call| (number(*call), vec![refuse(libc::EPERM)])));
    calls.sort_by_key(|(number, _)| *number);
    calls
}

/// Finds the call among `calls` by bisection: a kernel before Linux 5.11 runs the filter for every
/// call of a load.
fn tree(calls: &[Judged]) -> Vec<sock_filter> {
    let short = |length: usize| {
        u8::try_from(length).expect("half of the calls need less than 256 instructions")
    };
    match calls {
        [] => vec![ALLOW],
        [(number, judgement)] => {
            let found = unless_skip(BPF_JEQ, *number, short(judgement.len()));
            [vec![found], judgement.clone(), vec![ALLOW]].concat()
        }
        calls => {
            let (lower, upper) = calls.split_at(calls.len() / 2);
            let (from, lower) = (upper[0].0, tree(lower));
            let skip = short(lower.len());
            let upper_half =
                sock_filter { code: (BPF_JMP | BPF_JGE | BPF_K) as u16, jt: skip, jf: 0, k: from };
            [vec![upper_half], lower, tree(upper)].concat()
        }
    }
}

mod raw {
    #![allow(unsafe_code)]

    use std::io;

    use libc::{sock_filter, sock_fprog};

    /// Before Linux 5.16 the kernel forbids a filtered process to speculate past stores
    /// (Speculative Store Bypass), which slows down all of its code. That rule protects a process
    /// from untrusted code inside it, such as scripts. This process runs none.
    const FLAGS: libc::c_ulong = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;

    pub(super) fn install(program: &[sock_filter]) -> io::Result<()> {
        let described = sock_fprog {
            len: u16::try_from(program.len()).expect("a short program"),
            filter: program.as_ptr().cast_mut(),
        };
        // SAFETY: `described` names a live array of its length, which the kernel copies and does
        // not write to.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                FLAGS,
                &raw const described,
            )
        };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the kernel's verdict on a call: runs the filter as linux/filter.h defines it.
    fn judged(
        program: &[sock_filter],
        architecture: u32,
        call: c_long,
        arguments: [u32; 2],
    ) -> u32 {
        judged_in(program, architecture, call, arguments).0
    }

    /// Does the same and also returns the number of instructions.
    fn judged_in(
        program: &[sock_filter],
        architecture: u32,
        call: c_long,
        arguments: [u32; 2],
    ) -> (u32, usize) {
        let (mut word, mut at) = (0, 0);
        for n_steps in 1.. {
            let instruction = &program[at];
            at += 1;
            let jump =
                |holds: bool| usize::from(if holds { instruction.jt } else { instruction.jf });
            let code = u32::from(instruction.code);
            match code {
                _ if code == BPF_LD | BPF_W | BPF_ABS => {
                    word = match instruction.k {
                        NUMBER_AT => call as u32,
                        ARCHITECTURE_AT => architecture,
                        other => arguments[((other - ARGUMENTS_AT) / ARGUMENT_BYTES) as usize],
                    };
                }
                _ if code == BPF_JMP | BPF_JEQ | BPF_K => at += jump(word == instruction.k),
                _ if code == BPF_JMP | BPF_JSET | BPF_K => at += jump(word & instruction.k != 0),
                _ if code == BPF_JMP | BPF_JGE | BPF_K => at += jump(word >= instruction.k),
                _ => return (instruction.k, n_steps),
            }
        }
        unreachable!("every path ends with a verdict")
    }

    #[test]
    fn calls_of_loads_are_allowed_and_those_that_lead_further_are_not() {
        let Some(own) = ARCHITECTURE else { return };
        let program = program(own);
        let judged = |call, arguments| judged(&program, own, call, arguments);
        let refused = |errno: i32| SECCOMP_RET_ERRNO | errno as u32;
        for call in [
            libc::SYS_read,
            libc::SYS_sendmsg,
            libc::SYS_io_uring_setup,
            libc::SYS_openat,
            libc::SYS_mmap,
            libc::SYS_futex,
        ] {
            assert_eq!(judged(call, [0, 0]), SECCOMP_RET_ALLOW, "{call}");
        }
        for call in REFUSED {
            assert_eq!(judged(*call, [0, 0]), refused(libc::EPERM), "{call}");
        }
        assert_eq!(judged(libc::SYS_clone3, [0, 0]), refused(libc::ENOSYS));
        for (call, arguments, verdict) in [
            (libc::SYS_socket, [libc::AF_INET6 as u32, 1], SECCOMP_RET_ALLOW),
            (libc::SYS_socket, [libc::AF_ALG as u32, 5], refused(libc::EAFNOSUPPORT)),
            (libc::SYS_bpf, [2, 0], SECCOMP_RET_ALLOW),
            // BPF_PROG_RUN.
            (libc::SYS_bpf, [10, 0], SECCOMP_RET_ALLOW),
            // BPF_PROG_LOAD.
            (libc::SYS_bpf, [5, 0], refused(libc::EPERM)),
            // FIONBIO, then one that inserts characters.
            (libc::SYS_ioctl, [9, 0x5421], SECCOMP_RET_ALLOW),
            (libc::SYS_ioctl, [0, 0x5412], refused(libc::EPERM)),
            // A thread of the C library, and a user namespace.
            (libc::SYS_clone, [0x003d_0f00, 0], SECCOMP_RET_ALLOW),
            (libc::SYS_clone, [libc::CLONE_NEWUSER as u32, 0], refused(libc::EPERM)),
        ] {
            assert_eq!(judged(call, arguments), verdict, "{call} {arguments:x?}");
        }
    }

    #[test]
    fn every_call_is_judged_by_its_own_number_and_soon() {
        /// The head of the filter, and at most the bisection of 64 calls.
        const MOST_STEPS: usize = 5 + 7 + 1;
        let Some(own) = ARCHITECTURE else { return };
        let program = program(own);
        let listed: Vec<u32> = judged_calls().iter().map(|(number, _)| *number).collect();
        for number in (0..1024_u32).filter(|number| !listed.contains(number)) {
            let (verdict, n_steps) = judged_in(&program, own, c_long::from(number), [0, 0]);
            assert_eq!(verdict, SECCOMP_RET_ALLOW, "{number}");
            assert!(n_steps <= MOST_STEPS, "{number} in {n_steps} steps");
        }
    }

    #[test]
    fn calls_of_another_architecture_are_refused() {
        let Some(own) = ARCHITECTURE else { return };
        let program = program(own);
        assert_eq!(
            judged(&program, own ^ 1, libc::SYS_read, [0, 0]),
            SECCOMP_RET_ERRNO | libc::EPERM as u32
        );
        #[cfg(target_arch = "x86_64")]
        {
            let second = libc::SYS_read + c_long::from(SECOND_NUMBERS);
            assert_eq!(
                judged(&program, own, second, [0, 0]),
                SECCOMP_RET_ERRNO | libc::EPERM as u32
            );
        }
    }
}
