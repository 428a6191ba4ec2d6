//! `lamna import`: the configuration of another server as one of this.
//!
//! Owns: reading the file and saying how much was lost. What becomes of it is `config::import`'s.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;

use lamna_server::config::import;

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
    let is_caddyfile = name.to_ascii_lowercase().contains("caddyfile");
    // nginx looks for files beside its configuration.
    let beside = args.file.parent().map(Path::to_owned).unwrap_or_default();
    let read = |path: &str| std::fs::read_to_string(beside.join(path)).map_err(|error| error.to_string());
    let imported = match args.from.as_deref() {
        Some("caddy") => import::caddy(&text),
        None if is_caddyfile => import::caddy(&text),
        _ => import::nginx(&text, &read),
    };
    let hint = match args.from {
        None if !is_caddyfile => "\n  it was read as a configuration of nginx: for a Caddyfile say --from caddy",
        _ => "",
    };
    let imported = imported.map_err(|note| Failed {
        exit: Exit::Configuration,
        report: format!("{shown}:{}: {}{hint}", note.line, note.words),
    })?;
    io::stdout().write_all(imported.text.as_bytes())?;
    for note in &imported.lost {
        // With standard error closed, the list in the text has to do.
        _ = writeln!(io::stderr(), "{shown}:{}: not carried over: {}", note.line, note.words);
    }
    Ok(())
}
