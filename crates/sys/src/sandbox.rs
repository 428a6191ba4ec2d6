//! Confinement of a serving thread: files by landlock(7), system calls by seccomp(2).
//!
//! Owns: what is denied, and the way into it. A thread enters for good, and so does what it starts: threads and
//! processes. Landlock denies every file that [`Reach`] does not name, and TCP ports that it does not name. It knows
//! files and not names, so a sandbox also says whether its names still mean what they did ([`Sandbox::is_current`]).
//! Seccomp has a list of what is denied, with `EPERM`. A list of what is allowed would be one of what the C library,
//! the allocator and each kernel happen to use: what is forgotten there is a server that fails on some machine. What is
//! forgotten here is one attack that is not made harder. io_uring(7) is allowed: it goes past seccomp, not past
//! Landlock, and has no operation that starts a program.
//!
//! Guarantees: what the kernel lacks is left out, and said by [`Kind`]; what it has is in force when [`Sandbox::enter`]
//! has returned. Does not know what a server needs.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError,
};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;
use rustix::thread::set_no_new_privs;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter, sock_filter,
};

/// The rights that are asked for are those of this version. A kernel that has fewer denies fewer.
const LANDLOCK: ABI = ABI::V5;

/// The access to a path, or to files beneath it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// Files are read and directories listed.
    Read,
    /// Also changed: files and directories come and go.
    Change,
    /// Logs are made and written.
    Log,
    /// Files of sockets are removed.
    Remove,
}

impl Use {
    fn rights(self) -> BitFlags<AccessFs> {
        use AccessFs::{Execute, IoctlDev, MakeBlock, MakeChar, MakeFifo, MakeSock, MakeSym};
        match self {
            Use::Read => AccessFs::ReadFile | AccessFs::ReadDir,
            Use::Change => {
                AccessFs::from_all(LANDLOCK)
                    & !(Execute | IoctlDev | MakeBlock | MakeChar | MakeFifo | MakeSock | MakeSym)
            }
            Use::Log => AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::MakeReg,
            Use::Remove => AccessFs::RemoveFile.into(),
        }
    }
}

/// The access that is left to a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Files and directories. Those that are not there are left out.
    pub paths: Vec<(PathBuf, Use)>,
    /// TCP ports that it connects to; none for all of them. It never listens at one of its own.
    pub ports: Option<Vec<u16>>,
}

/// The mechanisms in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// The version of Landlock, if the kernel has it.
    pub landlock: Option<u32>,
    /// System calls are filtered.
    pub seccomp: bool,
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.landlock, self.seccomp) {
            (Some(version), true) => write!(formatter, "Landlock (version {version}) and seccomp"),
            (Some(version), false) => write!(formatter, "Landlock (version {version}); seccomp is not available here"),
            (None, true) => formatter.write_str("seccomp; Landlock is not available here"),
            (None, false) => formatter.write_str("none: this kernel has neither Landlock nor seccomp, or forbids them"),
        }
    }
}

/// The file that a path named when the sandbox was made.
#[derive(Debug)]
struct Named {
    path: PathBuf,
    use_of: Use,
    /// Device and number of the file; none if there was none.
    file: Option<(u64, u64)>,
}

impl Named {
    fn is_as_before(&self) -> bool {
        let now = identity(&self.path);
        now.is_none() || now == self.file
    }
}

/// A sandbox that threads can enter.
#[derive(Debug, Default)]
pub struct Sandbox {
    /// The ruleset.
    rules: Option<OwnedFd>,
    filters: Vec<BpfProgram>,
    kind: Kind,
    /// The files that its paths named.
    meant: Vec<Named>,
}

impl Sandbox {
    /// One that leaves everything.
    pub fn open() -> Sandbox {
        Sandbox::default()
    }

    /// One that leaves `reach`, as far as this kernel goes without what `without` names (`landlock`, `seccomp`). Starts
    /// no thread.
    ///
    /// # Errors
    /// No memory or descriptors.
    pub fn new(reach: &Reach, without: &[String]) -> io::Result<Sandbox> {
        let kind = Kind::of_kernel(without);
        let kind = Kind { landlock: kind.landlock.filter(|version| suffices(*version, reach)), ..kind };
        let rules = kind.landlock.map(|_| rules(reach)).transpose()?.flatten();
        let filters = if kind.seccomp { filters().map_err(io::Error::other)? } else { Vec::new() };
        let kind = Kind { seccomp: !filters.is_empty(), ..kind };
        let named =
            |(path, use_of): &(PathBuf, Use)| Named { path: path.clone(), use_of: *use_of, file: identity(path) };
        let meant = if rules.is_some() { reach.paths.iter().map(named).collect() } else { Vec::new() };
        Ok(Sandbox { rules, filters, kind, meant })
    }

    /// The mechanisms in force in it.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether its paths name the files that they named when it was made, or nothing: what has come in the place of one
    /// cannot be reached from here.
    pub fn is_current(&self) -> bool {
        self.meant.iter().all(|named| named.is_as_before() || self.reaches(&named.path, named.use_of))
    }

    /// Whether what `path` leads to now is beneath another path.
    fn reaches(&self, path: &Path, use_of: Use) -> bool {
        let Ok(real) = path.canonicalize() else { return true };
        let mut others = self.meant.iter().filter(|other| other.path != path && other.use_of == use_of);
        others.any(|other| other.is_as_before() && other.path.canonicalize().is_ok_and(|other| real.starts_with(other)))
    }

    /// Takes everything else from the calling thread, for good, and from what it will start.
    ///
    /// # Errors
    /// The kernel does not do what it has said that it can.
    pub fn enter(&self) -> io::Result<()> {
        if let Some(rules) = &self.rules {
            set_no_new_privs(true)?;
            // SAFETY: the call takes numbers. It concerns this thread alone.
            let done = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) };
            if done != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        self.filters.iter().try_for_each(|filter| apply_filter(filter)).map_err(io::Error::other)
    }

    /// Does `work` in a thread of its own that has entered, so that threads which it starts are confined as well.
    ///
    /// # Errors
    /// No thread, or [`Sandbox::enter`] fails.
    pub fn within<R: Send>(&self, work: impl FnOnce() -> R + Send) -> io::Result<R> {
        if self.kind == Kind::default() {
            return Ok(work());
        }
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("sandbox".to_owned());
            let thread = thread.spawn_scoped(scope, || self.enter().map(|()| work()))?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// Whether this version of Landlock leaves what it is to leave: the first one denies every move from one directory to
/// another, and that is how files are put into place.
fn suffices(version: u32, reach: &Reach) -> bool {
    version > 1 || reach.paths.iter().all(|(_, use_of)| *use_of != Use::Change)
}

impl Kind {
    /// The mechanisms of this kernel, without those that `without` names.
    fn of_kernel(without: &[String]) -> Kind {
        let is_without = |name: &str| without.iter().any(|each| each == name);
        Kind {
            landlock: landlock_version().filter(|_| !is_without("landlock")),
            seccomp: has_seccomp() && !is_without("seccomp"),
        }
    }
}

/// The version of Landlock; none if it is not built in, not switched on, or forbidden.
fn landlock_version() -> Option<u32> {
    /// Asks for the version and makes nothing.
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag and without attributes the call returns a number or fails.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<()>(), 0_usize, VERSION) };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

/// Whether system calls can be filtered.
fn has_seccomp() -> bool {
    let denial: u32 = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the kernel reads the four bytes that it is pointed to, and changes nothing.
    unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const denial) == 0 }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let stat = rustix::fs::stat(path).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

fn rules(reach: &Reach) -> io::Result<Option<OwnedFd>> {
    let connect = if reach.ports.is_some() { AccessNet::ConnectTcp.into() } else { BitFlags::empty() };
    let ruleset = Ruleset::default().handle_access(AccessFs::from_all(LANDLOCK)).map_err(cause)?;
    let mut rules = ruleset.handle_access(connect | AccessNet::BindTcp).map_err(cause)?.create().map_err(cause)?;
    for (path, use_of) in &reach.paths {
        let file = match open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Ok(file) => file,
            Err(lacking @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => return Err(lacking.into()),
            Err(_) => continue,
        };
        let is_directory = FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::Directory;
        let rights = if is_directory { use_of.rights() } else { use_of.rights() & AccessFs::from_file(LANDLOCK) };
        if !rights.is_empty() {
            rules = rules.add_rule(PathBeneath::new(file, rights)).map_err(cause)?;
        }
    }
    for port in reach.ports.iter().flatten() {
        rules = rules.add_rule(NetPort::new(*port, AccessNet::ConnectTcp)).map_err(cause)?;
    }
    Ok(rules.into())
}

/// The kernel's error.
fn cause(error: RulesetError) -> io::Error {
    let mut source: Option<&dyn Error> = Some(&error);
    while let Some(reason) = source {
        if let Some(number) = reason.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return io::Error::from_raw_os_error(number);
        }
        source = reason.source();
    }
    io::Error::other(error)
}

/// Calls that are denied whatever their arguments are: starting programs, looking into other processes, changing what
/// the machine is made of.
const DENIED: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_bpf,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_personality,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
];

/// Flags with which clone(2) makes namespaces.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// The filters; none where the numbers of system calls are not known.
fn filters() -> Result<Vec<BpfProgram>, BackendError> {
    let Ok(target) = TargetArch::try_from(std::env::consts::ARCH) else { return Ok(Vec::new()) };
    let mut denied: BTreeMap<i64, Vec<SeccompRule>> = DENIED.iter().map(|number| (*number, Vec::new())).collect();
    let first_is = |operator, value: libc::c_int| {
        let condition = SeccompCondition::new(0, SeccompCmpArgLen::Dword, operator, u64::from(value.cast_unsigned()))?;
        SeccompRule::new(vec![condition])
    };
    let namespaces =
        NAMESPACES.iter().map(|flag| first_is(SeccompCmpOp::MaskedEq(u64::from(flag.cast_unsigned())), *flag));
    denied.insert(libc::SYS_clone, namespaces.collect::<Result<_, _>>()?);
    // With this flag alone it is a question (`fork`).
    denied.insert(libc::SYS_unshare, vec![first_is(SeccompCmpOp::Ne, libc::CLONE_THREAD)?]);
    let denied = SeccompFilter::new(denied, SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32), target)?;
    // A filter cannot look at its flags. The C library takes clone(2) where it is not there.
    let absent = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let absent = SeccompFilter::new(absent, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32), target)?;
    let mut filters = vec![denied.try_into()?, absent.try_into()?];
    if cfg!(target_arch = "x86_64") {
        filters.push(without_x32());
    }
    Ok(filters)
}

/// Denies the second set of numbers that x86-64 has for the same system calls (x32), which no list above names.
fn without_x32() -> BpfProgram {
    /// The bit that its numbers have.
    const X32: u32 = 0x4000_0000;
    let instruction = |code: u32, jt, jf, k| sock_filter { code: code as u16, jt, jf, k };
    vec![
        // The number is the first member of `seccomp_data`.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    /// The sandbox with this reach; none, and that is said, where the kernel has not both of what it is made of.
    fn sandbox(test: &str, paths: &[(&Path, Use)]) -> Option<Sandbox> {
        let paths = paths.iter().map(|(path, use_of)| ((*path).to_owned(), *use_of)).collect();
        let sandbox = Sandbox::new(&Reach { paths, ports: Some(Vec::new()) }, &[]).unwrap();
        let kind = sandbox.kind();
        if kind.landlock.is_some() && kind.seccomp {
            return Some(sandbox);
        }
        eprintln!("skipped: {test}: {kind}");
        None
    }

    #[test]
    fn who_has_entered_reaches_what_is_named_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["read", "change", "other"] {
            fs::create_dir(at(name)).unwrap();
            fs::write(at(name).join("a"), "a").unwrap();
        }
        let name = "who_has_entered_reaches_what_is_named_and_nothing_else";
        let reach = [(&*at("read"), Use::Read), (&at("change"), Use::Change), (Path::new("/not/there"), Use::Read)];
        let Some(sandbox) = sandbox(name, &reach) else { return };
        let denied =
            |result: io::Result<()>| result.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
        sandbox
            .within(|| {
                assert_eq!(fs::read(at("read/a")).unwrap(), b"a");
                assert!(denied(fs::write(at("read/b"), "b")) && denied(fs::remove_file(at("read/a"))));
                fs::write(at("change/b"), "b").unwrap();
                fs::remove_file(at("change/a")).unwrap();
                assert!(denied(fs::read(at("other/a")).map(drop)) && denied(fs::read_dir(at("other")).map(drop)));
                assert!(denied(Command::new("/bin/true").status().map(drop)));
                // What it starts has entered as well.
                let inner = std::thread::spawn(|| fs::read("/etc/passwd").map(drop));
                assert!(denied(inner.join().unwrap()));
                let connected = std::net::TcpStream::connect("127.0.0.1:1").map(drop);
                let is_filtered = sandbox.kind().landlock.is_some_and(|version| version >= 4);
                assert_eq!(denied(connected), is_filtered);
            })
            .unwrap();
        assert!(fs::read(at("other/a")).is_ok(), "who has not entered is as before");
        assert!(Command::new("/bin/true").status().is_ok());
    }

    #[test]
    fn a_path_that_comes_to_name_another_file_is_noticed_and_one_that_is_gone_is_not_missed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("root");
        fs::create_dir(&path).unwrap();
        let name = "a_path_that_comes_to_name_another_file_is_noticed_and_one_that_is_gone_is_not_missed";
        let Some(sandbox) = sandbox(name, &[(&path, Use::Read)]) else { return };
        assert!(sandbox.is_current());
        fs::rename(&path, directory.path().join("old")).unwrap();
        assert!(sandbox.is_current());
        fs::create_dir(&path).unwrap();
        assert!(!sandbox.is_current());
    }

    #[test]
    fn the_first_version_of_landlock_is_not_for_what_moves_files() {
        let reach = |use_of| Reach { paths: vec![("/".into(), use_of)], ports: None };
        assert!(suffices(1, &reach(Use::Read)) && suffices(2, &reach(Use::Change)));
        assert!(!suffices(1, &reach(Use::Change)));
    }

    #[test]
    fn what_the_kernel_lacks_is_left_out_and_said() {
        let without: Vec<String> = ["landlock", "seccomp"].map(str::to_owned).to_vec();
        let sandbox = Sandbox::new(&Reach::default(), &without).unwrap();
        assert_eq!(sandbox.kind(), Kind::default());
        assert!(sandbox.within(|| fs::read("/etc/passwd").is_ok()).unwrap());
        assert!(sandbox.kind().to_string().starts_with("none: "));
    }
}
