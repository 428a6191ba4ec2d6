//! Maps of HAProxy by which the host of a request names a backend.
//!
//! Owns: which expressions name one so, and the hosts of their files. Guarantees: an expression that means more than
//! the host, and a file with anything else in it, is refused. Does not know which backends there are.

use crate::Files;

/// Hosts and their backends, and the backend of all others.
pub(super) type Mapped = (Vec<(String, String)>, Option<String>);

/// The hosts of a map.
pub(super) fn by_map(text: &str, files: Files<'_>) -> Result<Mapped, String> {
    let plain = "the name of a backend is written out, or in a map of hosts";
    let text = text.strip_prefix("req.").unwrap_or(text);
    let rest = text.strip_prefix("hdr(host),").or(text.strip_prefix("hdr(Host),")).ok_or(plain)?;
    let rest =
        ["lower,", "field(1,:),", "lower,"].iter().fold(rest, |rest, start| rest.strip_prefix(start).unwrap_or(rest));
    let (inner, suffix) = rest
        .split_once('(')
        .and_then(|(verb, rest)| {
            let suffix = match verb {
                "map" | "map_str" => false,
                "map_dom" | "map_end" => true,
                _ => return None,
            };
            Some((rest.strip_suffix(')')?, suffix))
        })
        .ok_or(plain)?;
    let (file, otherwise) = inner.split_once(',').map_or((inner, None), |(file, name)| (file, Some(name.to_owned())));
    let text = (files.read)(file).map_err(|why| format!("`{file}` cannot be read: {why}"))?;
    let mut hosts = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let Some((host, name)) = line.split_once(char::is_whitespace) else { continue };
        let host = host.trim_start_matches('.');
        if lamna_config::address::host_name(host).is_err() {
            return Err(format!("`{host}` in `{file}` is no host"));
        }
        if suffix {
            hosts.push((format!("*.{host}"), name.trim().to_owned()));
        }
        hosts.push((host.to_owned(), name.trim().to_owned()));
    }
    Ok((hosts, otherwise))
}
