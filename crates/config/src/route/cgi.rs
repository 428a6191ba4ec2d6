//! The key `cgi` of a route: files that are programs, and the process of ours that runs them.
//!
//! Owns: its judgement, and what the process is started with. What that process does is in `process::cgi_runner`.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZero;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use lamna_sys::runtime_directory;
use serde_json::{Value, json};
use toml::Spanned;

use super::Switch;
use super::bounds;
use super::shapes::{CgiTable, SwitchOr};
use crate::checker::Checker;
use crate::gateway::{
    BUFFERED_BYTES_MAX, BufferSettings, CgiSettings, CommandSettings, GatewayProtocol, GatewaySettings, Instances,
    ScriptSettings, UpstreamSettings,
};
use crate::schema::values::{bytes, number, several, switch, table, text};
use crate::unit::Unit;
use crate::upstream_address::{Place, UpstreamAddress};

/// The path that starts this program anew, even if its file has been replaced or removed.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// The programs of the route.
pub(super) fn judge(given: &Spanned<SwitchOr<CgiTable>>, checker: &mut Checker<'_>) -> Switch<GatewaySettings> {
    match given.get_ref() {
        SwitchOr::Is(false) => Switch::Off,
        SwitchOr::Is(true) => of_table(&CgiTable::default(), checker),
        SwitchOr::Table(table) => of_table(table, checker),
        SwitchOr::Text(_) => {
            let hint = Some("write cgi = true, or cgi = { extensions = [\"pl\"] }".into());
            checker.problem_with_hint(given.span(), "`cgi` is true, false or a table", hint);
            Switch::Unset
        }
    }
}

fn of_table(table: &CgiTable, checker: &mut Checker<'_>) -> Switch<GatewaySettings> {
    let names = |given: &Option<Spanned<_>>, checker: &mut Checker<'_>| names(given.as_ref(), checker);
    let (extensions, index) = (names(&table.extensions, checker), names(&table.index, checker));
    let scripts = ScriptSettings { extensions, index, resolve_root: true };
    let mut settings = CgiSettings { interpreters: interpreters(table, checker), ..CgiSettings::default() };
    let mut amount = |key: &str, given: &Option<_>, unit, bounds: RangeInclusive<u64>, otherwise: u64| {
        let given = given.as_ref().and_then(|given| checker.amount(key, given, unit, &bounds));
        given.unwrap_or(otherwise)
    };
    let programs_max = u64::from(settings.programs_max);
    // Within bounds that fit.
    let programs = amount("programs_max", &table.programs_max, Unit::Count, bounds::PROGRAMS, programs_max);
    settings.programs_max = programs as u32;
    let (time, otherwise) = (&table.time_max_ms, settings.time_max_ms);
    settings.time_max_ms = amount("time_max_ms", time, Unit::Milliseconds, bounds::TIME_MS, otherwise);
    let (most, otherwise) = (bounds::BYTES_SOME, settings.output_bytes_max);
    settings.output_bytes_max =
        amount("output_bytes_max", &table.output_bytes_max, Unit::Bytes, most.clone(), otherwise);
    let body_bytes_max = amount("body_bytes_max", &table.body_bytes_max, Unit::Bytes, most, BUFFERED_BYTES_MAX);
    let socket = table.socket.as_ref().map(|path| checker.path(path));
    let socket = socket.unwrap_or_else(|| socket_of(checker.base(), &settings, &scripts));
    Switch::Set(gateway(settings, scripts, socket, body_bytes_max))
}

/// A gateway to the process that runs programs.
fn gateway(cgi: CgiSettings, scripts: ScriptSettings, socket: PathBuf, body_bytes_max: u64) -> GatewaySettings {
    let address = UpstreamAddress { place: Place::Unix(socket.clone()), is_secure: false };
    let mut settings = GatewaySettings::new(GatewayProtocol::FastCgi, vec![UpstreamSettings::new(address)]);
    // Whoever has its program's time ended says so itself.
    settings.timeout_ms = u32::try_from(cgi.time_max_ms.saturating_add(5_000)).unwrap_or(u32::MAX);
    settings.body_bytes_max = Some(body_bytes_max);
    // A program is told how much content there is, and one that waits for a slow client would be one less.
    settings.buffer = Some(BufferSettings { bytes_max: body_bytes_max, ..BufferSettings::default() });
    settings.scripts = Some(scripts);
    let instances = Instances::Fixed(NonZero::<u32>::MIN);
    settings.command = Some(CommandSettings { program: command(&cgi), instances, socket });
    settings.cgi = Some(cgi);
    settings
}

/// The command line of the process: its subcommand has no other use.
fn command(cgi: &CgiSettings) -> Vec<String> {
    let mut words = vec![OWN_PROGRAM.to_owned(), "cgi-runner".to_owned()];
    words.push(format!("--programs-max={}", cgi.programs_max));
    words.push(format!("--time-max-ms={}", cgi.time_max_ms));
    words.push(format!("--output-bytes-max={}", cgi.output_bytes_max));
    words.extend(cgi.interpreters.iter().map(|(end, program)| format!("--interpreter={end}={program}")));
    words
}

/// A socket that no other configuration has, and no other programs of this one: beside the control sockets.
fn socket_of(base: &Path, cgi: &CgiSettings, scripts: &ScriptSettings) -> PathBuf {
    let directories = runtime_directory::directories();
    let is_possible = |path: &&PathBuf| path.is_dir() || path.parent().is_some_and(Path::is_dir);
    let directory = directories.iter().find(is_possible).or(directories.last());
    let mut hasher = DefaultHasher::new();
    (base, command(cgi), &scripts.extensions, &scripts.index).hash(&mut hasher);
    let name = format!("cgi-{:016x}.socket", hasher.finish());
    directory.map_or_else(|| Path::new("/tmp").join(&name), |directory| directory.join(&name))
}

fn names(given: Option<&Spanned<crate::written::Texts>>, checker: &mut Checker<'_>) -> Vec<String> {
    let Some(given) = given else { return Vec::new() };
    let names = given.get_ref().0.clone();
    if !names.iter().all(|name| !name.is_empty() && !name.contains(['/', '\0']) && !name.starts_with('.')) {
        checker.problem(given.span(), "`extensions` are written as in \"pl\", and `index` as in \"index.pl\"");
    }
    names
}

fn interpreters(table: &CgiTable, checker: &mut Checker<'_>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (end, program) in &table.interpreters {
        let is_end = !end.get_ref().is_empty() && !end.get_ref().contains(['/', '.', '=', '\0']);
        checker.expect(is_end, end, "is not the end of a name, as pl is");
        let is_program = program.get_ref().starts_with('/') && !program.get_ref().contains('\0');
        checker.expect(is_program, program, "is not a program: write its whole path, as in /usr/bin/perl");
        found.insert(end.get_ref().to_string(), program.get_ref().to_string());
    }
    found
}

/// As it is written in a configuration.
pub(super) fn render(gateway: &GatewaySettings, cgi: &CgiSettings) -> String {
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let list = |texts: &[String]| texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", ");
    let mut keys = Vec::new();
    if let Some(scripts) = &gateway.scripts {
        let lists = [("extensions", &scripts.extensions), ("index", &scripts.index)];
        let lists = lists.iter().filter(|(_, names)| !names.is_empty());
        keys.extend(lists.map(|(key, names)| format!("{key} = [{}]", list(names))));
    }
    if !cgi.interpreters.is_empty() {
        let each = cgi.interpreters.iter().map(|(end, program)| format!("{} = {}", quoted(end), quoted(program)));
        keys.push(format!("interpreters = {{ {} }}", each.collect::<Vec<_>>().join(", ")));
    }
    keys.push(format!("programs_max = {}", cgi.programs_max));
    keys.push(format!("time_max_ms = {}", cgi.time_max_ms));
    keys.push(format!("output_bytes_max = {}", cgi.output_bytes_max));
    keys.extend(gateway.body_bytes_max.map(|bytes| format!("body_bytes_max = {bytes}")));
    let socket = gateway.command.as_ref().map(|command| command.socket.display().to_string());
    keys.extend(socket.map(|socket| format!("socket = {}", quoted(&socket))));
    format!("{{ {} }}", keys.join(", "))
}

/// In words.
pub(super) fn describe(gateway: &GatewaySettings, cgi: &CgiSettings) -> String {
    let extensions = gateway.scripts.as_ref().map_or(&[][..], |scripts| &scripts.extensions);
    let which = match extensions {
        [] => "every file".to_owned(),
        some => format!("files that end with .{}", some.join(" or .")),
    };
    format!("{which} run as CGI programs, {} at once", cgi.programs_max)
}

/// The schema of `cgi`.
pub(super) fn schema() -> Value {
    let keys = [
        ("extensions", several("What the names of programs end with, as in pl; every file is one unless it is given")),
        ("index", several("Programs that stand for a directory")),
        (
            "interpreters",
            json!({ "type": "object", "additionalProperties": { "type": "string" }, "description": "By the end of a name: the program that runs such files" }),
        ),
        ("programs_max", number(&bounds::PROGRAMS, "How many of them run at once")),
        ("time_max_ms", number(&bounds::TIME_MS, "How long one may run")),
        ("output_bytes_max", bytes(&bounds::BYTES_SOME, "What one may write")),
        ("body_bytes_max", bytes(&bounds::BYTES_SOME, "What one may be sent")),
        ("socket", text("Where the server speaks with the process that runs programs")),
    ];
    json!({ "anyOf": [switch(""), table(keys, &[], "Files that are programs, and what they may take")] })
}
