//! TLS of Caddy, which speaks it without being told: where the certificate of a site comes from.
//!
//! Owns: the keys of a site about TLS. Certificates of names that the world knows are ordered, and those of other names
//! are of an authority of this machine, there and here.

use lamna_config::render::quoted;

use super::syntax::Line;
use crate::{DENIED_PRIORITY, DENIED_WORDS, Draft, Route, Site, denied};

/// Which clients have to show a certificate. Where that cannot be expressed, no client is let in.
fn clients(line: &Line, has_certificate: bool, site: &mut Site, draft: &mut Draft) {
    let inner = || line.block.iter().flatten();
    let word = |name: &str| inner().find(|one| one.word(0) == name);
    let known = ["mode", "trusted_ca_cert_file", "trust_pool"];
    let unknown = inner().find(|one| !known.contains(&one.word(0)));
    let file = match (word("trusted_ca_cert_file"), word("trust_pool")) {
        (Some(one), None) if one.words.len() == 2 => Some(one.word(1)),
        (None, Some(one)) if one.word(1) == "file" && one.words.len() == 3 && one.block.is_none() => Some(one.word(2)),
        _ => None,
    };
    let mode = word("mode").map_or("require_and_verify", |one| one.word(1));
    match (mode, file.filter(|_| has_certificate)) {
        ("require_and_verify", Some(file)) if unknown.is_none() => site.keys.push(("client_ca", quoted(file))),
        ("verify_if_given", Some(file)) if unknown.is_none() => {
            site.keys.push(("client_ca", quoted(file)));
            site.keys.push(("client_certificates", quoted("optional")));
        }
        _ => {
            let why = "clients show certificates that one of a file has signed, to a site that names its own";
            draft.lose(line.line, format!("`{}` of `tls`: {why}; {DENIED_WORDS}", line.text()));
            let keys = [("match", quoted("*")), ("priority", DENIED_PRIORITY.to_owned())];
            site.routes.push(Route { line: line.line, keys: keys.into_iter().chain(denied()).collect() });
        }
    }
}

/// Ends of names that no certificate authority knows.
const LOCAL: [&str; 6] = ["localhost", "local", "internal", "home.arpa", "test", "lan"];

/// Gives the site of `line` its certificate.
pub(super) fn settle(line: usize, directives: &[Line], site: &mut Site, draft: &mut Draft) {
    let said = directives.iter().find(|one| one.word(0) == "tls");
    for inner in said.iter().flat_map(|said| said.block.iter().flatten()) {
        if inner.word(0) == "client_auth" {
            clients(inner, said.is_some_and(|said| said.words.len() == 3), site, draft);
            continue;
        }
        draft.lose(inner.line, format!("`{}` of `tls`: Lamna has nothing like it", inner.text()));
    }
    let words = said.map_or(&[][..], |said| &said.words[1..]);
    match words {
        [certificate, key] => {
            site.keys.push(("certificate", quoted(certificate)));
            return site.keys.push(("key", quoted(key)));
        }
        [word] if word == "internal" => return site.keys.push(("tls", quoted("local"))),
        [email] if email.contains('@') => draft.key("acme_contact", quoted(email)),
        [] => {}
        _ => {
            let (line, text) = said.map_or((line, String::new()), |said| (said.line, said.text()));
            draft.lose(line, format!("`{text}`: it is neither two files nor `internal`"));
        }
    }
    let is_local = |host: &&String| {
        let end = |end: &&str| host.strip_suffix(*end).is_some_and(|before| before.is_empty() || before.ends_with('.'));
        LOCAL.iter().any(end) || host.parse::<std::net::IpAddr>().is_ok()
    };
    let pattern = site.hosts.iter().find(|host| host.contains('*'));
    match (pattern, site.hosts.iter().filter(is_local).count()) {
        (Some(pattern), _) => {
            let why = "a certificate for it takes a challenge by DNS, which is not done: name one with `certificate` and `key`";
            draft.lose(line, format!("TLS of `{pattern}`: {why}"));
        }
        (None, 0) if site.hosts.is_empty() => {
            draft.lose(line, "TLS of this site: a certificate is for a host, and it names none".to_owned());
        }
        (None, 0) => site.keys.push(("tls", quoted("auto"))),
        (None, local) if local == site.hosts.len() => site.keys.push(("tls", quoted("local"))),
        (None, _) => {
            let why = "some of its hosts are known to the world and some are not: make two sites of it";
            draft.lose(line, format!("TLS of this site: {why}"));
        }
    }
}
