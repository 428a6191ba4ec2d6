//! Document roots with files of the right names and sizes.
//!
//! Guarantees: nothing is written outside the directory; a file that is there with the right size is left alone, so
//! that an interrupted build goes on. The content is text that says its path, line by line, so that a wrong answer can
//! be seen.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use super::File;
use crate::load::plan::WEBSTONE;

/// Counts of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Built {
    /// Files that are there now with the right size.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that cannot be: their name leaves the directory, is too long, or is a directory of another file.
    pub impossible: u64,
}

/// A file or directory that could not be written.
#[derive(Debug)]
pub struct SiteError {
    /// Which.
    pub path: PathBuf,
    /// Why.
    pub error: io::Error,
}

impl fmt::Display for SiteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.error)
    }
}

impl std::error::Error for SiteError {}

/// Writes `files` below `directory`.
///
/// # Errors
/// The first failure that is not the name's fault: no permission, no space.
pub fn build(files: &[File], directory: &Path) -> Result<Built, SiteError> {
    let mut built = Built::default();
    let names: Vec<Option<PathBuf>> = files.iter().map(|file| name(&file.path)).collect();
    // What other files are in cannot be a file.
    let directories: HashSet<&Path> = names.iter().flatten().flat_map(|name| name.ancestors().skip(1)).collect();
    let mut made = HashSet::new();
    for (file, name) in files.iter().zip(&names) {
        let Some(name) = name.as_deref().filter(|name| !directories.contains(name)) else {
            built.impossible += 1;
            continue;
        };
        let path = directory.join(name);
        let failed = |error| SiteError { path: path.clone(), error };
        if let Some(parent) = name.parent().filter(|parent| !made.contains(*parent)) {
            fs::create_dir_all(directory.join(parent)).map_err(failed)?;
            made.insert(parent.to_owned());
        }
        write(&path, &file.path, file.bytes).map_err(failed)?;
        built.files += 1;
        built.bytes += file.bytes;
    }
    Ok(built)
}

/// The files of the WebSTONE mix.
pub fn webstone() -> Vec<File> {
    WEBSTONE.iter().map(|&(path, bytes, _)| File { path: path.to_owned(), bytes }).collect()
}

fn write(path: &Path, title: &str, bytes: u64) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == bytes) {
        return Ok(());
    }
    let file = fs::File::create(path)?;
    // Servers that give up root have to read it, whatever the umask.
    file.set_permissions(fs::Permissions::from_mode(0o644))?;
    let mut file = BufWriter::new(file);
    let (mut left, mut number) = (bytes, 0_u64);
    while left > 0 {
        let line = format!("{number:08x} {title}\n");
        let part = line.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        file.write_all(&line.as_bytes()[..part])?;
        (left, number) = (left - part as u64, number + 1);
    }
    file.flush()
}

/// The file that is served for a path, relative to the document root.
fn name(path: &str) -> Option<PathBuf> {
    let path = path.split('?').next()?;
    let mut name = percent_decode(path)?.trim_start_matches('/').to_owned();
    if name.is_empty() || name.ends_with('/') {
        name.push_str("index.html");
    }
    let fits = |component: Component<'_>| match component {
        Component::Normal(part) => part.len() <= 255,
        _ => false,
    };
    let valid = !name.contains(['\0', '\\']) && !name.contains("//") && Path::new(&name).components().all(fits);
    valid.then(|| name.into())
}

fn percent_decode(text: &str) -> Option<String> {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let digits = piece.get(..2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(path: &str, bytes: u64) -> File {
        File { path: path.into(), bytes }
    }

    #[test]
    fn files_have_their_names_and_sizes() {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let files = [file("/", 5), file("/a/b%20c.html?q", 100_000), file("/empty", 0)];
        let built = build(&files, directory.path()).expect("it can be written");
        assert_eq!(built, Built { files: 3, bytes: 100_005, impossible: 0 });
        let length = |name: &str| fs::metadata(directory.path().join(name)).map(|found| found.len()).ok();
        assert_eq!(length("index.html"), Some(5));
        assert_eq!(length("a/b c.html"), Some(100_000));
        assert_eq!(length("empty"), Some(0));
        assert_eq!(build(&files, directory.path()).ok(), Some(built));
    }

    #[test]
    fn names_that_cannot_be_are_counted() {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let long = format!("/{}", "x".repeat(300));
        let files = ["/../up", "/a/../../up", "/%2e%2e/up", "/a//b", &long, "/a", "/a/b", "/%ff", "/%00"];
        let files: Vec<File> = files.iter().map(|path| file(path, 1)).collect();
        let built = build(&files, directory.path()).expect("it can be written");
        assert_eq!((built.files, built.impossible), (1, 8));
        assert!(directory.path().join("a/b").is_file());
    }

    proptest! {
        #[test]
        fn no_path_leaves_the_directory(path in "(/|%2[eEfF]|\\.|[a-c]|%|\\PC){0,20}") {
            if let Some(name) = name(&format!("/{path}")) {
                prop_assert!(name.components().all(|component| matches!(component, Component::Normal(_))));
            }
        }
    }
}
