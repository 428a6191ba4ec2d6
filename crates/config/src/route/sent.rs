//! Which files a site sends as they are: its routes are asked, as they are asked while it serves.
//!
//! Owns: [`Sent`]. Guarantees: of a path the files are named that an answer to it may be, whether they are there or
//! not: the path itself, what it is rewritten to, what is tried, index files and pages for errors. What an application
//! answers, runs or is asked for is not among them. Of routes that ask for more than a path it is taken that all of
//! them fit, that none does, and that each one alone does. Pure. Who is let in is asked apart ([`Sent::is_open`]).

use std::collections::BTreeSet;

use lamna_proto::parse::path;

use super::matcher::{Matcher, RouteId};
use super::template::Template;
use super::{Rules, merge};
use crate::access::{AccessRule, Allowed};
use crate::gateway::{GatewaySettings, ScriptSettings};
use crate::settings::SiteSettings;

/// The routes of a site.
pub struct Sent<'s> {
    site: &'s SiteSettings,
    matcher: Matcher,
}

/// Routes that ask for more than a path, of which each is asked about alone.
const CONDITIONAL_MAX: usize = 32;

impl<'s> Sent<'s> {
    /// # Errors
    /// The fault of the routes together.
    pub fn new(site: &'s SiteSettings) -> Result<Sent<'s>, String> {
        Ok(Sent { site, matcher: Matcher::new(&site.routes)? })
    }

    /// Paths of the files that a request for `path`, which is decoded and normalised, may be answered with as they are.
    pub fn files(&self, path: &[u8]) -> BTreeSet<Vec<u8>> {
        let mut found = BTreeSet::new();
        self.rules(path).iter().for_each(|rules| self.by(path, rules, &mut found));
        found
    }

    /// Whether the file at `path`, which is decoded and normalised, is sent to nobody, by whatever path it is come to.
    pub fn refuses(&self, path: &[u8]) -> bool {
        let is_refused = |rules: &Rules| {
            let is_hidden = |(to, _): &(Template, usize)| path::is_hidden(to.text().as_bytes());
            rules.respond.as_ref().is_some_and(|respond| respond.status >= 400)
                || rules.rewrite.as_ref().is_some_and(is_hidden)
        };
        self.rules(path).iter().all(is_refused)
    }

    /// The rules of a path: none of the routes that ask for more fits, all do, or one of them.
    fn rules(&self, path: &[u8]) -> Vec<Rules> {
        let by_path = self.matcher.by_path(path);
        let (conditional, plain): (Vec<RouteId>, Vec<RouteId>) =
            by_path.iter().partition(|id| !self.matcher.route(**id).conditions.is_empty());
        let with = |more: &[RouteId]| {
            let fits = |id: &&RouteId| plain.contains(id) || more.contains(id);
            merge(by_path.iter().filter(fits).map(|id| (usize::from(*id), self.matcher.route(*id))))
        };
        let mut rules = vec![with(&[])];
        if !conditional.is_empty() {
            rules.push(with(&conditional));
            rules.extend(conditional.iter().take(CONDITIONAL_MAX).map(|id| with(&[*id])));
        }
        rules
    }

    /// Whether the file at `path` may be sent to a client that asks for it.
    pub(crate) fn sends(&self, path: &[u8]) -> bool {
        self.files(path).contains(path)
    }

    /// Whether any client may read what is at `path`, except those of denied networks.
    pub(crate) fn is_open(&self, path: &[u8]) -> bool {
        let names_some = |rule: &AccessRule| {
            rule.asks_for_credentials() || rule.service.is_some() || !rule.allow.is_empty() || rule.is_for_nobody()
        };
        for id in self.matcher.by_path(path) {
            let route = self.matcher.route(id);
            match route.access.readers() {
                None => {}
                Some(Allowed::Only(rule)) if names_some(rule) && route.conditions.is_empty() => return false,
                // Whom its conditions do not fit, the next one lets in or not.
                Some(Allowed::Only(rule)) if names_some(rule) => {}
                Some(_) => return true,
            }
        }
        !matches!(self.site.access.readers(), Some(Allowed::Only(rule)) if names_some(rule))
    }

    fn by(&self, asked: &[u8], rules: &Rules, found: &mut BTreeSet<Vec<u8>>) {
        if let Some(respond) = &rules.respond {
            respond.file().into_iter().for_each(|file| self.push(file.as_bytes().to_vec(), None, found));
            return;
        }
        let is_redirected = rules.redirect.as_ref().is_some_and(|(redirect, _)| !redirect.if_missing);
        let answers = |gateway: &GatewaySettings| match &gateway.scripts {
            None => !rules.try_files_first(),
            Some(scripts) => scripts.extensions.is_empty(),
        };
        let of_site = std::str::from_utf8(asked).ok().and_then(|text| {
            let mut redirects = self.site.redirects.iter();
            redirects.find_map(|redirect| redirect.location(text))
        });
        if is_redirected || of_site.is_some() || rules.handler.is_some() || rules.gateway.as_ref().is_some_and(answers)
        {
            return;
        }
        let pages = rules.error_pages.iter().chain(self.site.error_pages.iter());
        pages.for_each(|(_, page)| self.push(page.as_bytes().to_vec(), None, found));
        let filled = |template: &Template, from: usize, path: &[u8]| {
            let filled = template.fill(path, &self.matcher.captures(from as RouteId, asked)); // It is from `merge`.
            let mut normal = Vec::new();
            path::normalise(path::encode(&filled).as_bytes(), &mut normal).ok().map(|()| normal)
        };
        let rewritten = match &rules.rewrite {
            None => Some(asked.to_vec()),
            Some((template, from)) => filled(template, *from, asked),
        };
        let Some(rewritten) = rewritten else { return };
        let tried: Vec<Vec<u8>> = match &rules.try_files {
            Some((tried, from)) if !tried.is_empty() => {
                tried.iter().filter_map(|template| filled(template, *from, &rewritten)).collect()
            }
            _ => vec![rewritten],
        };
        let scripts = rules.gateway.as_ref().and_then(|gateway| gateway.scripts.as_ref());
        for candidate in tried {
            if candidate.ends_with(b"/") {
                let of_scripts = scripts.filter(|_| rules.index.is_none()).map_or(&[][..], |scripts| &scripts.index);
                let names = of_scripts.iter().chain(rules.index.as_ref().unwrap_or(&self.site.index));
                names.for_each(|name| self.push([&candidate, name.as_bytes()].concat(), scripts, found));
            } else {
                self.push(candidate, scripts, found);
            }
        }
    }

    /// A file that would be sent, unless something runs it, or one on the way to it.
    fn push(&self, file: Vec<u8>, scripts: Option<&ScriptSettings>, found: &mut BTreeSet<Vec<u8>>) {
        let ends = file.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let is_run = ends.chain([file.len()]).any(|end| {
            let name = &file[..end];
            let of_file = self.matcher.application_at(name).and_then(|gateway| gateway.scripts.as_ref());
            [scripts, of_file].into_iter().flatten().any(|scripts| scripts.run(name))
        });
        if !is_run && !path::is_hidden(&file) {
            found.insert(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn files(site: &str, path: &str) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        let text = format!("[[site]]\nroot = {:?}\nindex = [\"index.html\"]\n{site}", root.path());
        let settings = parse(&text, &root.path().join("lamna.toml")).unwrap();
        let sent = Sent::new(&settings.sites[0]).unwrap();
        sent.files(path.as_bytes()).into_iter().map(|file| String::from_utf8(file).unwrap()).collect()
    }

    #[test]
    fn what_is_run_is_not_sent_and_the_rest_is() {
        let php =
            "route = [{ match = \"/*\", fastcgi = \"127.0.0.1:9\", try = [\"$path\", \"/index.php\", \"/a.html\"] }]";
        assert_eq!(files(php, "/x.php"), ["/a.html"]);
        assert_eq!(files(php, "/x.php/info"), ["/a.html"]);
        assert_eq!(files(php, "/x.PHP"), ["/a.html", "/x.PHP"]);
        assert_eq!(files("", "/x.php"), ["/x.php"]);
        assert_eq!(files("", "/"), ["/index.html"]);
        assert_eq!(files("", "/.env"), [""; 0]);
        let off = "route = [{ match = \"/*\", fastcgi = \"127.0.0.1:9\" }, { match = \"/api/*\", fastcgi = false }]";
        assert_eq!(files(off, "/api/x.php"), ["/api/x.php"]);
    }

    #[test]
    fn a_script_that_another_route_runs_is_not_sent_however_it_is_come_to() {
        let regex = "route = [{ match = { regex = \"\\\\.php$\" }, fastcgi = \"127.0.0.1:9\" }, { match = \"/*\", try = [\"$path\", \"/index.php\"] }]";
        assert_eq!(files(regex, "/a"), ["/a"]);
        let wrong = "route = [{ match = \"/a\", rewrite = \"/index.php\" }]\nerror_pages = { 404 = \"/404.php\" }";
        assert_eq!(files(wrong, "/a"), ["/404.php", "/index.php"]);
    }

    #[test]
    fn what_an_application_answers_or_is_led_away_is_no_file() {
        for route in [
            "proxy = \"http://127.0.0.1:9\"",
            "redirect = \"https://a.example\"",
            "rewrite = \"/.denied\", try = []",
            "fastcgi = { to = \"127.0.0.1:9\", extensions = [] }",
        ] {
            assert_eq!(files(&format!("route = [{{ match = \"/*\", {route} }}]"), "/x.php"), [""; 0], "{route}");
        }
        let some = "route = [{ match = { path = \"/*\", method = \"POST\" }, proxy = \"http://127.0.0.1:9\" }]";
        assert_eq!(files(some, "/x.php"), ["/x.php"], "who does not post is sent it");
    }
}
