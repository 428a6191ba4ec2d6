//! The keys of a route that name an application: from tables to settings, and back to text.
//!
//! Owns: their judgement, with words for what is wrong.

use std::num::NonZero;

use lamna_proto::gateway::proxy::ProxyVersion;
use serde_json::{Map, Value, json};
use toml::Spanned;

use super::bounds;
use super::pattern::Pattern;
use super::row::{Answer, Field, Matching, Objection, Order, RouteKey, Section};
use super::shapes::{GatewayTable, SwitchOr, SwitchOrAmount};
use super::{RouteSettings, RouteTable, Switch, applications, cgi, checks, prefixes, programs, retries, sticky};
use crate::checker::Checker;
use crate::gateway::{
    BUFFER_DIRECTORY, BufferSettings, BufferedContent, CommandSettings, GatewayProtocol, GatewaySettings, Instances,
    UpstreamSettings, UpstreamTls,
};
use crate::page::quoted;
use crate::schema::values::{bytes, list_of, number, several, several_or_none, switch, table, text};
use crate::unit::Unit;
use crate::upstream_address::{self, Place, UpstreamAddress, is_server_name};
use crate::written::{Amount, Text, Texts};

/// `proxy`, `fastcgi`, `scgi`, `uwsgi` and `cgi`.
pub(super) struct Gateway;

impl RouteKey for Gateway {
    const ORDER: Order = Order { shown: 1, reported: Section::Application, judged: 0 };
    const ANSWER: Answer = Answer::Elsewhere;
    const NOTHING: &'static str = "false";

    fn judge(given: &RouteTable, patterns: &[Pattern], checker: &mut Checker<'_>) -> Switch<GatewaySettings> {
        judge(given, patterns, checker)
    }

    fn render(said: &Switch<GatewaySettings>) -> Option<String> {
        said.render(|gateway| gateway.name.as_deref().map_or_else(|| render(gateway), quoted))
    }

    fn name(said: &Switch<GatewaySettings>) -> Option<&'static str> {
        match said {
            Switch::Set(gateway) => Some(gateway.key()),
            Switch::Unset | Switch::Off => Gateway::NAMES.first().copied(),
        }
    }

    fn merge(routes: &Matching<'_>) -> Option<GatewaySettings> {
        applying(routes).cloned()
    }

    fn conflict(route: &RouteSettings) -> Option<Objection> {
        let leads = matches!(route.redirect, Switch::Set(_)) || matches!(route.rewrite, Switch::Set(_));
        (leads && answers(route)).then(|| {
            let message = "an application answers this route, so that `redirect` and `rewrite` have nothing to do";
            (message.to_owned(), Some("with `try` it answers where no file is"))
        })
    }

    fn report(rule: &Option<GatewaySettings>) -> Vec<String> {
        rule.iter().map(describe).collect()
    }
}

/// The application of the most specific route that says where answers come from: otherwise what is there is looked for.
pub(super) fn applying<'r>(routes: &Matching<'r>) -> Option<&'r GatewaySettings> {
    match &routes.iter().find(|(_, route)| route.directs())?.1.gateway {
        Switch::Set(gateway) => Some(gateway),
        Switch::Unset | Switch::Off => None,
    }
}

/// The most specific route that says where answers come from, if an application answers it: all of it, or what no file
/// does.
pub(super) fn answering<'r>(routes: &Matching<'r>) -> Option<(usize, &'r RouteSettings)> {
    routes.iter().find(|(_, route)| route.directs()).filter(|(_, route)| answers(route)).copied()
}

/// Whether the route names an application that runs no files.
fn answers(route: &RouteSettings) -> bool {
    matches!(&route.gateway, Switch::Set(gateway) if gateway.scripts.is_none())
}

pub(super) const ONE_APPLICATION: &str =
    "a route has one application: `application`, `proxy`, `fastcgi`, `scgi`, `uwsgi` or `cgi`";
/// The keys that say how an application is asked, and where it is.
pub(super) const APPLICATION_KEYS: [&str; 4] = ["proxy", "fastcgi", "scgi", "uwsgi"];

/// The applications that a route describes, but for its own programs.
fn described(given: &RouteTable) -> Vec<(GatewayProtocol, &Spanned<SwitchOr<GatewayTable>>)> {
    let keys = [
        (GatewayProtocol::Http, &given.proxy),
        (GatewayProtocol::FastCgi, &given.fastcgi),
        (GatewayProtocol::Scgi, &given.scgi),
        (GatewayProtocol::Uwsgi, &given.uwsgi),
    ];
    keys.into_iter().filter_map(|(protocol, given)| Some((protocol, given.as_ref()?))).collect()
}

/// The application that the route names.
fn judge(given: &RouteTable, patterns: &[Pattern], checker: &mut Checker<'_>) -> Switch<GatewaySettings> {
    let described = described(given);
    if let Some(named) = applications::named(given, checker) {
        let other = described.first().map(|(_, other)| other.span()).or(given.cgi.as_ref().map(Spanned::span));
        return match other {
            None => named,
            Some(other) => {
                checker.problem(other, ONE_APPLICATION);
                Switch::Unset
            }
        };
    }
    if let Some(programs) = &given.cgi {
        if let Some((_, other)) = described.first() {
            checker.problem(other.span(), ONE_APPLICATION);
            return Switch::Unset;
        }
        return cgi::judge(programs, checker);
    }
    match described[..] {
        [] => Switch::Unset,
        [(protocol, given)] => of_key(protocol, given, patterns, checker),
        [_, (_, other), ..] => {
            checker.problem(other.span(), ONE_APPLICATION);
            Switch::Unset
        }
    }
}

/// The application that a key says, of a route with these patterns.
pub(super) fn of_key(
    protocol: GatewayProtocol,
    given: &Spanned<SwitchOr<GatewayTable>>,
    patterns: &[Pattern],
    checker: &mut Checker<'_>,
) -> Switch<GatewaySettings> {
    let span = given.span();
    match given.get_ref() {
        SwitchOr::Is(false) => Switch::Off,
        SwitchOr::Is(true) => {
            let hint =
                Some("write proxy = \"http://127.0.0.1:3000\", or fastcgi = \"unix:/run/php/php-fpm.sock\"".into());
            checker.problem_with_hint(span, "this names where the application is, or is false", hint);
            Switch::Unset
        }
        SwitchOr::Text(text) => {
            let (place, base_path) = base_path_of(text, protocol);
            let base_path = judged_base_path(&[base_path], &span, checker);
            let address = upstream(place, span, protocol, checker);
            let upstreams = address.map(|address| vec![UpstreamSettings::new(address)]);
            upstreams.map_or(Switch::Unset, |upstreams| {
                Switch::Set(GatewaySettings { base_path, ..GatewaySettings::new(protocol, upstreams) })
            })
        }
        SwitchOr::Table(table) => of_table(protocol, (table, patterns), span, checker),
    }
}

/// The place of an address of HTTP, and the path behind it, without a slash at its end.
fn base_path_of(text: &str, protocol: GatewayProtocol) -> (&str, &str) {
    let scheme = ["http://", "https://"].into_iter().find(|scheme| text.starts_with(scheme));
    let Some(scheme) = scheme.filter(|_| protocol == GatewayProtocol::Http) else { return (text, "") };
    match text[scheme.len()..].find('/') {
        Some(at) if !text[scheme.len()..].starts_with("unix:") => {
            let (place, path) = text.split_at(scheme.len() + at);
            (place, path.strip_suffix('/').unwrap_or(path))
        }
        _ => (text, ""),
    }
}

/// The path that is behind every place.
fn judged_base_path(paths: &[&str], span: &std::ops::Range<usize>, checker: &mut Checker<'_>) -> String {
    let path = paths.first().copied().unwrap_or_default();
    if paths.iter().any(|other| *other != path) {
        checker.problem(span.clone(), "all places of an application have the same path behind them");
    } else if !path.is_empty() && !prefixes::is_plain_path(path) {
        let message = format!("`{path}` is not a path of letters, digits and -._~, beneath which an application is");
        checker.problem(span.clone(), message);
    }
    path.to_owned()
}

fn upstream(
    text: &str,
    span: std::ops::Range<usize>,
    protocol: GatewayProtocol,
    checker: &mut Checker<'_>,
) -> Option<UpstreamAddress> {
    let refused = |why: &dyn std::fmt::Display| format!("`{}` {why}", text.escape_debug());
    match text.parse::<UpstreamAddress>() {
        Ok(address) if address.is_secure && protocol != GatewayProtocol::Http => {
            let name = protocol.name();
            checker.problem(span, refused(&format!("uses TLS, and {name} has none: write HOST:PORT or unix:PATH")));
            None
        }
        Ok(mut address) => {
            if let Place::Unix(path) = &mut address.place {
                // As every path of the file.
                *path = checker.beside(path);
                if let Err(why) = upstream_address::check_socket(path) {
                    checker.problem(span, refused(&why));
                    return None;
                }
            }
            Some(address)
        }
        Err(why) => {
            checker.problem(span, refused(&why));
            None
        }
    }
}

pub(super) fn of_table(
    protocol: GatewayProtocol,
    (table, patterns): (&GatewayTable, &[Pattern]),
    span: std::ops::Range<usize>,
    checker: &mut Checker<'_>,
) -> Switch<GatewaySettings> {
    let Some(to) = &table.to else {
        if checker.was_taken("to", &span) {
            return Switch::Unset;
        }
        let hint = Some("write to = \"http://127.0.0.1:3000\", or a list of such texts".into());
        checker.problem_with_hint(span, "`to` says where the application is, and it is missing", hint);
        return Switch::Unset;
    };
    let (places, paths): (Vec<&str>, Vec<&str>) =
        to.get_ref().0.iter().map(|text| base_path_of(text, protocol)).unzip();
    let base_path = judged_base_path(&paths, &to.span(), checker);
    let addresses = places.iter().filter_map(|text| upstream(text, to.span(), protocol, checker));
    let mut upstreams: Vec<UpstreamSettings> =
        addresses.collect::<Vec<_>>().into_iter().map(UpstreamSettings::new).collect();
    if upstreams.len() < to.get_ref().0.len() {
        return Switch::Unset;
    }
    weigh(&mut upstreams, table.weights.as_ref(), checker);
    let mut settings = GatewaySettings { base_path, ..GatewaySettings::new(protocol, upstreams) };
    settings.balance = retries::balance(table.balance.as_ref(), checker);
    settings.retry = retries::retry(table.retry.as_ref(), checker);
    settings.sticky = sticky::judge(table.sticky.as_ref(), patterns, checker);
    settings.host = table.host.as_ref().and_then(|host| host_of(host, checker));
    let mut ms = |key: &str, given: &Option<_>, otherwise: u32| {
        let given = given.as_ref().and_then(|given| checker.amount(key, given, Unit::Milliseconds, &bounds::TIME_MS));
        given.map_or(otherwise, |ms| ms as u32) // Within bounds that fit.
    };
    settings.connect_timeout_ms = ms("connect_timeout_ms", &table.connect_timeout_ms, settings.connect_timeout_ms);
    settings.timeout_ms = ms("timeout_ms", &table.timeout_ms, settings.timeout_ms);
    if table.websocket_timeout_ms.is_some() {
        settings.websocket_timeout_ms =
            Some(ms("websocket_timeout_ms", &table.websocket_timeout_ms, settings.timeout_ms));
    }
    let bytes = table.body_bytes_max.as_ref();
    settings.body_bytes_max =
        bytes.and_then(|given| checker.amount("body_bytes_max", given, Unit::Bytes, &bounds::BYTES));
    settings.buffer = buffer_of(table, protocol, checker);
    if let Some(buffer) = &mut settings.buffer {
        buffer.bytes_max = settings.body_bytes_max.unwrap_or(buffer.bytes_max);
        if buffer.content == BufferedContent::All {
            settings.body_bytes_max = Some(buffer.bytes_max);
        }
    }
    settings.check = checks::judge(table.check.as_ref(), protocol, checker);
    settings.send_proxy = table.send_proxy.as_ref().and_then(|version| match version.get_ref().as_str() {
        "v1" => Some(ProxyVersion::V1),
        "v2" => Some(ProxyVersion::V2),
        _ => {
            checker.problem(version.span(), "`send_proxy` is \"v1\" or \"v2\": versions of the PROXY protocol");
            None
        }
    });
    settings.tls = tls_of(table, settings.speaks_tls(), span.clone(), checker);
    match (&mut settings.scripts, &table.extensions, &table.index, &table.resolve_root) {
        (None, None, None, None) => {}
        (None, ..) => {
            let message = "`extensions`, `index` and `resolve_root` are for `fastcgi`: others answer every request";
            checker.problem(span, message);
        }
        (Some(scripts), extensions, index, resolve_root) => {
            scripts.resolve_root = resolve_root.as_ref().is_none_or(|given| *given.get_ref());
            if let Some(given) = extensions {
                scripts.extensions.clone_from(&given.get_ref().0);
                scripts.index.retain(|name| scripts.extensions.iter().any(|one| name.ends_with(&format!(".{one}"))));
            }
            if let Some(given) = index {
                scripts.index.clone_from(&given.get_ref().0);
            }
            let is_name = |text: &String| !text.is_empty() && !text.contains(['/', '\0']);
            if !scripts.extensions.iter().chain(&scripts.index).all(is_name) {
                checker.problem(span, "`extensions` are written as in \"php\", and `index` as in \"index.php\"");
            }
        }
    }
    if settings.scripts.as_ref().is_some_and(|scripts| scripts.extensions.is_empty()) {
        settings.scripts = None;
    }
    match protocol {
        GatewayProtocol::FastCgi => settings.command = command_of(table, &settings, checker),
        GatewayProtocol::Http | GatewayProtocol::Scgi | GatewayProtocol::Uwsgi => {
            programs::judge(table, &mut settings, checker);
        }
    }
    Switch::Set(settings)
}

/// How content is kept until it is whole.
fn buffer_of(table: &GatewayTable, protocol: GatewayProtocol, checker: &mut Checker<'_>) -> Option<BufferSettings> {
    let mut settings = BufferSettings::default();
    let is_wanted = match table.buffer.as_ref().map(|given| (given.get_ref(), given.span())) {
        None if protocol.has_variables() => {
            settings = BufferSettings::of_unsized();
            true
        }
        None | Some((SwitchOrAmount::Is(false), _)) => false,
        Some((SwitchOrAmount::Is(true), _)) => true,
        Some((SwitchOrAmount::Amount(amount), span)) => {
            let given = Spanned::new(span, amount.clone());
            settings.memory_bytes = checker.amount("buffer", &given, Unit::Bytes, &bounds::MEMORY_BYTES)?;
            true
        }
    };
    match &table.buffer_directory {
        Some(given) if !is_wanted => {
            checker.problem(given.span(), "`buffer_directory` is where `buffer` keeps what is long, and there is none");
        }
        Some(given) => settings.directory = checker.directory(given).into(),
        None if settings.content == BufferedContent::All && is_wanted && !settings.directory.is_dir() => {
            let span = table.buffer.as_ref().map_or(0..0, Spanned::span);
            let hint = Some("write buffer_directory = \"/path\", a directory that the server may write to".into());
            checker.problem_with_hint(span, format!("{BUFFER_DIRECTORY} is not there"), hint);
        }
        None => {}
    }
    is_wanted.then_some(settings)
}

/// A program and its arguments, as `example` is.
pub(super) fn program_of(command: &Spanned<Texts>, example: &str, checker: &mut Checker<'_>) -> Option<Vec<String>> {
    let program = command.get_ref().0.clone();
    let is_program = program.first().is_some_and(|program| !program.is_empty());
    if !is_program || program.iter().any(|text| text.contains('\0')) {
        let hint = Some(format!("write command = [\"{example}\"], with each argument as a text of its own"));
        checker.problem_with_hint(command.span(), "`command` is a program and its arguments", hint);
        return None;
    }
    Some(program)
}

/// How the application is started.
fn command_of(table: &GatewayTable, settings: &GatewaySettings, checker: &mut Checker<'_>) -> Option<CommandSettings> {
    let Some(command) = &table.command else {
        if let Some(instances) = &table.instances {
            checker.problem(instances.span(), "`instances` says how often `command` is started, and there is none");
        }
        return None;
    };
    let program = program_of(command, "php-cgi", checker)?;
    let [UpstreamSettings { address: UpstreamAddress { place: Place::Unix(socket), .. }, .. }] =
        &settings.upstreams[..]
    else {
        let hint = Some("write to = \"unix:/run/lamna/php.sock\": the socket is made by the server".into());
        checker.problem_with_hint(command.span(), "an application with a `command` is at one Unix socket", hint);
        return None;
    };
    let instances = match &table.instances {
        None => Instances::Auto,
        Some(given) if given.get_ref().is_text("auto") => Instances::Auto,
        Some(given) if matches!(given.get_ref(), Amount::Text(_)) => {
            checker.problem(given.span(), "`instances` is a number, or \"auto\"");
            return None;
        }
        Some(given) => {
            let number = checker.amount("instances", given, Unit::Count, &bounds::INSTANCES)?;
            Instances::Fixed(NonZero::new(number as u32)?) // Within bounds that fit.
        }
    };
    Some(CommandSettings { program, instances, socket: socket.clone() })
}

fn weigh(upstreams: &mut [UpstreamSettings], weights: Option<&Spanned<Vec<i64>>>, checker: &mut Checker<'_>) {
    let Some(given) = weights else { return };
    let weights = given.get_ref();
    let are_weights =
        weights.iter().all(|weight| u64::try_from(*weight).is_ok_and(|weight| bounds::WEIGHT.contains(&weight)));
    if weights.len() != upstreams.len() || !are_weights || weights.iter().all(|weight| *weight == 0) {
        let most = bounds::WEIGHT.end();
        let message = format!("`weights` has one number from 0 to {most} for each place in `to`, and not only zeros");
        return checker.problem(given.span(), message);
    }
    for (upstream, weight) in upstreams.iter_mut().zip(weights) {
        upstream.weight = *weight as u32; // Within bounds that fit.
    }
}

fn host_of(given: &Spanned<Text>, checker: &mut Checker<'_>) -> Option<String> {
    let host = given.get_ref().to_string();
    if lamna_proto::parse::host::parse(host.as_bytes()).is_ok() {
        return Some(host);
    }
    checker.problem(given.span(), format!("`{}` is not a host, with or without a port", host.escape_debug()));
    None
}

/// The certificates that it accepts of applications that are asked by `https`.
fn tls_of(
    table: &GatewayTable,
    speaks_tls: bool,
    span: std::ops::Range<usize>,
    checker: &mut Checker<'_>,
) -> UpstreamTls {
    if !speaks_tls && (table.ca.is_some() || table.server_name.is_some() || table.verify.is_some()) {
        checker.problem(span, "`ca`, `server_name` and `verify` are for places with https://: there is none in `to`");
        return UpstreamTls::default();
    }
    let verify = table.verify.as_ref().is_none_or(|verify| *verify.get_ref());
    if let (false, Some(ca)) = (verify, &table.ca) {
        checker.problem(ca.span(), "`verify = false` looks at no certificate: `ca` would have no effect");
    }
    let ca = table.ca.as_ref().map(|file| {
        let path = checker.path(file);
        if let Err(error) = std::fs::File::open(&path) {
            checker.problem(file.span(), format!("`{}` cannot be read: {error}", path.display()));
        }
        path
    });
    let server_name = table.server_name.as_ref().map(|name| {
        let what = "is not the name of a server: it is written without a port, as in app.internal";
        checker.expect(is_server_name(name.get_ref()), name, what);
        name.get_ref().clone()
    });
    UpstreamTls { ca, server_name, verify }
}

/// As it is written in a configuration.
pub(super) fn render(gateway: &GatewaySettings) -> String {
    if let Some(settings) = &gateway.cgi {
        return cgi::render(gateway, settings);
    }
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let places = gateway.upstreams.iter().map(|upstream| quoted(&place_and_path(upstream, gateway)));
    let mut keys = vec![format!("to = [{}]", places.collect::<Vec<_>>().join(", "))];
    if gateway.upstreams.iter().any(|upstream| upstream.weight != 1) {
        let weights = gateway.upstreams.iter().map(|upstream| upstream.weight.to_string());
        keys.push(format!("weights = [{}]", weights.collect::<Vec<_>>().join(", ")));
    }
    keys.extend(retries::render_balance(gateway.balance));
    keys.extend(gateway.retry.as_ref().map(retries::render_retry));
    keys.extend(gateway.sticky.as_ref().map(|sticky| format!("sticky = {}", sticky::render(sticky))));
    keys.extend(gateway.host.as_ref().map(|host| format!("host = {}", quoted(host))));
    keys.push(format!("connect_timeout_ms = {}", gateway.connect_timeout_ms));
    keys.push(format!("timeout_ms = {}", gateway.timeout_ms));
    keys.extend(gateway.websocket_timeout_ms.map(|ms| format!("websocket_timeout_ms = {ms}")));
    keys.extend(gateway.body_bytes_max.map(|bytes| format!("body_bytes_max = {bytes}")));
    match &gateway.buffer {
        None if gateway.protocol.has_variables() => keys.push("buffer = false".to_owned()),
        None => {}
        Some(buffer) => {
            if buffer.content == BufferedContent::All {
                keys.push(format!("buffer = {}", buffer.memory_bytes));
            }
            if buffer.directory != BufferSettings::of_unsized().directory || buffer.content == BufferedContent::All {
                keys.push(format!("buffer_directory = {}", quoted(&buffer.directory.display().to_string())));
            }
        }
    }
    keys.extend(gateway.check.as_ref().map(|check| format!("check = {}", checks::render(check))));
    keys.extend(gateway.send_proxy.map(|version| match version {
        ProxyVersion::V1 => "send_proxy = \"v1\"".to_owned(),
        ProxyVersion::V2 => "send_proxy = \"v2\"".to_owned(),
    }));
    keys.extend(gateway.tls.ca.as_ref().map(|file| format!("ca = {}", quoted(&file.display().to_string()))));
    keys.extend(gateway.tls.server_name.as_ref().map(|name| format!("server_name = {}", quoted(name))));
    keys.extend((!gateway.tls.verify).then(|| "verify = false".to_owned()));
    if gateway.protocol == GatewayProtocol::FastCgi {
        let list = |texts: &[String]| texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", ");
        let scripts = gateway.scripts.as_ref();
        keys.push(format!("extensions = [{}]", list(scripts.map_or(&[], |scripts| &scripts.extensions))));
        keys.extend(scripts.map(|scripts| format!("index = [{}]", list(&scripts.index))));
        keys.extend(scripts.filter(|scripts| !scripts.resolve_root).map(|_| "resolve_root = false".to_owned()));
        if let Some(command) = &gateway.command {
            keys.push(format!("command = [{}]", list(&command.program)));
            keys.push(match command.instances {
                Instances::Auto => "instances = \"auto\"".to_owned(),
                Instances::Fixed(number) => format!("instances = {number}"),
            });
        }
    }
    // With one process for each place, all of which are there.
    if let Some(program) = gateway.programs.first() {
        let words: Vec<String> = program.program.iter().map(|text| quoted(text)).collect();
        keys.push(format!("command = [{}]", words.join(", ")));
    }
    format!("{{ {} }}", keys.join(", "))
}

/// The address of a place, with the path behind it.
fn place_and_path(upstream: &UpstreamSettings, gateway: &GatewaySettings) -> String {
    let address = upstream.address.to_string();
    match &*gateway.base_path {
        "" => address,
        path if upstream.address.is_secure => format!("{address}{path}"),
        path => format!("http://{address}{path}"),
    }
}

/// In words, with its name.
pub fn describe(gateway: &GatewaySettings) -> String {
    match (&gateway.name, &gateway.cgi) {
        (_, Some(settings)) => cgi::describe(gateway, settings),
        (Some(name), None) => format!("application `{name}`, {}", describe_way(gateway)),
        (None, None) => describe_way(gateway),
    }
}

fn describe_way(gateway: &GatewaySettings) -> String {
    let program = gateway.command.as_ref().map(|command| &command.program);
    let program = program.or(gateway.programs.first().map(|program| &program.program));
    let place = |upstream: &UpstreamSettings| match program {
        Some(program) => format!("{} (started as `{}`)", place_and_path(upstream, gateway), program.join(" ")),
        None => place_and_path(upstream, gateway),
    };
    let places: Vec<String> = gateway.upstreams.iter().map(place).collect();
    match gateway.protocol {
        GatewayProtocol::Http => format!("proxy to {}", places.join(" or ")),
        GatewayProtocol::FastCgi => match &gateway.scripts {
            Some(scripts) => {
                format!("files that end with .{} are run by {}", scripts.extensions.join(" or ."), places.join(" or "))
            }
            None => format!("FastCGI to {}", places.join(" or ")),
        },
        GatewayProtocol::Scgi | GatewayProtocol::Uwsgi => {
            format!("{} to {}", gateway.protocol.name(), places.join(" or "))
        }
    }
}

/// The schema of `proxy`.
pub(super) fn proxy_schema() -> Value {
    schema(
        "Where the application is, as in http://127.0.0.1:3000 or unix:/run/app.sock",
        "Where the application is, and how it is asked",
    )
}

/// The schema of `fastcgi`.
pub(super) fn fastcgi_schema() -> Value {
    schema(
        "Where the application is, as in unix:/run/php/php-fpm.sock or 127.0.0.1:9000",
        "Where the application is, how it is asked, and which files it runs",
    )
}

/// The schema of `scgi` and `uwsgi`.
pub(super) fn stream_schema() -> Value {
    schema(
        "Where the application is, as in unix:/run/app.sock or 127.0.0.1:4000",
        "Where the application is, and how it is asked",
    )
}

fn schema(place: &str, description: &str) -> Value {
    let off = json!({ "type": "boolean", "const": false });
    json!({ "anyOf": [off, text(place), table(keys(), &["to"], description)] })
}

/// An application that answers the requests of a route.
pub(super) fn keys() -> Map<String, Value> {
    let places = "Where the application is: one place, or several that share the requests";
    let keys = [
        ("to", several(places)),
        ("weights", list_of(number(&bounds::WEIGHT, "Its share of the requests; 0 for a spare"))),
        ("balance", retries::balance_schema()),
        ("retry", retries::retry_schema()),
        ("sticky", sticky::schema()),
        ("host", text("What Host says, in place of what the client asked for")),
        ("connect_timeout_ms", number(&bounds::TIME_MS, "How long a connection to it may take")),
        ("timeout_ms", number(&bounds::TIME_MS, "How long nothing may come from it")),
        (
            "websocket_timeout_ms",
            number(&bounds::TIME_MS, "How long nothing may pass over a WebSocket, in either direction"),
        ),
        ("body_bytes_max", bytes(&bounds::BYTES, "What it is sent at most")),
        (
            "buffer",
            json!({
                "anyOf": [
                    switch("Whether content is kept until it is whole"),
                    bytes(&bounds::MEMORY_BYTES, "How much of it in memory; the rest is in a file"),
                ],
            }),
        ),
        ("buffer_directory", text("The file system of such files")),
        (
            "check",
            json!({ "anyOf": [text(""), { "const": false }, checks::schema()], "description": "How places are asked whether they are well" }),
        ),
        (
            "send_proxy",
            json!({ "enum": ["v1", "v2"], "description": "Tells the application the client by the PROXY protocol" }),
        ),
        ("ca", text("A file with the certificates, in PEM, that have signed that of the application (https)")),
        ("server_name", text("What the application's certificate names (https)")),
        ("verify", switch("Whether the application's certificate is looked at (https)")),
        ("extensions", several_or_none("Of files that it runs; `[]` for one that answers everything (fastcgi)")),
        ("index", several_or_none("Scripts for directories; `[]` is none (fastcgi)")),
        ("resolve_root", switch("Whether it is told where the root really is, if its path has links (fastcgi)")),
        ("command", several("The program and its arguments, if the server is to start the application")),
        (
            "instances",
            json!({
                "anyOf": [number(&bounds::INSTANCES, ""), { "const": "auto" }],
                "description": "How many processes of command there are; auto for fastcgi",
            }),
        ),
    ];
    keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}
