//! Expected content of answers: the files of a directory, beside the targets that ask for them.
//!
//! Guarantees: a path is looked up as a static file server does it (query dropped, percent-decoded, `index.html` for a
//! directory); nothing outside the directory is read. The files are held in memory for the length of the job.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use lamna_proto::parse::percent;

use super::plan::Target;

/// A target whose file cannot be read.
#[derive(Debug)]
pub struct ContentError {
    /// The target's path.
    pub path: String,
    /// Why.
    pub error: io::Error,
}

impl fmt::Display for ContentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is nothing to compare {} with: {}", self.path, self.error)
    }
}

impl std::error::Error for ContentError {}

/// Gives each of `targets` the content of its file below `directory`.
///
/// # Errors
/// The first target without a readable file.
pub fn attach_contents(targets: &mut [Target], directory: &Path) -> Result<(), ContentError> {
    let mut contents: HashMap<PathBuf, Arc<[u8]>> = HashMap::new();
    for target in targets {
        let failed = |error| ContentError { path: target.path.clone(), error };
        let file = file_of(&target.path, directory).map_err(failed)?;
        let content = match contents.get(&file) {
            Some(content) => content.clone(),
            None => fs::read(&file).map_err(failed)?.into(),
        };
        contents.insert(file, content.clone());
        target.content = Some(content);
    }
    Ok(())
}

fn file_of(path: &str, directory: &Path) -> io::Result<PathBuf> {
    let path = path.split('?').next().unwrap_or_default();
    let name = String::from_utf8(percent::decoded(path.as_bytes()).into_owned())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the path is not UTF-8"))?;
    let relative = Path::new(name.trim_start_matches('/'));
    if relative.components().any(|component| !matches!(component, Component::Normal(_))) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path leaves the directory"));
    }
    let file = directory.join(relative);
    Ok(if file.is_dir() { file.join("index.html") } else { file })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_looked_up_as_a_file_server_does() {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        fs::write(directory.path().join("index.html"), "").expect("it is ours");
        let root = directory.path();
        let found = |path| file_of(path, root).ok().and_then(|file| Some(file.strip_prefix(root).ok()?.to_owned()));
        assert_eq!(found("/"), Some("index.html".into()));
        assert_eq!(found("/a%20b/%63?x=%2f"), Some("a b/c".into()));
        assert_eq!(found("/%zz%4"), Some("%zz%4".into()));
        assert_eq!(found("/a/%2e%2e/b"), None);
    }
}
