//! Values of Caddy's directives for fields, redirects and paths, as values of keys here.
//!
//! Owns: these values. What cannot be said is lost, with its line, or an error that the caller says.

use lamna_config::render::quoted;
use lamna_config::route::template::Template;
use lamna_config::site::{FieldUse, is_sendable, is_single};

use super::syntax::Line;
use crate::{Draft, PASSED_WORDS, beside_applications, is_program, list};

/// Values of `headers`.
pub(super) fn headers(line: &Line, words: &[String], asks_applications: bool, draft: &mut Draft) -> Vec<String> {
    let inner: Vec<Line> = match &line.block {
        Some(block) => block.clone(),
        None => vec![Line { line: line.line, words: words.to_vec(), block: None }],
    };
    let (mut set, mut add, mut removed): (Vec<String>, Vec<String>, Vec<String>) = Default::default();
    // What an application says itself stands beside it, where that is possible.
    let (mut default, mut beside): (Vec<String>, Vec<(String, Vec<String>)>) = Default::default();
    for one in &inner {
        let (name, value) = (one.word(0).trim_end_matches(':'), one.word(1));
        let bare = name.trim_start_matches(['+', '-', '>', '?']);
        let why = match is_sendable(bare, value, FieldUse::Route) {
            Err(why) => why,
            Ok(()) if one.words.len() > 2 => "has a replacement, which is not done",
            Ok(()) if value.contains('{') => "has a placeholder in its value",
            Ok(())
                if name.starts_with('-')
                    && ["server", "x-content-type-options"].contains(&&*bare.to_ascii_lowercase()) =>
            {
                "is sent by this server, and cannot be removed"
            }
            Ok(()) if bare == "defer" => continue,
            Ok(()) => {
                match name.as_bytes()[0] {
                    b'?' => default.push(format!("{} = {}", quoted(bare), quoted(value))),
                    b'>' => set.push(format!("{} = {}", quoted(bare), quoted(value))),
                    b'-' => removed.push(bare.to_owned()),
                    b'+' if !is_single(bare) => add.push(format!("{} = {}", quoted(bare), quoted(value))),
                    _ if asks_applications => beside.push((bare.to_owned(), vec![value.to_owned()])),
                    _ => set.push(format!("{} = {}", quoted(bare), quoted(value))),
                }
                continue;
            }
        };
        draft.lose(one.line, format!("`{}`: the field {why}", one.text()));
    }
    let mut keys = Vec::new();
    for (key, fields) in [("set", set), ("default", default), ("add", add)] {
        if !fields.is_empty() {
            keys.push(format!("{key} = {{ {} }}", fields.join(", ")));
        }
    }
    if !removed.is_empty() {
        keys.push(format!("remove = {}", list(&removed)));
    }
    let own = (!keys.is_empty()).then(|| format!("[{{ {} }}]", keys.join(", ")));
    own.into_iter().chain((!beside.is_empty()).then(|| beside_applications(&beside, &[]))).collect()
}

pub(super) fn redirect(words: &[String]) -> Result<String, String> {
    let to = words.first().ok_or("it says no address")?;
    let status = match words.get(1).map_or("302", String::as_str) {
        "permanent" => "301",
        "temporary" => "302",
        status @ ("301" | "302" | "303" | "307" | "308") => status,
        _ => return Err("this status does not redirect".into()),
    };
    let to = template(to)?;
    let is_location = to.starts_with(['/', '$']) || to.starts_with("http://") || to.starts_with("https://");
    let closes_host = Template::parse(&to)?.closes_host();
    if !is_location
        || !closes_host
        || to.starts_with("$host")
        || to.starts_with("//")
        || !to.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
    {
        return Err("it is neither a path nor an address that can be sent".into());
    }
    Ok(format!("{{ to = {}, status = {status} }}", quoted(&to)))
}

/// The paths that are looked for in turn. None if no path can be said, or the first may be another program's.
pub(super) fn try_files(line: &Line, words: &[String], draft: &mut Draft) -> Option<Vec<String>> {
    let mut tried: Vec<String> = Vec::new();
    let mut is_open = false;
    let looks_for_file = words.iter().any(|word| path(word).is_ok_and(|to| to == "$path"));
    for word in words {
        let why = match path(word) {
            _ if word == "=404" => continue,
            Ok(to) if to == "$path" || to == "$path/" => {
                let to = if looks_for_file { "$path" } else { "$path/" };
                tried.extend((!tried.iter().any(|one| one == to)).then(|| to.to_owned()));
                continue;
            }
            Ok(to) if is_program(&to) => PASSED_WORDS.to_owned(),
            // A folder that is the same for all is not looked for here, and its index file is.
            Ok(to) if to.ends_with('/') && !to.contains('$') => {
                tried.push(format!("{to}index.html"));
                continue;
            }
            Ok(to) => {
                tried.push(to);
                continue;
            }
            Err(why) => why,
        };
        is_open |= tried.is_empty() && is_program(word);
        draft.lose(line.line, format!("`{word}` of `{}`: {why}", line.text()));
    }
    (!tried.is_empty() && !is_open).then_some(tried)
}

/// A path that is looked for.
pub(super) fn path(text: &str) -> Result<String, String> {
    let text = text.strip_suffix("?{query}").unwrap_or(text);
    let path = template(text)?;
    match path {
        path if path.contains('?') => Err("files have no query".into()),
        path if Template::parse(&path)?.names_host() => Err("it is no path".into()),
        path if path.starts_with(['/', '$']) => Ok(path),
        _ => Err("it is no path".into()),
    }
}

/// With placeholders as captures. The query follows a redirect by itself.
fn template(text: &str) -> Result<String, String> {
    let text = text.strip_suffix("?{query}").unwrap_or(text);
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at].replace('$', "$$"));
        let (name, tail) = rest[at + 1..].split_once('}').ok_or("it has a brace without its other half")?;
        let number = name.rsplit('.').next().unwrap_or_default();
        let is_capture = (name.starts_with("re.") || name.starts_with("http.regexp.")) && !number.is_empty();
        match name {
            "uri" | "path" | "http.request.uri" | "http.request.uri.path" => out.push_str("$path"),
            "host" | "http.request.host" => out.push_str("$host"),
            _ if is_capture => out.push_str(&format!("${{{number}}}")),
            _ => return Err(format!("`{{{name}}}` is not known here")),
        }
        rest = tail;
    }
    out.push_str(&rest.replace('$', "$$"));
    Template::parse(&out).map(|_| out)
}
