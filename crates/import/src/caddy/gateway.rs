//! Applications and passwords of Caddy: `reverse_proxy`, `php_fastcgi`, `basic_auth` and `forward_auth`.
//!
//! Owns: which of what they say is said here as well. Caddy tells applications what the client asked for, as this
//! server does.

use lamna_config::access::check_user;
use lamna_config::render::quoted;
use lamna_config::upstream_address::UpstreamAddress;

use super::matcher::Matcher;
use super::syntax::Line;
use super::{fields, values};
use crate::told::is_believed;
use crate::{Draft, is_program, list};

/// Whether a word is the name of a field, written out.
fn is_token(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// The key of a route for an application, and its value.
///
/// # Errors
/// Why none can be asked.
pub(super) fn value(
    line: &Line,
    words: &[String],
    matcher: &Matcher,
    draft: &mut Draft,
) -> Result<(&'static str, String), String> {
    let is_http = line.word(0) == "reverse_proxy";
    let mut places: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut keys = Vec::new();
    for inner in line.block.as_deref().unwrap_or_default() {
        match (inner.word(0), inner.word(1)) {
            ("to", _) => places.extend(inner.words[1..].iter().map(String::as_str)),
            ("lb_policy", "ip_hash" | "client_ip_hash") => keys.push(format!("sticky = {}", quoted("client"))),
            ("lb_policy", "header") if is_token(inner.word(2)) => {
                keys.push(format!("sticky = {{ header = {} }}", quoted(inner.word(2))));
            }
            ("lb_policy", "random" | "round_robin" | "random_choose" | "least_conn") | ("flush_interval", _) => {
                let why = "places share requests by their weights, and answers are passed on as they come";
                draft.need_not(inner.line, format!("`{}`: {why}", inner.text()));
            }
            ("health_uri", path) if is_http && path.starts_with('/') && !path.contains('{') => {
                keys.push(format!("check = {}", quoted(path)));
            }
            ("header_up", "Host") if matches!(inner.word(2), "{host}" | "{http.request.host}") => {}
            ("header_up", "Host") if !inner.word(2).contains('{') => {
                keys.push(format!("host = {}", quoted(inner.word(2))));
            }
            ("header_up", name) if is_told(name, inner.word(2)) => {
                draft.need_not(inner.line, format!("`{}`: an application is told so", inner.text()));
            }
            ("header_up", "Host" | "host")
                if matches!(inner.word(2), "{upstream_hostport}" | "{http.reverse_proxy.upstream.hostport}") =>
            {
                keys.extend(hosts(&places).map(|host| format!("host = {}", quoted(host))));
            }
            ("header_up", _) if inner.words.len() > 1 => {
                let found = fields::read(inner, &inner.words[1..], draft);
                draft.request_fields.extend(found.map(|one| one.for_paths_of(matcher)));
            }
            ("header_down", _) if inner.words.len() > 1 => {}
            ("handle_response", _) if replaces_answers(inner, line.block.as_deref().unwrap_or_default()) => {
                return Err(format!("`{}`: answers of an application are not looked at", inner.text()));
            }
            ("rewrite", _) if is_http => {
                return Err(format!(
                    "`{}`: an application is asked for the path that the client asks for",
                    inner.text()
                ));
            }
            // What `php_fastcgi` says of files is so here.
            ("root" | "split" | "index" | "try_files", _) if !is_http => {
                draft.lose(inner.line, format!("`{}`: it is as `php_fastcgi` has it without", inner.text()));
            }
            _ => draft.lose(inner.line, format!("`{}`: docs/gateways.md says what there is", inner.text())),
        }
    }
    let addresses = addresses(&places, is_http)?;
    let to = match &addresses[..] {
        [] => return Err("it says no address".to_owned()),
        [one] => quoted(one),
        several => list(several),
    };
    let is_plain = keys.is_empty() && addresses.len() == 1;
    keys.insert(0, format!("to = {to}"));
    let value = if is_plain { to } else { format!("{{ {} }}", keys.join(", ")) };
    Ok((if is_http { "proxy" } else { "fastcgi" }, value))
}

/// Whether something else may stand in the place of an answer of an application than a page for its errors: `inner`
/// stands in a block with `all`.
pub(super) fn replaces_answers(inner: &Line, all: &[Line]) -> bool {
    const KEEPS: [&str; 6] = ["header", "copy_response", "copy_response_headers", "encode", "vars", "log_append"];
    const SENDS_PAGE: [&str; 4] = ["root", "rewrite", "try_files", "file_server"];
    let is_error = |status: &String| status.len() == 3 && status.starts_with(['4', '5']);
    let asks_error = |line: &Line| {
        line.word(0) == inner.word(1) && line.word(1) == "status" && line.words.iter().skip(2).all(is_error)
    };
    let is_for_errors = inner.word(1).starts_with('@') && all.iter().any(asks_error);
    let is_page = |one: &Line| {
        is_for_errors && SENDS_PAGE.contains(&one.word(0)) && !one.words.iter().any(|word| is_program(word))
    };
    let is_kept = |one: &Line| KEEPS.contains(&one.word(0)) || is_page(one);
    inner.word(0) == "handle_response" && !inner.block.iter().flatten().all(is_kept)
}

/// The values of `headers` for what `header_down` says of the answers of an application.
pub(super) fn answer_fields(line: &Line, draft: &mut Draft) -> Vec<String> {
    let inner = line.block.iter().flatten().filter(|inner| inner.word(0) == "header_down" && inner.words.len() > 1);
    let fields = inner.map(|inner| Line { line: inner.line, words: inner.words[1..].to_vec(), block: None });
    let fields: Vec<Line> = fields.collect();
    match fields.is_empty() {
        true => Vec::new(),
        false => values::headers(&Line { block: Some(fields), ..line.clone() }, &[], false, draft),
    }
}

/// The host and port of the only place.
fn hosts<'p>(places: &[&'p str]) -> Option<&'p str> {
    let [place] = places else { return None };
    let host = place.rsplit_once("://").map_or(*place, |(_, host)| host);
    (!host.starts_with("unix") && !host.contains(['/', '{'])).then_some(host)
}

/// Where an application is, as it is written here.
fn addresses(places: &[&str], is_http: bool) -> Result<Vec<String>, String> {
    let mut addresses = Vec::new();
    for &place in places {
        if place.contains('{') {
            return Err(format!("`{place}`: an address is written out"));
        }
        let address = match place.strip_prefix("unix/") {
            Some(path) => format!("unix:{path}"),
            None if place.starts_with(':') => format!("localhost{place}"),
            None => place.to_owned(),
        };
        let address = match is_http && !address.contains("://") && !address.starts_with("unix:") {
            true => format!("http://{address}"),
            false => address,
        };
        let read = address.parse::<UpstreamAddress>().map_err(|why| format!("`{place}` {why}"))?;
        if read.is_secure && !is_http {
            return Err(format!("`{place}` uses TLS, and FastCGI has none"));
        }
        addresses.push(address);
    }
    Ok(addresses)
}

/// The service that `forward_auth` names, as a value of `access`.
///
/// # Errors
/// Why it cannot be asked.
pub(super) fn service(line: &Line, words: &[String], draft: &mut Draft) -> Result<String, String> {
    let mut places: Vec<&str> = words.iter().map(String::as_str).collect();
    let (mut path, mut fields, mut keys) = (None, Vec::new(), Vec::new());
    for inner in line.block.as_deref().unwrap_or_default() {
        match (inner.word(0), inner.word(1)) {
            ("to", _) => places.extend(inner.words[1..].iter().map(String::as_str)),
            ("uri", uri) => path = Some(uri.to_owned()),
            ("copy_headers", _) => {
                let lines = inner.block.iter().flatten().flat_map(|one| &one.words);
                fields.extend(inner.words[1..].iter().chain(lines).cloned());
            }
            ("header_up", "Host") if matches!(inner.word(2), "{host}" | "{http.request.host}") => {}
            ("header_up", "Host") if !inner.word(2).contains('{') => {
                keys.push(format!("host = {}", quoted(inner.word(2))));
            }
            ("header_up", name) if is_told(name, inner.word(2)) => {
                draft.need_not(inner.line, format!("`{}`: an application is told so", inner.text()));
            }
            _ => draft.lose(inner.line, format!("`{}`: docs/access.md says what there is", inner.text())),
        }
    }
    let path = path.filter(|path| path.starts_with('/') && !path.contains('{'));
    let path = path.ok_or("`uri` says what a service is asked for, and is written out")?;
    let addresses = addresses(&places, true)?;
    if addresses.is_empty() {
        return Err("it says no address".to_owned());
    }
    let mut named: Vec<String> = Vec::new();
    for field in fields {
        let name = field.split_once('>').map_or(&*field, |(name, _)| name);
        if name != field {
            let why = format!("the application is told it as the service says it, in `{name}`");
            draft.lose(line.line, format!("`{field}` of `{}`: {why}", line.text()));
        }
        named.push(name.to_owned());
        // No client is to say it either.
        named.extend(field.split_once('>').map(|(_, told)| told.to_owned()).filter(|told| is_believed(told)));
    }
    keys.insert(0, format!("to = {}, path = {}", list(&addresses), quoted(&path)));
    if !named.is_empty() {
        keys.push(format!("fields = {}", list(&named)));
    }
    Ok(format!("{{ service = {{ {} }} }}", keys.join(", ")))
}

/// Whether an application is told a field with what a placeholder stands for.
fn is_told(name: &str, value: &str) -> bool {
    let of_client = ["{remote_host}", "{remote}", "{client_ip}", "{http.request.remote.host}", "{http.request.remote}"];
    match &*name.to_ascii_lowercase() {
        "x-forwarded-for" => of_client.contains(&value),
        "x-forwarded-proto" => matches!(value, "{scheme}" | "{http.request.scheme}"),
        "x-forwarded-host" => {
            matches!(value, "{host}" | "{hostport}" | "{http.request.host}" | "{http.request.hostport}")
        }
        "upgrade" | "connection" => value.contains('{'),
        _ => false,
    }
}

/// Names and hashes of passwords.
///
/// # Errors
/// Why they cannot be asked for.
pub(super) fn users(line: &Line, words: &[String]) -> Result<Vec<(String, String)>, String> {
    if let Some(algorithm) = words.first().filter(|one| !["argon2id", "bcrypt"].contains(&one.as_str())) {
        return Err(format!("passwords hashed with `{algorithm}` are not taken: {HASHES}"));
    }
    let mut users = Vec::new();
    for inner in line.block.as_deref().unwrap_or_default() {
        let (name, hash) = (inner.word(0), inner.word(1));
        if let Err(why) = check_user(name, hash) {
            return Err(format!("the user `{}` {why}: {HASHES}", name.escape_debug()));
        }
        users.push((name.to_owned(), hash.to_owned()));
    }
    if users.is_empty() { Err("it names nobody".to_owned()) } else { Ok(users) }
}

const HASHES: &str =
    "make new hashes with `lamna hash-password`, and name them in `users` and `access` (docs/access.md)";
