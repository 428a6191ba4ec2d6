//! Answers of a configuration that has been made to whole requests, for tests.
//!
//! Owns: [`Asked`]. The routes of a site are asked as they are while it serves; no file is looked for.

use lamna_config::access::Allowed;
use lamna_config::parse_unseen;
use lamna_config::route::condition;
use lamna_config::route::matcher::Matcher;
use lamna_config::route::{Rules, merge};
use lamna_config::settings::Settings;
use lamna_proto::limits::Limits;
use lamna_proto::message::Request;
use lamna_proto::parse::head::{self, Parsed};

/// A request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    /// Lines of the head, each with its end.
    pub(crate) fields: &'a str,
    /// Where it comes from; empty for a Unix socket.
    pub(crate) client: &'a str,
}

impl Asked<'_> {
    pub(crate) fn of(path: &str) -> Asked<'_> {
        Asked { path, query: "", fields: "", client: "192.0.2.7" }
    }

    /// The status of a fixed answer, `to` and where it is led, or the address of the application.
    pub(crate) fn place(&self, text: &str, host: &str) -> String {
        let settings = parse_unseen(text, "/a.toml".as_ref()).unwrap_or_else(|why| panic!("{why}\n{text}"));
        self.with_rules(&settings, host, |rules, _| match (&rules.respond, &rules.redirect, &rules.gateway) {
            (Some(respond), ..) => respond.status.to_string(),
            (_, Some((redirect, _)), _) => format!("to {}", redirect.to.text()),
            (.., Some(gateway)) => gateway.upstreams[0].address.to_string(),
            _ => "nothing".to_owned(),
        })
    }

    /// Whether nobody may read at the path.
    pub(crate) fn is_denied(&self, text: &str, host: &str) -> bool {
        let settings = parse_unseen(text, "/a.toml".as_ref()).unwrap_or_else(|why| panic!("{why}\n{text}"));
        self.with_rules(
            &settings,
            host,
            |rules, _| matches!(rules.access.readers(), Some(Allowed::Only(rule)) if rule.is_for_nobody()),
        )
    }

    /// Whether everybody may read at the path.
    pub(crate) fn lets_anyone_in(&self, text: &str, host: &str) -> bool {
        let settings = parse_unseen(text, "/a.toml".as_ref()).unwrap_or_else(|why| panic!("{why}\n{text}"));
        let is_open = |rules: Rules, _: &str| !matches!(rules.access.readers(), Some(Allowed::Only(_)));
        self.with_rules(&settings, host, is_open)
    }

    /// The files that stand for a folder.
    pub(crate) fn index(&self, text: &str, host: &str) -> Vec<String> {
        let settings = parse_unseen(text, "/a.toml".as_ref()).unwrap_or_else(|why| panic!("{why}\n{text}"));
        let of_site = settings.sites[settings.site_of(Some(host))].index.clone();
        self.with_rules(&settings, host, |rules, _| rules.index.unwrap_or(of_site))
    }

    /// `nothing` (a fixed answer among it), `application`, `to` and an address, or `file` and what is looked for.
    pub(crate) fn answer(&self, text: &str, host: &str) -> String {
        let settings = parse_unseen(text, "/a.toml".as_ref()).unwrap_or_else(|why| panic!("{why}\n{text}"));
        self.with_rules(&settings, host, |rules, path| described(&rules, path))
    }

    /// The result of `does` for its rules.
    fn with_rules<T>(&self, settings: &Settings, host: &str, does: impl FnOnce(Rules, &str) -> T) -> T {
        let site = &settings.sites[settings.site_of(Some(host))];
        let bytes = format!("GET / HTTP/1.1\r\n{}\r\n", self.fields);
        let Ok(Parsed::Complete(head)) = head::parse(bytes.as_bytes(), &Limits::default()) else { panic!("{bytes}") };
        let asked = condition::Asked {
            host: Some(host.as_bytes()),
            query: Some(self.query.as_bytes()),
            method: None,
            request: Some(Request { bytes: bytes.as_bytes(), head: &head }),
            client: self.client.parse().ok(),
        };
        let matcher = Matcher::new(&site.routes).unwrap();
        let ids = matcher.by_path(self.path.as_bytes());
        does(merge(matcher.fulfilled(&ids, &asked).map(|id| (usize::from(id), matcher.route(id)))), self.path)
    }
}

fn described(rules: &Rules, path: &str) -> String {
    let is_behind_files = rules.try_files_first();
    let tried = rules
        .try_files
        .as_ref()
        .map_or(String::new(), |(tried, _)| tried.iter().map(|one| format!(" {}", one.text())).collect::<String>());
    let rewritten = rules.rewrite.as_ref().map(|(to, _)| to.text().to_owned());
    if rules.respond.is_some() {
        return "nothing".to_owned();
    }
    if is_behind_files {
        return format!("file{tried}, else application");
    }
    match (&rules.redirect, &rules.gateway, rewritten) {
        (Some((redirect, _)), ..) => format!("to {}", redirect.to.text()),
        (None, Some(gateway), _) if gateway.scripts.as_ref().is_none_or(|one| one.extensions.is_empty()) => {
            "application".to_owned()
        }
        (.., Some(to)) if to == "/.denied" => "nothing".to_owned(),
        (.., Some(to)) => format!("file {to}{tried}"),
        (.., None) if tried.is_empty() => format!("file {path}"),
        (.., None) => format!("file{tried}"),
    }
}
