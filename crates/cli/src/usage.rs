//! Messages for a command line that makes no sense, where clap's would not help.
//!
//! Owns: what people try that Lamna does not have, in one line each with what to do instead; words that look like
//! commands; and which suggestions are near enough to be meant. Everything else is said by clap.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use lamna_server::config::settings::ListenAddress;
use lamna_server::config::suggest::nearest;

use crate::args::{Cli, Command};
use crate::exit::{Exit, Failed};
use crate::setting_args::as_flags;

/// Flags of other servers, and what to do in the place of each.
const MISSING: [(&[&str], &str); 19] = [
    (
        &["https", "ssl", "cert", "tls-cert", "tls-key"],
        "TLS is --domain NAME for a public site, --certificate FILE and --key FILE, or --tls for a certificate that only this \
         machine knows",
    ),
    (&["acme", "letsencrypt", "lets-encrypt", "auto-tls", "auto-https"], "certificates are ordered for --domain NAME"),
    (&["email", "acme-email"], "the address that a certificate authority may write to is --acme-contact EMAIL"),
    (&["http2", "h2"], "HTTP/2 is spoken over TLS by itself, and in clear text with --h2c"),
    (&["http3", "h3", "quic"], "Lamna speaks no HTTP/3 yet: put a proxy that does in front of it"),
    (&["upload-files", "uploads"], "clients store files where --upload is given"),
    (&["dav"], "a directory is mounted with --webdav; --upload, --delete and --mkdir say what clients change in it"),
    (
        &["basic-auth", "htpasswd", "password"],
        "a password is asked for with --auth NAME:PASSWORD, or where the configuration of a site says so with `access`",
    ),
    (&["headers", "add-header"], "fields of answers are set with --header, as in --header 'X-Frame-Options: DENY'"),
    (&["allow-origin", "enable-cors"], "other origins are allowed with --cors, or --cors=ORIGIN for one of them"),
    (&["browser", "open-browser", "launch"], "the site is opened in the browser with --open"),
    (
        &["reverse-proxy", "upstream", "backend", "proxy-pass"],
        "requests are passed on to an application with --proxy, as in --proxy http://127.0.0.1:3000",
    ),
    (
        &["php", "php-fpm", "fpm", "fastcgi-pass"],
        "PHP is run by php-fpm, with --fastcgi, as in --fastcgi unix:/run/php/php-fpm.sock",
    ),
    (
        &["bind", "host", "address", "interfaces", "interface"],
        "where to listen is said with --listen, as in --listen :8080, or with --port for this machine alone",
    ),
    (&["root", "dir", "directory"], "the directory to serve is named without a flag, as in: lamna DIR"),
    (&["gzip", "brotli", "zstd"], "text is compressed unless that is switched off; --compress says into which codings"),
    (
        &["daemon", "daemonize", "background"],
        "Lamna stays in the foreground: have a service manager or the shell run it in the background",
    ),
    (&["autoindex", "listing", "list", "index-of"], "directories are listed with --browse"),
    (&["silent"], "--quiet prints only what is wrong"),
];

/// Words that other programs have as commands, and what to say in the place of each.
const WORDS: [(&[&str], &str); 7] = [
    (&["version"], "lamna --version"),
    (&["start", "run", "server", "up", "http", "file-server"], "lamna serve"),
    (&["stop", "quit", "shutdown", "kill", "down"], "lamna ctl drain"),
    (&["status", "info", "ps"], "lamna ctl status"),
    (&["reload", "restart"], "lamna ctl reload"),
    (&["test", "validate", "verify", "lint", "config"], "lamna check"),
    (&["stats", "metrics", "top"], "lamna ctl stats"),
];

/// Commands whose flags are those of a server.
const SERVING: [&str; 3] = ["serve", "check", "explain"];

/// Flags that `-h` shows of a server, which has more of them than a screen has lines.
const SHOWN: [&str; 13] = [
    "directory",
    "config",
    "listen",
    "port",
    "browse",
    "upload",
    "auth",
    "proxy",
    "fastcgi",
    "spa",
    "domains",
    "tls",
    "quiet",
];

/// Commands of the laboratory, which `-h` leaves out.
const LABORATORY: [&str; 5] = ["tune", "load", "replay", "lab", "sim"];

/// The command line. Prints help and ends for those who ask for it.
pub(crate) fn parse() -> Result<Cli, Failed> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(help) = short_help(&words) {
        // A reader that has left wants none.
        let _ = std::io::stdout().write_all(help.as_bytes());
        std::process::exit(0);
    }
    let cli = Cli::try_parse_from(as_flags(std::env::args_os())).map_err(failed)?;
    let (directory, is_command_possible) = match &cli.command {
        None => (cli.serve.directory(), true),
        Some(Command::Serve(args)) => (args.directory(), false),
        Some(Command::Check(args)) => (args.serve.directory(), false),
        Some(Command::Explain(args)) => (args.serve.directory(), false),
        Some(_) => return Ok(cli),
    };
    let Some(directory) = directory else { return Ok(cli) };
    let shown = directory.display();
    if directory.is_file() {
        let is_configuration = directory.extension().is_some_and(|extension| extension == "toml");
        return Err(usage(match is_configuration {
            true => format!(
                "`{shown}` is a file: a configuration is named with --config, as in: lamna serve --config {shown}"
            ),
            false => format!("`{shown}` is a file: name the directory that it is in"),
        }));
    }
    if directory.exists() {
        return Ok(cli);
    }
    let report = directory.to_str().and_then(|word| instead_of_directory(word, is_command_possible));
    report.map_or(Ok(cli), |report| Err(usage(report)))
}

/// Help of one screen, where `-h` asks for that of a command with the flags of a server.
fn short_help(words: &[String]) -> Option<String> {
    let asks = words.iter().take_while(|word| *word != "--").any(|word| word == "-h");
    let mut root = Cli::command();
    let is_command = |word: &&String| root.find_subcommand(word).is_some();
    let name = words.iter().find(is_command).filter(|_| asks).cloned();
    match name {
        _ if !asks => return None,
        Some(name) if !SERVING.contains(&&*name) => return None,
        _ => {}
    }
    root.build();
    let command = match &name {
        Some(name) => root.find_subcommand_mut(name)?.clone(),
        None => LABORATORY.iter().fold(root, |root, name| root.mut_subcommand(name, |one| one.hide(true))),
    };
    // Those of the command itself, beside the flags of a server, are few.
    let of_server: Vec<String> = Cli::command()
        .get_arguments()
        .map(|one| one.get_id().to_string())
        .filter(|one| !SHOWN.contains(&&**one))
        .collect();
    let shortened = command.mut_args(|one| {
        let is_left_out = of_server.iter().any(|id| *one.get_id() == **id);
        let first = one.get_help().map(|help| first_sentence(&help.to_string()).to_owned());
        let one = if is_left_out { one.hide(true) } else { one };
        first.map_or(one.clone(), |first| one.help(first)).hide_possible_values(true).hide_default_value(true)
    });
    let more = format!(
        "All flags: lamna {}--help. Documentation: docs/README.md",
        name.map_or(String::new(), |name| name + " ")
    );
    Some(shortened.after_help(more).render_help().to_string())
}

/// The first sentence of a help text, without its examples.
fn first_sentence(text: &str) -> &str {
    let ends = [". ", ": ", ", as in ", " [default"];
    ends.iter().filter_map(|end| text.find(end)).min().map_or(text, |at| &text[..at])
}

/// The message for `word`, which stands where a directory belongs and is none. Nothing if it looks like one.
fn instead_of_directory(word: &str, is_command_possible: bool) -> Option<String> {
    let nothing = format!("there is no directory `{word}`");
    if word.parse::<u16>().is_ok() {
        return Some(format!("{nothing}: for the port, say --port {word}"));
    }
    if word.parse::<ListenAddress>().is_ok() {
        return Some(format!("{nothing}: where to listen is said with --listen {word}"));
    }
    if word.starts_with("http://") || word.starts_with("https://") {
        return Some(format!(
            "{nothing}: `lamna explain {word}` says what is answered there, `lamna load {word}` asks a server"
        ));
    }
    let word = Some(word).filter(|_| is_command_possible)?;
    let nothing = format!("there is no directory and no command `{word}`");
    if let Some((_, instead)) = WORDS.iter().find(|(words, _)| words.contains(&word)) {
        return Some(format!("{nothing}: did you mean `{instead}`?"));
    }
    nearest_command(OsStr::new(word)).map(|command| format!("{nothing}: did you mean `lamna {command}`?"))
}

/// The command that a word was probably meant to be. A path is a path.
fn nearest_command(word: &OsStr) -> Option<String> {
    let word = word.to_str().filter(|word| !word.contains('/'))?;
    let command = Cli::command();
    let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    nearest(word, names).map(str::to_owned)
}

/// The flag that `name` was probably meant to be, of the command that `words` name.
fn nearest_flag(words: &[String], name: &str) -> Option<String> {
    if name.len() < 2 {
        return None;
    }
    let root = Cli::command();
    let command = words.iter().find_map(|word| root.find_subcommand(word)).unwrap_or(&root);
    nearest(name, command.get_arguments().filter_map(clap::Arg::get_long)).map(str::to_owned)
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
        // Two flags that exclude each other are no directories.
        && !second.starts_with('-')
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
        // No user means a flag as a value.
        error.remove(ContextKind::Suggested);
        let is_near = |suggested: String| nearest(name, [suggested.trim_start_matches('-')]).is_some();
        if !text(&error, ContextKind::SuggestedArg).is_some_and(is_near) {
            if let Some(near) = nearest_flag(&words, name) {
                return usage(format!("there is no flag `{flag}`: did you mean `--{near}`?"));
            }
            error.remove(ContextKind::SuggestedArg);
            error.remove(ContextKind::Usage);
        }
    }
    Failed { exit: Exit::Usage, report: error.render().to_string().trim_end().to_owned() }
}

/// The message for `lamna WORD SECOND`, of which the first was taken for a directory.
fn two_directories(words: &[String], second: &str) -> Option<String> {
    let first = words.first()?;
    if let Some(number) = [first, second].into_iter().find(|word| word.parse::<u16>().is_ok()) {
        return Some(format!("one directory can be served: for the port, say --port {number}"));
    }
    let of_first = WORDS.iter().find(|(words, _)| words.contains(&&**first));
    if let Some((_, instead)) = of_first.filter(|_| !Path::new(first).exists()) {
        return Some(format!("there is no command `{first}`: did you mean `{instead}`?"));
    }
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
    fn a_mistyped_flag_finds_the_one_that_was_meant() {
        let near = |words: &[&str], name: &str| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            nearest_flag(&words, name)
        };
        assert_eq!(near(&["site", "--tsl"], "tsl").as_deref(), Some("tls"));
        assert_eq!(near(&["serve", "--brwose"], "brwose").as_deref(), Some("browse"));
        assert_eq!(near(&["import", "--form", "caddy"], "form").as_deref(), Some("from"));
        assert_eq!(near(&["--nothing-like-it"], "nothing-like-it"), None);
    }

    #[test]
    fn short_help_has_one_screen_for_each_command_of_a_server() {
        for line in ["-h", "serve -h", "check site -h", "-h explain"] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let help = short_help(&words).unwrap();
            assert!(help.lines().count() <= 48, "{line}: {help}");
            assert!(
                help.contains("--config") && help.contains("--help. Doc") && !help.contains("--cache-bytes"),
                "{help}"
            );
            assert!(help.lines().all(|text| text.chars().count() <= 100), "{help}");
        }
        for line in ["--help", "ctl -h", "import -h", "serve -- -h", ""] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert!(short_help(&words).is_none(), "{line}");
        }
        let command = Cli::command();
        for name in SHOWN {
            assert!(command.get_arguments().any(|one| *one.get_id() == *name), "{name}");
        }
        for name in LABORATORY {
            assert!(command.find_subcommand(name).is_some(), "{name}");
        }
    }

    #[test]
    fn what_is_said_to_be_missing_is() {
        let command = Cli::command();
        for name in MISSING.iter().flat_map(|(names, _)| *names) {
            assert!(command.get_arguments().all(|flag| flag.get_long() != Some(name)), "--{name}");
        }
    }
}
