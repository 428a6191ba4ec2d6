//! The files that the server itself uses, and where beneath a site they are: no client reads or changes them.
//!
//! Owns: [`of`], which lists what settings name, and [`OwnPath`], a path of a site that stands for one. Guarantees:
//! every file that the configuration names for the server's own use is in the list, and so is the configuration; a file
//! counts wherever it is by its name, by the name of its directory and by the target of a link. Looks at links, and
//! opens nothing. Does not know the directories of users. The pages, scripts and rules of a site are not among them: a
//! setting that names those serves them, or hides them otherwise.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use lamna_proto::parse::path;

use super::access_log::AccessLogs;
use super::address::AdminAddress;
use super::gateway::{GatewaySettings, ProgramPlace};
use super::hints::state_file;
use super::service::What;
use super::settings::{ListenAddress, Settings, SiteSettings, SiteTls};
use super::state::state_directory;
use super::upstream_address::Place;

/// How far the server's use reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// The file alone.
    File,
    /// The file, and what it becomes when it is rotated: names that go on with `.` or `-`.
    Log,
    /// Everything beneath the directory.
    Directory,
}

/// A path of a site that stands for something that the server itself uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPath {
    path: Vec<u8>,
    reach: Reach,
}

impl OwnPath {
    /// Whether `path`, which is normalised, stands for it, or for something of it.
    pub fn covers(&self, path: &[u8]) -> bool {
        let path = path.strip_suffix(b"/").unwrap_or(path);
        match (path.strip_prefix(&*self.path), self.reach) {
            (Some([]), _) | (Some([b'/', ..]), Reach::Directory) => true,
            (Some(rest @ [b'.' | b'-', ..]), Reach::Log) => !rest.contains(&b'/'),
            _ => false,
        }
    }

    /// The path.
    pub fn path(&self) -> &[u8] {
        &self.path
    }
}

/// The paths of `site` that stand for something that the server of `settings` itself uses.
pub fn of(settings: &Settings, site: &SiteSettings) -> Vec<OwnPath> {
    let aliases = site.aliases.iter().map(|alias| (alias.prefix.as_bytes(), &*alias.root));
    let root = site.has_root().then_some((&b"/"[..], &*site.root));
    let roots: Vec<(&[u8], &Path, PathBuf)> = aliases
        .chain(root)
        .map(|(prefix, root)| (prefix, root, root.canonicalize().unwrap_or_else(|_| root.to_owned())))
        .collect();
    let mut own: Vec<OwnPath> = Vec::new();
    for (file, reach) in files(settings) {
        for place in places(&file) {
            for (prefix, root, real) in &roots {
                let Ok(name) = place.strip_prefix(real).or_else(|_| place.strip_prefix(root)) else { continue };
                let path = [prefix, name.as_os_str().as_bytes()].concat();
                // Beneath a longer prefix that path is something else.
                let is_elsewhere =
                    roots.iter().any(|(other, ..)| other.len() > prefix.len() && path.starts_with(other));
                let one = OwnPath { path, reach };
                // A root within a directory of the server's is what the operator wants served.
                let is_beneath =
                    name.file_name().is_some() && !name.components().any(|part| part == Component::ParentDir);
                if is_beneath && !is_elsewhere && !own.contains(&one) {
                    own.push(one);
                }
            }
        }
    }
    own
}

/// Whether the sites of `one`, once they are open, are those of `other`: in what they serve, and in the files of the
/// server that they do not.
pub fn same_sites(one: &Settings, other: &Settings) -> bool {
    one.sites == other.sites && one.compression == other.compression && files(one) == files(other)
}

/// Whether the sites of `one` keep the same paths from clients as those of `other`, of the same number: files elsewhere
/// may differ.
pub fn hide_the_same(one: &Settings, other: &Settings) -> bool {
    let pairs = || one.sites.iter().zip(&other.sites);
    one.sites.len() == other.sites.len() && pairs().all(|(site, before)| of(one, site) == of(other, before))
}

/// A line about those that are beneath a root.
pub(super) fn warning(name: &str, own: &[OwnPath]) -> Option<String> {
    /// Paths that are said.
    const SAID_MAX: usize = 3;
    let mut shown: Vec<String> = Vec::new();
    for one in own.iter().filter(|one| !path::is_hidden(&one.path)) {
        shown.push(format!("`{}`", String::from_utf8_lossy(&one.path).escape_debug()));
    }
    let more = match shown.len().saturating_sub(SAID_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let first = shown.first()?;
    let all = if shown.len() == 1 { first.clone() } else { shown[..shown.len().min(SAID_MAX)].join(", ") };
    Some(format!(
        "the root of {name} has files that the server itself uses: {all}{more}. No client reads or changes them, but they are safer outside of \
         the root"
    ))
}

/// All that the server itself uses.
fn files(settings: &Settings) -> Vec<(PathBuf, Reach)> {
    let mut logs: Vec<PathBuf> = settings.error_log.file.iter().cloned().collect();
    logs.extend(AccessLogs::files(settings));
    let mut files: Vec<PathBuf> = settings.read_files.clone();
    files.extend(settings.admin.token_file.clone());
    files.extend(settings.profile_file.clone());
    files.extend(settings.acme.roots.clone());
    files.extend(state_file(settings));
    if let AdminAddress::At(ListenAddress::Unix(socket)) = &settings.admin.address {
        files.push(socket.clone());
    }
    files.extend(settings.listen.iter().filter_map(|one| one.at.socket().map(Path::to_owned)));
    files.extend(settings.services.iter().filter_map(|service| match &service.what {
        What::Native(native) => Some(native.object.clone()),
        What::Wasm(wasm) => Some(wasm.component.clone()),
        What::Absent | What::Embedded | What::Gateway | What::Chain(_) => None,
    }));
    for site in &settings.sites {
        if let Some(SiteTls::Files(tls)) = &site.tls {
            files.extend([tls.certificate.clone(), tls.key.clone()]);
            files.extend(tls.client_ca.as_ref().map(|client_ca| client_ca.file.clone()));
        }
        site.gateways().for_each(|gateway| add_gateway(gateway, &mut files));
    }
    let directories = state_directory().into_iter().map(|directory| (directory, Reach::Directory));
    let logs = logs.into_iter().map(|log| (log, Reach::Log));
    files.into_iter().map(|file| (file, Reach::File)).chain(logs).chain(directories).collect()
}

fn add_gateway(gateway: &GatewaySettings, files: &mut Vec<PathBuf>) {
    files.extend(gateway.tls.ca.clone());
    files.extend(gateway.command.iter().map(|command| command.socket.clone()));
    files.extend(gateway.programs.iter().filter_map(|program| match &program.place {
        ProgramPlace::Socket(socket) => Some(socket.clone()),
        ProgramPlace::Port(_) => None,
    }));
    files.extend(gateway.upstreams.iter().filter_map(|upstream| match &upstream.address.place {
        Place::Unix(socket) => Some(socket.clone()),
        _ => None,
    }));
}

/// The names of `file`: as it is called, in the directory where it really is, and of what it leads to.
fn places(file: &Path) -> Vec<PathBuf> {
    let in_directory = || {
        let (directory, name): (&Path, &OsStr) = (file.parent()?, file.file_name()?);
        Some(directory.canonicalize().ok()?.join(name))
    };
    let mut places = vec![file.to_owned()];
    places.extend(in_directory());
    places.extend(file.canonicalize().ok());
    places.dedup();
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn own(lines: &str, prepare: impl Fn(&Path)) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("site/real")).unwrap();
        prepare(&base);
        let file = base.join("site/lamna.toml");
        fs::write(
            &file,
            format!("{lines}\n[[site]]\nroot = \".\"\nalias = [{{ prefix = \"/up/\", root = \"..\" }}]\n"),
        )
        .unwrap();
        let settings = crate::load(Some(&file), &crate::Overrides::default()).unwrap();
        let own = of(&settings, &settings.sites[0]);
        own.iter().map(|one| String::from_utf8(one.path.clone()).unwrap()).collect()
    }

    #[test]
    fn a_file_of_the_server_is_at_each_of_its_paths() {
        assert_eq!(own("", |_| ()), ["/up/site/lamna.toml", "/lamna.toml"]);
        let found = own("log = \"link/a.log\"", |base| symlink("real", base.join("site/link")).unwrap());
        for path in ["/link/a.log", "/real/a.log", "/up/site/real/a.log"] {
            assert!(found.iter().any(|one| one == path), "{path}: {found:?}");
        }
    }

    #[test]
    fn the_target_of_a_link_is_as_much_as_the_link() {
        let found = own("error_log = \"errors\"", |base| {
            fs::write(base.join("site/real/errors"), "t").unwrap();
            symlink("real/errors", base.join("site/errors")).unwrap();
        });
        assert!(found.contains(&"/errors".to_owned()) && found.contains(&"/real/errors".to_owned()), "{found:?}");
    }

    #[test]
    fn logs_are_covered_with_their_rotations_and_directories_with_all_beneath() {
        let covers = |reach, path: &str| OwnPath { path: b"/a/log".to_vec(), reach }.covers(path.as_bytes());
        for reach in [Reach::File, Reach::Log, Reach::Directory] {
            assert!(covers(reach, "/a/log") && covers(reach, "/a/log/"));
            assert!(!covers(reach, "/a/logs") && !covers(reach, "/a") && !covers(reach, "/b/a/log"));
            assert_eq!(covers(reach, "/a/log.1.gz"), reach == Reach::Log);
            assert_eq!(covers(reach, "/a/log-20260101"), reach == Reach::Log);
            assert_eq!(covers(reach, "/a/log/b"), reach == Reach::Directory);
            assert!(!covers(reach, "/a/log.d/b"));
        }
    }
}
