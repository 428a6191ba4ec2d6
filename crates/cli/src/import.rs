//! `lamna import`: the configuration of another server as one of this.
//!
//! Owns: reading the file and saying how much was lost. What becomes of it is `lamna-import`'s.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use lamna_import::{Files, Kind, Note};

use crate::args::ImportArgs;
use crate::exit::{Exit, Failed};

/// Prints what comes of the file.
pub(crate) fn run(args: &ImportArgs) -> Result<(), Failed> {
    let shown = args.file.display();
    let text = std::fs::read_to_string(&args.file).map_err(|error| {
        let exit = match error.kind() {
            io::ErrorKind::PermissionDenied => Exit::NoPermission,
            _ => Exit::Configuration,
        };
        Failed { exit, report: format!("{shown}: cannot be read: {error}") }
    })?;
    let name = args.file.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let kind = args.from.as_deref().and_then(Kind::named).unwrap_or_else(|| Kind::of(name, &text));
    // nginx looks for files beside its configuration. One that is included there is in a folder beneath.
    let folders: Vec<&Path> = args.file.ancestors().skip(1).take(FOLDERS_MAX).collect();
    let found = |path: &str| folders.iter().map(|folder| folder.join(path)).find(|path| path.exists());
    let read = |path: &str| {
        let file = found(path).unwrap_or_else(|| PathBuf::from(path));
        std::fs::read_to_string(file).map_err(|error| error.to_string())
    };
    let list = |pattern: &str| {
        folders
            .iter()
            .map(|folder| files_like(&folder.join(pattern)))
            .find(|found| !found.is_empty())
            .unwrap_or_default()
    };
    let files = Files { read: &read, list: &list };
    let options = lamna_import::ApacheOptions {
        folder: args.root.as_ref().map(|root| root.display().to_string()),
        php: args.php.clone(),
    };
    let imported = match kind {
        Kind::Caddy => lamna_import::caddy(&text),
        Kind::Haproxy => lamna_import::haproxy(&text, files),
        Kind::Nginx => lamna_import::nginx(&text, files),
        Kind::Apache => lamna_import::apache(&text, files, &options),
    };
    let hint = match (&args.from, kind) {
        (Some(_), _) => "",
        (None, Kind::Nginx) => {
            "\n  it was read as a configuration of nginx: --from says whose it is, as in --from caddy"
        }
        (None, Kind::Caddy) => "\n  it was read as a Caddyfile: --from says whose it is",
        (None, Kind::Haproxy) => "\n  it was read as a configuration of HAProxy: --from says whose it is",
        (None, Kind::Apache) => "\n  it was read as a configuration of Apache: --from says whose it is",
    };
    let place = |note: &Note| match &note.file {
        Some(file) => format!("{file}:{}", note.line),
        None => format!("{shown}:{}", note.line),
    };
    let imported = imported.map_err(|note| Failed {
        exit: Exit::Configuration,
        report: format!("{}: {}{hint}", place(&note), note.words),
    })?;
    io::stdout().write_all(imported.text.as_bytes())?;
    for note in &imported.lost {
        // With standard error closed, the list in the text has to do.
        _ = writeln!(io::stderr(), "{}: not carried over: {}", place(note), note.words);
    }
    Ok(())
}

/// The folder of a configuration, and those around it, in which what it names is looked for.
const FOLDERS_MAX: usize = 3;

/// The files that a pattern of a shell stands for, in the order of their names. Stars and the like are in the last part
/// of it.
fn files_like(pattern: &Path) -> Vec<String> {
    let (Some(folder), Some(name)) = (pattern.parent(), pattern.file_name().and_then(OsStr::to_str)) else {
        return Vec::new();
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let fits = |entry: &std::fs::DirEntry| {
        entry.file_name().to_str().is_some_and(|one| !one.starts_with('.') && is_like(name.as_bytes(), one.as_bytes()))
    };
    let mut found: Vec<String> =
        entries.filter(fits).filter_map(|entry| entry.path().to_str().map(str::to_owned)).collect();
    found.sort_unstable();
    found
}

/// Whether `*` and `?` in `pattern` can stand for what is in `name` in their place.
fn is_like(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => (0..=name.len()).any(|at| is_like(rest, &name[at..])),
        (Some((b'?', rest)), Some((_, others))) => is_like(rest, others),
        (Some((one, rest)), Some((other, others))) => one == other && is_like(rest, others),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stand_for_the_names_that_fit() {
        for (pattern, name, fits) in [
            ("*", "a", true),
            ("*.conf", "a.conf", true),
            ("*.conf", "a.conf.bak", false),
            ("a?", "ab", true),
            ("a?", "a", false),
        ] {
            assert_eq!(is_like(pattern.as_bytes(), name.as_bytes()), fits, "{pattern} {name}");
        }
    }
}
