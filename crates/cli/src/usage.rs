//! What is said to a command line that makes no sense, where clap would say something else than what helps.
//!
//! Owns: what people try that Lamna does not have, in one line each with what to do instead; words that look like commands;
//! and which suggestions are near enough to be meant. Everything else is said by clap.

use std::ffi::OsStr;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use lamna_server::config::suggest::nearest;

use crate::args::Cli;
use crate::exit::{Exit, Failed};

/// Flags of other servers, and what to do in the place of each.
const MISSING: [(&[&str], &str); 14] = [
    (
        &["tls", "https", "ssl", "cert", "certificate", "key", "tls-cert", "tls-key"],
        "Lamna does not speak TLS yet: put a proxy that does in front of it, and listen on loopback or on unix:PATH",
    ),
    (
        &["http2", "h2", "http3", "h3", "quic"],
        "Lamna speaks HTTP/1.1 only, yet: put a proxy that speaks others in front of it",
    ),
    (
        &["upload", "upload-files", "webdav"],
        "Lamna takes no uploads yet: it only reads files, which other programs have to write",
    ),
    (
        &["auth", "basic-auth", "htpasswd", "user", "password"],
        "Lamna asks for no passwords yet: have a proxy in front of it do so, or listen on loopback only",
    ),
    (
        &["header", "headers", "add-header"],
        "there is no flag for header fields: set `headers` of a [[site]] in a configuration file (docs/configuration.md)",
    ),
    (
        &["cors", "allow-origin"],
        "there is no flag for CORS: set Access-Control-Allow-Origin under `headers` of a [[site]] in a configuration file; \
         preflight requests are not answered yet",
    ),
    (&["open", "browser", "open-browser"], "Lamna opens no browser: open the address that it prints when it serves"),
    (
        &["proxy", "reverse-proxy", "upstream", "backend", "proxy-pass"],
        "Lamna is no proxy yet: it serves files; redirects are set in a configuration file",
    ),
    (
        &["port", "bind", "host", "address", "interfaces"],
        "where to listen is said with --listen, as in --listen 8080 or --listen 0.0.0.0:80",
    ),
    (&["root", "dir", "directory"], "the directory to serve is named without a flag, as in: lamna DIR"),
    (&["gzip", "brotli", "zstd"], "text is compressed unless that is switched off; --compress says into which codings"),
    (
        &["daemon", "daemonize", "background"],
        "Lamna stays in the foreground: have a service manager or the shell run it in the background",
    ),
    (&["autoindex", "listing", "list", "index-of"], "directories are listed with --browse"),
    (&["quiet", "silent"], "the access log is switched off with --log off"),
];

/// Commands whose flags are those of a server.
const SERVING: [&str; 2] = ["serve", "check"];

/// The command line. Prints help and ends for those who ask for it.
pub(crate) fn parse() -> Result<Cli, Failed> {
    let cli = Cli::try_parse().map_err(failed)?;
    match (&cli.command, cli.serve.directory()) {
        (None, Some(directory)) if !directory.exists() => match nearest_command(directory.as_os_str()) {
            Some(command) => {
                let directory = directory.display();
                Err(usage(format!(
                    "there is no directory and no command `{directory}`: did you mean `lamna {command}`?"
                )))
            }
            None => Ok(cli),
        },
        _ => Ok(cli),
    }
}

/// The command that a word was probably meant to be. A path is a path.
fn nearest_command(word: &OsStr) -> Option<String> {
    let word = word.to_str().filter(|word| !word.contains('/'))?;
    let command = Cli::command();
    let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    nearest(word, names).map(str::to_owned)
}

fn usage(report: String) -> Failed {
    Failed { exit: Exit::Usage, report: format!("lamna: {report}\n  For more information, try `lamna --help`.") }
}

fn failed(mut error: clap::Error) -> Failed {
    if !error.use_stderr() {
        // Help and version are what was asked for.
        error.exit();
    }
    let text = |error: &clap::Error, kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let words: Vec<String> = std::env::args().skip(1).collect();
    if error.kind() == ErrorKind::ArgumentConflict
        && let Some(second) =
            text(&error, ContextKind::InvalidSubcommand).or_else(|| text(&error, ContextKind::InvalidArg))
        && let Some(report) = two_directories(&words, &second)
    {
        return usage(report);
    }
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(flag) = text(&error, ContextKind::InvalidArg)
    {
        let name = flag.trim_start_matches('-').split('=').next().unwrap_or_default();
        if let Some(instead) = serves(&words).then(|| instead_of(name)).flatten() {
            return usage(instead.to_owned());
        }
        // Nobody means a flag as a value.
        error.remove(ContextKind::Suggested);
        let is_near = |suggested: String| nearest(name, [suggested.trim_start_matches('-')]).is_some();
        if !text(&error, ContextKind::SuggestedArg).is_some_and(is_near) {
            error.remove(ContextKind::SuggestedArg);
            error.remove(ContextKind::Usage);
        }
    }
    Failed { exit: Exit::Usage, report: error.render().to_string().trim_end().to_owned() }
}

/// What is said to `lamna WORD SECOND`, of which the first was taken for a directory.
fn two_directories(words: &[String], second: &str) -> Option<String> {
    let first = words.first()?;
    if let Some(command) = nearest_command(OsStr::new(first)) {
        return Some(format!("there is no command `{first}`: did you mean `lamna {command}`?"));
    }
    Some(format!(
        "one directory can be served, and `{second}` would be another: several are sites of a configuration file"
    ))
}

/// Whether the command line is one of a server, whose flags are meant.
fn serves(words: &[String]) -> bool {
    let command = Cli::command();
    let is_command = |word: &&String| command.find_subcommand(word).is_some();
    words.iter().find(is_command).is_none_or(|word| SERVING.contains(&word.as_str()))
}

fn instead_of(name: &str) -> Option<&'static str> {
    MISSING.iter().find(|(names, _)| names.contains(&name)).map(|(_, instead)| *instead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_to_be_missing_is() {
        let command = Cli::command();
        for name in MISSING.iter().flat_map(|(names, _)| *names) {
            assert!(command.get_arguments().all(|flag| flag.get_long() != Some(name)), "--{name}");
        }
    }
}
