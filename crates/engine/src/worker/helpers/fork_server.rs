//! The fork server: a process that forks helper processes for AMPED workers, and the life of a helper process (Flash
//! 3.4).
//!
//! Owns: the processes, which hold no socket of the server and nothing of its memory that matters. Guarantees: they end
//! when those they work for do, because their sockets end; a helper brings names and file content into memory that all
//! processes have in common, the kernel's, and returns a notification and nothing else.
//!
//! A fork server is forked while its server has one thread, because later it could not fork: helpers are forked by it
//! when they are needed. `helper_processes` is the worker's side.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use lamna_config as config;
use lamna_config::service::What;
use lamna_config::settings::Settings;
use lamna_io::{KernelFeatures, Wait, read, scm_rights};
use lamna_site::cache::Store;
use lamna_site::content::listing::View;
use lamna_site::content::route::Routes;
use lamna_site::content::site::Sites;
use lamna_site::content::translate::{Translation, translate};
use lamna_sys::clock::Clock;
use lamna_sys::fork::fork_bare;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};

use crate::worker::cache_key::CacheKeyParts;
use crate::worker::confinement::Confinement;

/// The way to a fork server, which ends when this does.
#[derive(Debug)]
pub struct ForkServer {
    socket: OwnedFd,
    /// How many helpers have been asked for: the number of the next.
    helpers: AtomicU64,
}

/// First bytes of what a fork server is asked. The number of a helper follows.
const BEGIN: u8 = b'b';
const KILL: u8 = b'k';

/// A task for a helper: something to bring into memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task<'a> {
    /// The names that a target stands for, and the content of a small file.
    Translate {
        /// Index of the site.
        site: u32,
        /// The key by which caches find it.
        key: &'a [u8],
    },
    /// A range of the file that is passed with it.
    PageIn {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
}

/// The byte that a helper sends when it is done.
pub const DONE: u8 = b'd';
/// The byte that it sends when reading failed.
pub const FAILED: u8 = b'f';

/// Helpers read large ranges through a buffer of this many bytes.
const SCRATCH_BYTES: usize = 64 * 1024;

impl ForkServer {
    /// Forks a fork server whose helpers look names up as `settings` say. To be called before this process has threads.
    ///
    /// # Errors
    /// No descriptors, memory or processes; `EDEADLK` if there are threads; `EINVAL` for settings that no text can say.
    pub fn start(settings: &Settings) -> Result<ForkServer, Errno> {
        let text = to_text(settings);
        of_text(&text).ok_or(Errno::INVAL)?;
        let (socket, other) = scm_rights::pair()?;
        fork_bare(&other, &text, |requests, settings| {
            nurse(requests, settings);
            0
        })?;
        Ok(ForkServer { socket, helpers: AtomicU64::new(0) })
    }

    /// A new helper and its number: give it tasks over this socket, one at a time. It ends with it.
    ///
    /// # Errors
    /// No descriptors or memory, or the fork server is gone. A helper that could not be forked is found to be gone.
    pub fn helper(&self) -> Result<(OwnedFd, u64), Errno> {
        let (ours, of_helper) = scm_rights::pair()?;
        let number = self.helpers.fetch_add(1, Relaxed);
        scm_rights::send(self.socket.as_fd(), &request(BEGIN, number), Some(of_helper.as_fd()))?;
        Ok((ours, number))
    }

    /// Has a helper killed that may never look at its socket again. The fork server does it: it is the parent, so that
    /// the process id cannot be another process's meanwhile.
    pub fn kill(&self, number: u64) {
        // If the fork server is gone, nobody can.
        let _ = scm_rights::send(self.socket.as_fd(), &request(KILL, number), None);
    }
}

fn request(kind: u8, number: u64) -> Vec<u8> {
    [&[kind], &number.to_ne_bytes()[..]].concat()
}

/// Settings as a process reads them that keeps nothing but a text of what it was forked from: a line of what it does
/// without, the files that it was read from, and the configuration. A filter of the program itself cannot be said in
/// one: its results are another process's in any case.
fn to_text(settings: &Settings) -> String {
    let mut settings = settings.clone();
    for service in settings.services.iter_mut().filter(|service| service.what == What::Embedded) {
        service.what = What::Absent;
    }
    let read_files: Vec<_> = settings.read_files.iter().map(|file| file.to_string_lossy()).collect();
    format!("{}\n{}\0\0{}", settings.without.join(","), read_files.join("\0"), config::render(&settings))
}

/// The inverse; none if it is no such text.
fn of_text(text: &str) -> Option<Settings> {
    let (without, text) = text.split_once('\n')?;
    // No name has a zero, and none is empty.
    let (read_files, text) = text.split_once("\0\0")?;
    let read_files = read_files.split('\0').filter(|file| !file.is_empty()).map(PathBuf::from).collect();
    let without = without.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    Some(Settings { without, read_files, ..config::parse_unseen(text, Path::new("settings")).ok()? })
}

/// The life of a fork server.
fn nurse(requests: &OwnedFd, text: &str) {
    let Some(settings) = of_text(text) else { return };
    let mut helpers: HashMap<u64, Pid> = HashMap::new();
    let mut message = Vec::new();
    // Its helpers are confined with it. The server has said what kept it from that.
    let Ok(confinement) = Confinement::of(&settings) else { return };
    if confinement.workers.enter().is_err() {
        return;
    }
    while let Ok(tasks) = scm_rights::receive(requests.as_fd(), &mut message, true) {
        let Some((kind, number)) = message.split_first() else { break };
        let Ok(number) = number.try_into().map(u64::from_ne_bytes) else { break };
        match (*kind, tasks) {
            (BEGIN, Some(tasks)) => {
                let help = |tasks: &OwnedFd, text: &str| i32::from(help(tasks, text).is_none());
                // If it cannot be forked, its socket is closed, and that says so.
                if let Ok(id) = fork_bare(&tasks, text, help) {
                    helpers.insert(number, id);
                }
            }
            _ => {
                if let Some(id) = helpers.get(&number) {
                    // It has not been waited for, so the id is its own, also if it has ended.
                    let _ = kill_process(*id, Signal::KILL);
                }
            }
        }
        // Those that have ended.
        while let Ok(Some((ended, _))) = wait(WaitOptions::NOHANG) {
            helpers.retain(|_, id| *id != ended);
        }
    }
}

/// The life of a helper. None if it could not begin.
fn help(tasks: &OwnedFd, text: &str) -> Option<()> {
    let settings = of_text(text)?;
    // Whoever works with these settings has seen the same errors, and reported them.
    let sites = Sites::open(&settings).ok()?;
    let abilities = KernelFeatures::without(&settings.without).ok()?;
    let clock = Clock::start();
    let mut message = Vec::new();
    let mut scratch = vec![0; SCRATCH_BYTES];
    while let Ok(file) = scm_rights::receive(tasks.as_fd(), &mut message, true) {
        let Some(task) = Task::decode(&message) else { break };
        let done = match (task, file) {
            (Task::Translate { site, key }, _) => {
                let (site, parts) = (sites.at(site), CacheKeyParts::of(key));
                let translation = Translation {
                    site,
                    rules: &site.routes.effective(parts.path, parts.outcome),
                    host: Routes::host_of(parts.outcome),
                    recipe: Routes::recipe_of(parts.outcome),
                    path: parts.path,
                    before_encoded_slash: parts.before_encoded_slash,
                    view: View::default(),
                    wait: Wait::Yes,
                    makes_until: None,
                    request: "",
                    previous: None,
                    now_ms: clock.now().ms(),
                    abilities: &abilities,
                    // The worker takes it from the page cache.
                    holder: None,
                    store: None,
                    content_bytes_max: Store::content_bytes_max_of(settings.cache_bytes_max, settings.caches),
                    caches: settings.caches,
                };
                // What is found is of no use here: the worker finds it again, and no longer has to wait.
                translate(&translation).is_ok()
            }
            (Task::PageIn { offset, length }, Some(file)) => {
                read::page_in(file.as_fd(), offset, length, &mut scratch).is_ok()
            }
            (Task::PageIn { .. }, None) => false,
        };
        let notification = if done { DONE } else { FAILED };
        if scm_rights::send(tasks.as_fd(), &[notification], None).is_err() {
            break;
        }
    }
    Some(())
}

/// First bytes of tasks.
const TRANSLATE: u8 = b't';
const PAGE_IN: u8 = b'p';

impl<'a> Task<'a> {
    /// The task as a message.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Task::Translate { site, key } => [&[TRANSLATE], &site.to_ne_bytes()[..], key].concat(),
            Task::PageIn { offset, length } => [&[PAGE_IN], &offset.to_ne_bytes()[..], &length.to_ne_bytes()].concat(),
        }
    }

    /// The task of a message; none if it is none.
    pub fn decode(message: &'a [u8]) -> Option<Task<'a>> {
        let (kind, rest) = message.split_first()?;
        match *kind {
            TRANSLATE => {
                let (site, key) = rest.split_first_chunk()?;
                Some(Task::Translate { site: u32::from_ne_bytes(*site), key })
            }
            PAGE_IN => {
                let (offset, rest) = rest.split_first_chunk()?;
                let length = rest.try_into().ok()?;
                Some(Task::PageIn { offset: u64::from_ne_bytes(*offset), length: u64::from_ne_bytes(length) })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_helper_process_has_the_settings_of_its_server() {
        let text = "caches = \"content\"\n[[service]]\nname = \"a\"\ngateway = true\n[[site]]\nroot = \"/srv/a b\"\nspa = true\n";
        let settings = config::parse_unseen(text, Path::new("settings")).unwrap();
        let settings = Settings {
            without: vec!["nowait".to_owned(), "openat2".to_owned()],
            read_files: vec!["/a\nb".into(), "/c".into()],
            ..settings
        };
        assert_eq!(of_text(&to_text(&settings)).as_ref(), Some(&settings));
        let everything = Settings { without: Vec::new(), read_files: Vec::new(), ..settings };
        assert_eq!(of_text(&to_text(&everything)), Some(everything));
    }

    #[test]
    fn a_task_arrives_as_it_was_given() {
        for task in [
            Task::Translate { site: 1, key: b"/a" },
            Task::Translate { site: 0, key: b"" },
            Task::PageIn { offset: 1 << 40, length: 1 },
        ] {
            assert_eq!(Task::decode(&task.encode()), Some(task));
        }
    }

    proptest! {
        #[test]
        fn any_message_is_a_task_or_none(message in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some(task) = Task::decode(&message) {
                prop_assert_eq!(task.encode(), message.clone());
            }
        }
    }
}
