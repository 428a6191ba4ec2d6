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
    take_apart(url).map_err(|report| Failed { exit: Exit::Usage, report: format!("lamna: {report}") })
}

fn take_apart(url: &str) -> Result<Asked, String> {
    let without_fragment = url.split('#').next().unwrap_or_default();
    if without_fragment.starts_with('/') {
        return Ok(Asked { target: in_ascii(without_fragment).into_owned(), ..Asked::default() });
    }
    let schemes = [("http://", Scheme::Http, ":80"), ("https://", Scheme::Https, ":443")];
    let found = schemes.into_iter().find_map(|(prefix, scheme, default_port)| {
        Some((without_fragment.strip_prefix(prefix)?, scheme, default_port))
    });
    let Some((rest, scheme, default_port)) = found else {
        return Err(format!("`{url}` is not a URL: expected http://HOST/PATH, or /PATH"));
    };
    let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let target = if target.is_empty() { "/" } else { target };
    if target.starts_with('?') {
        return Err(format!("`{url}` has no path: write a `/` before the `?`"));
    }
    let authority = authority.strip_suffix(':').unwrap_or(authority);
    let target = in_ascii(target).into_owned();
    let asked = Asked { host: Some(authority.to_owned()), target, scheme: Some(scheme), client: None };
    match asked.host_name() {
        Ok(Some(_)) => {
            // Clients leave a port out that says nothing.
            let host = authority.strip_suffix(default_port).unwrap_or(authority).to_owned();
            Ok(Asked { host: Some(host), ..asked })
        }
        Ok(None) => Err(format!("`{url}` names no host: expected http://HOST/PATH, or /PATH")),
        Err(why) => Err(why),
    }
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

    fn host_and_target(url: &str) -> (Option<String>, String) {
        let Asked { host, target, .. } = take_apart(url).unwrap();
        (host, target)
    }

    #[test]
    fn a_url_is_a_host_and_a_target() {
        for (url, host, target) in [
            ("http://a.example:8080/b?c#d", Some("a.example:8080"), "/b?c"),
            ("https://[::1]:80", Some("[::1]:80"), "/"),
            ("https://[::1]/", Some("[::1]"), "/"),
            ("/b?c", None, "/b?c"),
        ] {
            assert_eq!(host_and_target(url), (host.map(str::to_owned), target.to_owned()), "{url}");
        }
        for wrong in ["", "a.example/b", "ftp://a/", "http://", "http://:80/", "http://a?b", "http:///a", "http://u@a/"]
        {
            assert!(take_apart(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_port_is_sent_unless_the_scheme_has_it_by_itself() {
        for (url, host) in [
            ("http://a:80/", "a"),
            ("https://a:443/", "a"),
            ("https://a:80/", "a:80"),
            ("http://a:443/", "a:443"),
            ("http://a:/", "a"),
            ("https://a:65535/", "a:65535"),
            ("http://[::80]/", "[::80]"),
        ] {
            assert_eq!(host_and_target(url).0.as_deref(), Some(host), "{url}");
        }
        for wrong in ["http://a:65536/", "http://a:x/", "http://a:80:80/", "http://[::1/", "https://a::443/"] {
            assert!(take_apart(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_target_is_sent_in_ascii() {
        assert_eq!(in_ascii("/a%20b?c"), "/a%20b?c");
        assert_eq!(in_ascii("/ä b"), "/%C3%A4%20b");
    }
}
