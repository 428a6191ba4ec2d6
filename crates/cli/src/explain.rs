//! `lamna explain`: what a URL is answered with, and why, by the configuration alone. No server is asked:
//! that is `lamna ctl explain`.
//!
//! Owns: taking a URL apart, and printing. The answer is found by `worker::explain`.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::Arc;

use lamna_server::content::explain::{Asked, Scheme};
use lamna_server::service::Registry;
use lamna_server::worker::explain::{Explainer, Parts};

use crate::args::ExplainArgs;
use crate::exit::{Exit, Failed};

/// Prints the explanation.
pub(crate) fn run(args: &ExplainArgs) -> Result<(), Failed> {
    let asked = Asked { client: args.from, ..asked(&args.url)? };
    let settings = crate::load(&args.serve)?;
    let parts = Parts { services: Arc::new(Registry::to_look_at(&settings.services)), ..Parts::default() };
    let failed = |report: String| Failed { exit: Exit::Configuration, report: format!("lamna: {report}") };
    let explanation =
        Explainer::new(&settings, parts).and_then(|explainer| explainer.explain(&asked)).map_err(failed)?;
    let text = match args.json {
        true => {
            let json = serde_json::to_string(&explanation);
            json.map_err(|error| failed(format!("cannot be written as JSON: {error}")))? + "\n"
        }
        false => explanation.to_string(),
    };
    Ok(io::stdout().write_all(text.as_bytes())?)
}

/// The request of a client that is given `url`.
pub(crate) fn asked(url: &str) -> Result<Asked, Failed> {
    let usage = |report| Failed { exit: Exit::Usage, report: format!("lamna: {report}") };
    let (host, target) = take_apart(url).map_err(usage)?;
    let is_of = |scheme: &str| url.starts_with(scheme);
    let scheme = match () {
        () if is_of("https://") => Some(Scheme::Https),
        () => is_of("http://").then_some(Scheme::Http),
    };
    Ok(Asked { host: host.map(str::to_owned), target: in_ascii(target).into_owned(), scheme, client: None })
}

/// The host without its port, and the target.
fn take_apart(url: &str) -> Result<(Option<&str>, &str), String> {
    let without_fragment = url.split('#').next().unwrap_or_default();
    if without_fragment.starts_with('/') {
        return Ok((None, without_fragment));
    }
    let scheme = ["http://", "https://"].into_iter().find_map(|scheme| without_fragment.strip_prefix(scheme));
    let Some(rest) = scheme else {
        return Err(format!("`{url}` is not a URL: expected http://HOST/PATH, or /PATH"));
    };
    let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    if host.is_empty() {
        return Err(format!("`{url}` names no host: expected http://HOST/PATH, or /PATH"));
    }
    let target = if target.is_empty() { "/" } else { target };
    if target.starts_with('?') {
        return Err(format!("`{url}` has no path: write a `/` before the `?`"));
    }
    Ok((Some(host), target))
}

/// The target as clients send it: what is not ASCII is percent-encoded, and so are spaces.
fn in_ascii(target: &str) -> Cow<'_, str> {
    let is_sent = |byte: u8| byte.is_ascii_graphic();
    if target.bytes().all(is_sent) {
        return target.into();
    }
    let encode = |byte: u8| if is_sent(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    target.bytes().map(encode).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_a_host_and_a_target() {
        assert_eq!(take_apart("http://a.example:8080/b?c#d"), Ok((Some("a.example"), "/b?c")));
        assert_eq!(take_apart("https://[::1]:80"), Ok((Some("[::1]"), "/")));
        assert_eq!(take_apart("https://[::1]/"), Ok((Some("[::1]"), "/")));
        assert_eq!(take_apart("/b?c"), Ok((None, "/b?c")));
        for wrong in ["", "a.example/b", "ftp://a/", "http://", "http://:80/", "http://a?b"] {
            assert!(take_apart(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_target_is_sent_in_ascii() {
        assert_eq!(in_ascii("/a%20b?c"), "/a%20b?c");
        assert_eq!(in_ascii("/ä b"), "/%C3%A4%20b");
    }
}
