//! Addresses of HAProxy: `bind`.
//!
//! Owns: where a frontend listens, and its certificate. Guarantees: a frontend that speaks TLS and whose certificate is
//! not carried over is not listened for in clear text at that address.

use lamna_config::render::quoted;

use super::Section;
use super::syntax::Line;
use crate::{Draft, Files, Site};

/// The addresses of a frontend.
#[derive(Debug, Default)]
pub(super) struct Binds {
    all: Vec<Bind>,
    certificate: Option<String>,
    client_ca: Option<(String, bool)>,
    /// Clients have to show certificates, and by which authority is not known.
    shuts: bool,
}

#[derive(Debug)]
struct Bind {
    line: usize,
    text: String,
    address: String,
    has_tls: bool,
    has_proxy_header: bool,
}

impl Binds {
    pub(super) fn has_tls(&self) -> bool {
        self.certificate.is_some() && self.all.iter().any(|one| one.has_tls)
    }

    /// Whether all requests come over TLS, or none. None where both are served.
    pub(super) fn is_tls(&self) -> Option<bool> {
        let has_clear = self.all.iter().any(|one| !one.has_tls);
        match self.all.iter().any(|one| one.has_tls) {
            true if has_clear => None,
            is_tls => Some(is_tls),
        }
    }

    pub(super) fn shuts(&self) -> bool {
        self.shuts
    }

    pub(super) fn addresses(&self) -> Vec<String> {
        self.all.iter().map(|one| one.address.clone()).collect()
    }

    /// Listens for a site, which `leads_to_tls` where it is asked in clear text or serves that.
    pub(super) fn listen(&self, site: &mut Site, leads_to_tls: bool, draft: &mut Draft) {
        let has_certificate = site.keys.iter().any(|(key, _)| *key == "certificate");
        if let (Some(file), false) = (&self.certificate, has_certificate) {
            site.keys.push(("certificate", quoted(file)));
            site.keys.push(("key", quoted(file)));
            if let Some((file, is_optional)) = &self.client_ca {
                site.keys.push(("client_ca", quoted(file)));
                if *is_optional {
                    site.keys.push(("client_certificates", quoted("optional")));
                }
            }
        }
        let is_secure = site.keys.iter().any(|(key, _)| *key == "certificate");
        for one in &self.all {
            if one.has_tls && self.certificate.is_none() {
                continue;
            }
            draft.listen(one.line, one.address.clone(), !one.has_tls);
            let Some(entry) = draft.entries.get_mut(&one.address) else { continue };
            if !one.has_tls && is_secure && !leads_to_tls {
                entry.clear.push((site.line, one.line, one.text.clone()));
            }
            entry.proxy_protocol = entry.proxy_protocol.or(one.has_proxy_header.then_some(one.line));
        }
    }
}

/// The addresses that a section names, also in its first line.
pub(super) fn binds(section: &Section<'_>, files: Files<'_>, draft: &mut Draft) -> Binds {
    let mut binds = Binds::default();
    let first = section.line.word(2);
    if !first.is_empty() && first != "from" {
        take(section.line, 2, &mut binds, files, draft);
    }
    section.own.iter().filter(|line| line.word(0) == "bind").for_each(|line| take(line, 1, &mut binds, files, draft));
    binds
}

fn take(line: &Line, at: usize, binds: &mut Binds, files: Files<'_>, draft: &mut Draft) {
    let (mut has_tls, mut has_proxy_header, mut certificates) = (false, false, Vec::new());
    let (mut ca, mut verify) = (None, "none");
    let mut option = at + 1;
    let lose = |word: &str, why: &str, draft: &mut Draft| {
        draft.lose(line.line, format!("`{word}` of `{}`: {why}", line.text()))
    };
    while option < line.words.len() {
        let (word, next) = (line.word(option), line.word(option + 1));
        option += 1;
        match word {
            "ssl" => has_tls = true,
            "accept-proxy" => has_proxy_header = true,
            "crt" => {
                option += 1;
                certificates.push(next.to_owned());
            }
            "crt-list" => {
                option += 1;
                lose(word, "certificates are named one by one, each for a site", draft);
            }
            "ca-file" => {
                option += 1;
                ca = Some(next.to_owned());
            }
            "verify" => {
                option += 1;
                verify = next;
            }
            "crl-file" => {
                option += 1;
                binds.shuts = true;
                lose(word, "a certificate that is no longer good would be let in: nobody is", draft);
            }
            "alpn" | "npn" => {
                option += 1;
                if !next.split(',').any(|one| one == "h2") {
                    lose(
                        &format!("{word} {next}"),
                        "HTTP/2 is offered as well, unless `protocols` of `listen` says otherwise",
                        draft,
                    );
                }
            }
            "ciphers" | "ciphersuites" | "curves" | "ecdhe" | "ssl-min-ver" | "ssl-max-ver" | "sigalgs" => option += 1,
            "no-sslv3"
            | "no-tlsv10"
            | "no-tlsv11"
            | "no-tls-tickets"
            | "v4v6"
            | "v6only"
            | "tfo"
            | "defer-accept"
            | "transparent"
            | "strict-sni"
            | "prefer-client-ciphers"
            | "force-tlsv12"
            | "allow-0rtt"
            | "no-tlsv12"
            | "no-tlsv13" => {}
            "name" | "maxconn" | "backlog" | "process" | "thread" | "user" | "group" | "mode" | "uid" | "gid"
            | "mss" | "level" | "nice" | "id" | "tcp-ut" | "shards" | "severity-output" => option += 1,
            "proto" => {
                option += 1;
                if next == "h2" && !has_tls {
                    draft.key("h2c", "true".into());
                }
            }
            "interface" => {
                option += 1;
                lose(word, "an interface is named by its address", draft);
            }
            _ => lose(word, "Lamna has nothing like it", draft),
        }
    }
    match (verify, ca) {
        ("none", _) => {}
        (how, Some(file)) => binds.client_ca = Some((file, how == "optional")),
        ("optional", None) => {}
        _ => binds.shuts = true,
    }
    if has_tls {
        let mut found: Vec<String> = Vec::new();
        for name in certificates {
            // A folder of files.
            let inner = (files.list)(&format!("{}/*", name.trim_end_matches('/')));
            found.extend(if inner.is_empty() { vec![name] } else { inner });
        }
        let is_file = |name: &String| !name.ends_with('/') && !name.is_empty();
        match found.iter().find(|name| is_file(name)) {
            Some(file) => {
                for other in found.iter().filter(|one| *one != file) {
                    lose(
                        &format!("crt {other}"),
                        "a site has one certificate: one with `hosts` of its own is for others",
                        draft,
                    );
                }
                if file.contains('/') {
                    binds.certificate.get_or_insert_with(|| file.clone());
                } else {
                    lose(
                        &format!("crt {file}"),
                        "it is beneath a directory of HAProxy there, and beside this file here",
                        draft,
                    );
                    binds.certificate.get_or_insert_with(|| file.clone());
                }
            }
            None => lose("ssl", "TLS takes `crt` with a file, which is none of a folder that is not here", draft),
        }
    }
    for word in line.word(at).split(',').filter(|word| !word.is_empty()) {
        match address(word) {
            Some(address) => {
                binds.all.push(Bind { line: line.line, text: line.text(), address, has_tls, has_proxy_header })
            }
            None => lose(word, "an address is an IP address and a port, or the path of a socket", draft),
        }
    }
}

/// An address as it is written here.
fn address(word: &str) -> Option<String> {
    let word = ["ipv4@", "ipv6@"].iter().find_map(|start| word.strip_prefix(start)).unwrap_or(word);
    if let Some(path) = word.strip_prefix("unix@").or(word.starts_with('/').then_some(word)) {
        return Some(format!("unix:{path}"));
    }
    let (host, port) = word.rsplit_once(':').unwrap_or(("", word));
    let port: u16 = port.parse().ok().filter(|port| *port != 0)?;
    match host.trim_matches(['[', ']']) {
        "" | "*" => Some(format!("0.0.0.0:{port}")),
        "::" => Some(format!("[::]:{port}")),
        "localhost" => Some(format!("127.0.0.1:{port}")),
        host => match host.parse::<std::net::IpAddr>().ok()? {
            std::net::IpAddr::V4(host) => Some(format!("{host}:{port}")),
            std::net::IpAddr::V6(host) => Some(format!("[{host}]:{port}")),
        },
    }
}
