//! `RewriteRule`: what its rules are as routes.
//!
//! Owns: which rules refuse, lead elsewhere, look for another file or ask an application. Guarantees: a refusal whose
//! conditions cannot be said is for more requests; a path that would be another file or a program's is answered with
//! 404 where that cannot be said.

use lamna_config::render::quoted;
use lamna_config::route::pattern::Pattern;

use super::condition::{self, Conditions};
use super::proxy;
use super::routes::{Routes, Strength};
use super::syntax::Directive;
use crate::matching::{Kind, Literal, PathTest, Test, Unsaid};
use crate::{DENIED_WORDS, Draft, is_program, list};

/// Where rules stand.
pub(super) struct Place<'p> {
    /// The beginning of the paths, which the rules of a folder do not see; empty for those of a server.
    pub(super) base: &'p str,
    /// Whether all requests have come over TLS, or none.
    pub(super) is_tls: Option<bool>,
}

/// The outcome of the rules.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// Paths that are tried where there is nothing, the first first.
    pub(super) tried: Vec<String>,
    /// Requests in clear text are led to the same with TLS.
    pub(super) leads_to_tls: bool,
}

/// The rules among these directives, each with its conditions.
fn rules<'d>(directives: &[&'d Directive]) -> Vec<(Vec<&'d Directive>, &'d Directive)> {
    let (mut found, mut before) = (Vec::new(), Vec::new());
    for directive in directives {
        match &*directive.name {
            "rewritecond" => before.push(*directive),
            "rewriterule" => found.push((std::mem::take(&mut before), *directive)),
            _ => {}
        }
    }
    found
}

/// The answer to all requests of a section whose rule cannot be carried over: it refuses, or may keep some clients out
/// by leading them elsewhere. None for one that leads nowhere.
pub(super) fn refusal(directive: &Directive) -> Option<&'static str> {
    let one = Rule::new(directive, &Place { base: "", is_tls: None }, None);
    match () {
        () if one.has("F") || one.has("G") => Some("403"),
        () if one.to == "-" && !one.has("R") => None,
        () => Some("404"),
    }
}

/// Refuses the requests that have these `tests`, which are those of a section where rules cannot be carried over.
pub(super) fn refuse(directives: &[&Directive], tests: &[Literal], routes: &mut Routes, draft: &mut Draft) {
    let engine = directives.iter().rev().find(|one| one.name == "rewriteengine");
    let is_off = engine.is_some_and(|one| one.argument(0).eq_ignore_ascii_case("off"));
    for one in directives.iter().filter(|one| one.name == "rewriterule") {
        let refusal = refusal(one).filter(|_| !is_off);
        let lost = if refusal == Some("404") { format!("; {DENIED_WORDS}") } else { String::new() };
        draft.lose(one.line, format!("`{}`: rules stand in a server or a folder{lost}", one.text()));
        if let Some(status) = refusal {
            routes.emit(Strength::Rewrite, one, tests, vec![("respond", status.to_owned())], true, draft);
        }
    }
}

/// Makes routes of rules.
pub(super) fn carry(directives: &[&Directive], place: &Place<'_>, routes: &mut Routes, draft: &mut Draft) -> Made {
    let mut made = Made::default();
    let engine = directives.iter().rev().find(|one| one.name == "rewriteengine");
    let base = directives.iter().rev().find(|one| one.name == "rewritebase").map(|one| one.argument(0));
    let rules = rules(directives);
    if rules.is_empty() {
        return made;
    }
    let all: Vec<(&[&Directive], Rule<'_>)> =
        rules.iter().map(|(lines, rule)| (&**lines, Rule::new(rule, place, base))).collect();
    if engine.is_none_or(|one| !one.argument(0).eq_ignore_ascii_case("on")) {
        for (conditions, rule) in rules {
            for one in conditions.into_iter().chain([rule]) {
                draft.need_not(one.line, format!("`{}`: rewriting is not turned on", one.text()));
            }
        }
        return made;
    }
    // Conditions under which later rules are not carried out.
    let mut exempt: Vec<Vec<Literal>> = Vec::new();
    let mut skips_files = false;
    for &(ref lines, rule) in &rules {
        let one = Rule::new(rule, place, base);
        let is_soft = one.redirects() && !one.has("F") && !one.has("G");
        let is_exemption = one.to == "-" && !["F", "G", "R"].iter().any(|flag| one.has(flag));
        let use_of = match () {
            () if is_exemption => condition::Use::Exempts,
            () if one.has("F") || one.has("G") => condition::Use::Refuses,
            () if is_soft => condition::Use::Leads,
            () => condition::Use::Answers,
        };
        let mut conditions = condition::conditions(lines, use_of);
        for all in &mut conditions.any {
            all.extend(one.path());
            for (test, _) in all.iter_mut() {
                if let (Test::Tls, Some(is_tls)) = (&*test, place.is_tls) {
                    *test = if is_tls { Test::Always } else { Test::Never };
                }
            }
        }
        if is_exemption {
            if conditions.file == Some(true) {
                skips_files = true;
            } else if one.has("L") || one.has("END") {
                if conditions.file.is_some() {
                    let why = "what is exempt where nothing is there cannot be said";
                    let unsaid = (Test::Unsaid(Unsaid::of_request(why)), false);
                    conditions.any.iter_mut().for_each(|all| all.push(unsaid.clone()));
                }
                exempt.extend(conditions.any);
            } else if one
                .flags
                .iter()
                .any(|flag| flag.starts_with("S=") || flag.starts_with("SKIP=") || flag == "N" || flag == "C")
            {
                draft.lose(rule.line, format!("`{}`: rules are not skipped or repeated", rule.text()));
            } else {
                draft.need_not(rule.line, format!("`{}`: it only tells programs something", rule.text()));
            }
            continue;
        }
        conditions.any = beyond(conditions.any, &exempt);
        if skips_files {
            conditions.file.get_or_insert(false);
        }
        if let Some(why) = one.is_unsure(&all, rule.line) {
            draft.lose(rule.line, format!("`{}`: {why}; {DENIED_WORDS}", rule.text()));
            one.refuse(&conditions, routes, draft);
            continue;
        }
        one.carry(&conditions, routes, &mut made, draft);
    }
    made
}

/// Whether a rule leads some clients away, or all: its conditions ask for more than the address that is asked for.
fn leads_away(lines: &[&Directive], rule: &Rule<'_>) -> bool {
    let asks = |line: &&Directive| {
        condition::of_file(line.argument(0), line.argument(1)).is_none() && condition::asks_for_client(line.argument(0))
    };
    let refuses = rule.has("F") || rule.has("G");
    (rule.to != "-" || rule.has("R")) && !refuses && (lines.is_empty() || lines.iter().any(asks))
}

/// Conditions without what is exempt.
fn beyond(any: Vec<Vec<Literal>>, exempt: &[Vec<Literal>]) -> Vec<Vec<Literal>> {
    exempt.iter().fold(any, |any, exempt| {
        let without = |one: &Vec<Literal>| {
            let each = exempt.iter().map(|(test, is_not)| {
                // A path is left out by its beginnings.
                let test = match test {
                    Test::Path(paths) => match &paths[..] {
                        [path] if path.kind == Kind::Regex => match condition::plain(&path.text) {
                            Some(tests) => Test::Path(tests),
                            None => Test::Unsaid(Unsaid::of_request("which paths are exempt cannot be said")),
                        },
                        _ => test.clone(),
                    },
                    test => test.clone(),
                };
                [one.clone(), vec![(test, !is_not)]].concat()
            });
            each.collect::<Vec<_>>()
        };
        let beyond: Vec<Vec<Literal>> = any.iter().flat_map(without).take(condition::ALTERNATIVES_MAX + 1).collect();
        if beyond.len() <= condition::ALTERNATIVES_MAX {
            return beyond;
        }
        let unsaid = (Test::Unsaid(Unsaid::of_request("it has too many exemptions")), false);
        any.into_iter().map(|one| [one, vec![unsaid.clone()]].concat()).collect()
    })
}

/// A rule, with its pattern over whole paths.
struct Rule<'d> {
    directive: &'d Directive,
    /// The pattern as it is written; and whether it must not fit.
    pattern: String,
    is_not: bool,
    base: String,
    to: String,
    flags: Vec<String>,
}

impl<'d> Rule<'d> {
    fn new(directive: &'d Directive, place: &Place<'_>, base: Option<&str>) -> Rule<'d> {
        let pattern = directive.argument(0);
        let (is_not, pattern) = pattern.strip_prefix('!').map_or((false, pattern), |rest| (true, rest));
        let flags =
            directive.argument(2).trim_matches(['[', ']']).split(',').map(|flag| flag.trim().to_owned()).collect();
        let mut to = directive.argument(1).to_owned();
        if !place.base.is_empty() && to != "-" && !to.contains("://") && !to.starts_with(['/', '%']) {
            to = format!("{}/{to}", base.unwrap_or(place.base).trim_end_matches('/'));
        }
        Rule {
            directive,
            pattern: pattern.to_owned(),
            is_not,
            base: place.base.to_owned(),
            to: to.replace("./", ""),
            flags,
        }
    }

    fn has(&self, flag: &str) -> bool {
        let long = match flag {
            "F" => "forbidden",
            "G" => "gone",
            "L" => "last",
            "R" => "redirect",
            "P" => "proxy",
            _ => flag,
        };
        self.flags.iter().any(|one| {
            let name = one.split('=').next().unwrap_or_default();
            name.eq_ignore_ascii_case(flag) || name.eq_ignore_ascii_case(long)
        })
    }

    fn redirects(&self) -> bool {
        self.has("R") || self.to.contains("://") && !self.has("P")
    }

    /// Where a route that looks for something else stands.
    fn strength(&self) -> Strength {
        if self.base.is_empty() { Strength::Rewrite } else { Strength::Inner }
    }

    /// Whether it fits every path that it sees.
    fn is_for_all(&self) -> bool {
        !self.is_not
            && matches!(
                &*self.pattern,
                "" | "^"
                    | ".*"
                    | "(.*)"
                    | "^.*$"
                    | "^(.*)$"
                    | "^/(.*)$"
                    | "^/(.*)"
                    | "^/?(.*)"
                    | "^/?(.*)$"
                    | "^(.*)"
                    | "."
                    | "^/"
                    | "$"
                    | "(.*)$"
                    | "^(.+)$"
                    | "(.+)"
                    | "^/(.+)$"
                    | "^/.*$"
                    | ".+"
            )
    }

    /// The expression over whole paths. A rule of a folder sees what follows `base`: there its `^` is behind that.
    fn regex(&self) -> String {
        let case = if self.has("NC") || self.has("nocase") { "(?i)" } else { "" };
        let base = regex::escape(&self.base);
        let begins = |with: &str| with_beginnings(&self.pattern, with);
        match self.pattern.strip_prefix('^') {
            _ if self.base.is_empty() => format!("{case}{}", self.pattern),
            Some(rest) if begins("").1 == 1 && !has_alternatives(rest) => {
                format!("{case}^{base}{}", rest.strip_prefix("/?").unwrap_or(rest))
            }
            _ if begins("").1 == 0 => format!("{case}^{base}(?s:.*)(?:{})", self.pattern),
            // A slash begins every path: what fits elsewhere fits in the folder.
            _ if self.base == "/" => format!("{case}{}", begins("^/").0),
            _ => format!("{case}^{base}(?s:.*)(?:{})", begins("").0),
        }
    }

    /// Whether its expression over whole paths fits more of its folder than is meant.
    fn is_wider(&self) -> bool {
        let is_plain = self.pattern.starts_with('^') && !has_alternatives(&self.pattern);
        let beginnings = with_beginnings(&self.pattern, "").1;
        !matches!(&*self.base, "" | "/") && beginnings > usize::from(is_plain)
    }

    fn path(&self) -> Option<Literal> {
        if self.is_for_all() {
            let is_all = matches!(&*self.base, "" | "/");
            return (!is_all).then(|| (Test::Path(vec![PathTest::new(Kind::Prefix, &self.base, false)]), false));
        }
        if self.is_not {
            let test = match condition::plain(&self.pattern) {
                Some(tests) => Test::Path(
                    tests
                        .into_iter()
                        .map(|one| PathTest { text: format!("{}{}", self.base, one.text), ..one })
                        .collect(),
                ),
                None => Test::Unsaid(Unsaid::of_request("paths that must not fit are said by their beginnings")),
            };
            return Some((test, true));
        }
        if self.is_wider() && !(self.has("F") || self.has("G")) {
            let why = "an expression that begins in its middle is for a whole site";
            return Some((Test::Unsaid(Unsaid::of_request(why)), false));
        }
        let regex = self.regex();
        let regex = if self.has("F") || self.has("G") { crate::nginx::restricting(&regex) } else { regex };
        Some((Test::Path(vec![PathTest::new(Kind::Regex, &regex, false)]), false))
    }

    /// Why it is not known what answers for the path that it leads to, if that is so: another rule leads clients away
    /// from there. In a folder all rules are carried out for it, elsewhere those behind it unless it is the last.
    fn is_unsure(&self, all: &[(&[&Directive], Rule<'_>)], line: usize) -> Option<&'static str> {
        let is_inner = self.to != "-" && !self.redirects() && !["F", "G", "P", "END"].iter().any(|flag| self.has(flag));
        if !is_inner {
            return None;
        }
        if ["C", "CHAIN", "N", "NEXT", "S", "SKIP"].iter().any(|flag| self.has(flag)) {
            return Some("rules are not skipped or repeated");
        }
        let path = self.to.split('?').next().unwrap_or_default();
        let start = path.split(['$', '%']).next().unwrap_or_default();
        let target = if start == path { Pattern::Exact(path.to_owned()) } else { Pattern::Prefix(start.to_owned()) };
        let is_carried_out = |other: &Rule<'_>| match self.base.is_empty() {
            true => other.directive.line > line && !self.has("L"),
            false => other.directive.line != line,
        };
        // What is for all paths has led the client away from the first one.
        let may_fit = |other: &Rule<'_>| {
            !other.is_for_all() && !Pattern::from_regex(&other.regex()).is_ok_and(|one| one.is_apart_from(&target))
        };
        let leads_on = |(lines, other): &(&[&Directive], Rule<'_>)| {
            is_carried_out(other) && other.redirects() && leads_away(lines, other) && may_fit(other)
        };
        all.iter().any(leads_on).then_some("another rule leads clients away from where it leads")
    }

    /// Answers its requests with 404.
    fn refuse(&self, conditions: &Conditions, routes: &mut Routes, draft: &mut Draft) {
        for all in &conditions.any {
            routes.emit(self.strength(), self.directive, all, vec![("respond", "404".into())], true, draft);
        }
    }

    fn carry(&self, conditions: &Conditions, routes: &mut Routes, made: &mut Made, draft: &mut Draft) {
        let line = self.directive;
        if self.has("F") || self.has("G") {
            let status = if self.has("F") { "403" } else { "410" };
            for all in &conditions.any {
                routes.emit(Strength::Rewrite, line, all, vec![("respond", status.into())], true, draft);
            }
            return;
        }
        if self.redirects() {
            return self.redirect(conditions, routes, made, draft);
        }
        if self.has("P") {
            return self.proxy(conditions, routes, draft);
        }
        self.inner(conditions, routes, made, draft);
    }

    fn redirect(&self, conditions: &Conditions, routes: &mut Routes, made: &mut Made, draft: &mut Draft) {
        let line = self.directive;
        let code = self
            .flags
            .iter()
            .find_map(|flag| flag.strip_prefix("R=").or(flag.strip_prefix("r=")).or(flag.strip_prefix("redirect=")));
        let status = match code.unwrap_or("302") {
            "permanent" => "301",
            "temp" => "302",
            "seeother" => "303",
            code => code,
        };
        if let Some(value) = crate::respond::value(status, "") {
            for all in &conditions.any {
                routes.emit(Strength::Rewrite, line, all, vec![("respond", value.clone())], true, draft);
            }
            return;
        }
        let to = self.location().filter(|_| matches!(status, "301" | "302" | "303" | "307" | "308"));
        let asks_tls = |all: &Vec<Literal>| all.iter().any(|(test, is_not)| *test == Test::Tls && *is_not);
        let is_to_tls = to.as_ref().is_some_and(|to| to.starts_with("https://") && to.ends_with("$path"));
        if is_to_tls && !conditions.any.is_empty() && conditions.any.iter().all(asks_tls) {
            made.leads_to_tls = true;
            let text = line.text();
            return draft
                .need_not(line.line, format!("`{text}`: clear text is led to https where the site has a certificate"));
        }
        let Some(to) = to else {
            draft.lose(line.line, format!("`{}`: where it leads cannot be said here", line.text()));
            return;
        };
        if conditions.file == Some(true) {
            return draft.lose(line.line, format!("`{}`: what is there is not led elsewhere by that", line.text()));
        }
        let missing = if conditions.file == Some(false) { ", if_missing = true" } else { "" };
        for all in &conditions.any {
            // An address that it leads to may fit again: there is no way out of that.
            let value = format!("{{ to = {}, status = {status}{missing} }}", quoted(&to));
            let count = routes.all.len();
            routes.lead(Strength::Rewrite, line, all, value, &to, draft);
            // What a later rule looks for in its place is not there for this one.
            let tried = [("try", list(&["$path"]))].into_iter().filter(|_| conditions.file == Some(false));
            routes.all[count..].iter_mut().for_each(|route| route.keys.extend(tried.clone()));
        }
    }

    /// Where a redirect leads, as it is written here.
    fn location(&self) -> Option<String> {
        let mut to = self
            .to
            .replace("$", "\u{1}")
            .replace("%{HTTP_HOST}", "$host")
            .replace("%{SERVER_NAME}", "$host")
            .replace("%{REQUEST_URI}", "$path");
        to = to.replace("%{REQUEST_SCHEME}", "https");
        to = to.strip_suffix('?').map_or(to.clone(), str::to_owned);
        if let Some(rest) = to.strip_suffix("?%{QUERY_STRING}") {
            to = rest.to_owned();
        }
        let captured = self.captures_all();
        for digit in 0..=9 {
            let capture = format!("\u{1}{digit}");
            if !to.contains(&capture) {
                continue;
            }
            let value = match captured {
                _ if digit == 0 => return None,
                // All of the path, which is written anew.
                true if digit == 1 && (to.contains(&format!("/{capture}")) || self.base.is_empty()) => {
                    "$path".to_owned()
                }
                true => return None,
                false => format!("${digit}"),
            };
            to = if value == "$path" {
                if self.base.is_empty() && !self.pattern.starts_with("^/(") && !self.pattern.starts_with("^/?(") {
                    to.replace(&capture, "$path")
                } else {
                    to.replace(&format!("/{capture}"), "$path")
                }
            } else {
                to.replace(&capture, &value)
            };
        }
        let to = to.replace("//$path", "/$path").replace("$host/$path", "$host$path");
        if to.contains(['\u{1}', '%']) && !is_encoded(&to) || to.contains("\u{1}") {
            return None;
        }
        super::redirect::checked(&to)
    }

    /// Whether the first capture is all of the path.
    fn captures_all(&self) -> bool {
        let is_whole = matches!(&*self.base, "" | "/");
        is_whole
            && matches!(
                &*self.pattern,
                "(.*)"
                    | "^(.*)$"
                    | "^/(.*)$"
                    | "^/(.*)"
                    | "^/?(.*)"
                    | "^/?(.*)$"
                    | "^(.*)"
                    | "(.*)$"
                    | "^(.+)$"
                    | "(.+)"
                    | "^/(.+)$"
            )
    }

    fn proxy(&self, conditions: &Conditions, routes: &mut Routes, draft: &mut Draft) {
        let line = self.directive;
        let text = line.text();
        if self.to.starts_with("ws://") || self.to.starts_with("wss://") {
            return draft.need_not(line.line, format!("`{text}`: what is passed on may become a WebSocket"));
        }
        let (address, rest) = self.to.split_once("://").map_or(("", ""), |(scheme, rest)| {
            let length = rest.find(['/', '$', '%']).unwrap_or(rest.len());
            (&self.to[..scheme.len() + 3 + length], &rest[length..])
        });
        let is_same = match rest {
            "$1" => self.captures_all() && (self.base.is_empty() && !self.pattern.starts_with("^/(")),
            "/$1" => self.captures_all() && !(self.base.is_empty() && self.pattern.starts_with("^(")),
            "%{REQUEST_URI}" => true,
            _ => {
                self.base.is_empty()
                    && rest.starts_with('/')
                    && self.pattern.strip_prefix('^').is_some_and(|pattern| {
                        pattern
                            .strip_suffix('$')
                            .unwrap_or(pattern)
                            .strip_suffix("(.*)")
                            .is_some_and(|start| rest.strip_suffix("$1") == Some(start))
                    })
            }
        };
        match proxy::place(address).filter(|_| is_same) {
            Some(keys) => {
                for all in &conditions.any {
                    let first: Vec<(&'static str, String)> = vec![keys.clone()];
                    routes.emit(self.strength(), line, all, first, false, draft);
                }
            }
            None => {
                draft.lose(
                    line.line,
                    format!("`{text}`: an application is asked for the path of the request; {DENIED_WORDS}"),
                );
                for all in &conditions.any {
                    routes.emit(self.strength(), line, all, vec![("respond", "404".into())], true, draft);
                }
            }
        }
    }

    /// Another file, or a program.
    fn inner(&self, conditions: &Conditions, routes: &mut Routes, made: &mut Made, draft: &mut Draft) {
        let line = self.directive;
        let text = line.text();
        let (path, query) = self.to.split_once('?').map_or((&*self.to, None), |(path, query)| (path, Some(query)));
        let path = path.replace("%{REQUEST_URI}", "$path").replace("%{DOCUMENT_ROOT}", "").replace("//", "/");
        let is_alone = conditions.any.iter().all(|all| {
            all.iter().all(|(test, is_not)| matches!((test, is_not), (Test::Always, false) | (Test::Path(_), _)))
        });
        let is_whole = self.is_for_all() && matches!(&*self.base, "" | "/");
        // The same path with an ending.
        if let Some(ending) =
            path.strip_prefix("/$1").or(path.strip_prefix("$path")).filter(|ending| ending.starts_with('.'))
        {
            let is_open = matches!(
                &*self.pattern,
                "^([^\\.]+)$"
                    | "^([^.]+)$"
                    | "^(.*)$"
                    | "(.*)"
                    | "^(.+)$"
                    | "^([^/.]+)$"
                    | "^([^\\.]+)/?$"
                    | "^([^/]+)/?$"
                    | "^(.*)"
                    | "^([a-zA-Z0-9_-]+)$"
            );
            if query.is_none() && is_open && matches!(&*self.base, "" | "/") && !ending.contains(['$', '%']) {
                made.tried.push(format!("$path{ending}"));
                return;
            }
        }
        if conditions.file == Some(false) && is_whole && is_alone && !path.contains(['%']) {
            let target = path.replace("/$1", "$path").replace("$1", "$path").replace("$0", "");
            let (script, rest) = target.split_once("$path").map_or((&*target, ""), |(script, _)| (script, "$path"));
            let passes = query.is_some_and(|query| !query.trim_start_matches('/').trim_start_matches("$1").is_empty());
            if !passes && !script.contains('$') && script.starts_with('/') {
                if query.is_some_and(|query| !query.is_empty()) {
                    draft.lose(
                        line.line,
                        format!(
                            "`{text}`: the script is told the path in PATH_INFO and REQUEST_URI, and not in the query"
                        ),
                    );
                }
                // Exceptions are left to their files, which are tried first.
                let tried =
                    if rest.is_empty() { script.to_owned() } else { format!("{}$path", script.trim_end_matches('/')) };
                let tried =
                    if script.ends_with(".html") || script.ends_with(".htm") { script.to_owned() } else { tried };
                made.tried.push(tried);
                return;
            }
            draft.lose(
                line.line,
                format!("`{text}`: a script is told no query that is made of the path: what is not there is not found"),
            );
            return;
        }
        if conditions.file == Some(false) && query.is_some() && is_whole {
            draft.lose(
                line.line,
                format!("`{text}`: a script is told no query that is made of the path: what is not there is not found"),
            );
            return;
        }
        if condition::plain(&self.pattern).is_some_and(|tests| {
            tests
                .iter()
                .any(|test| format!("{}{}", if self.base.is_empty() { "" } else { &self.base }, test.text) == path)
        }) {
            return draft.need_not(line.line, format!("`{text}`: it leads to itself"));
        }
        // One folder is the root of the site.
        let template = path.replace("$0", "$path");
        let is_plain = query.is_none_or(str::is_empty) && template.starts_with('/') && !template.contains('%');
        let pattern = Pattern::from_regex(&self.regex()).ok();
        let has_captures = |pattern: &Pattern| {
            let (count, _) = pattern.captures();
            (1..=9).all(|digit| !template.contains(&format!("${digit}")) || digit <= count)
        };
        let is_known = self.is_for_all() && !template.contains('$')
            || pattern.as_ref().is_some_and(has_captures) && !self.is_for_all();
        let all_of_path = self.is_for_all() && self.captures_all() && template.ends_with("/$1");
        let template = if all_of_path { format!("{}$path", template.trim_end_matches("/$1")) } else { template };
        if is_plain && (is_known || all_of_path) && conditions.file.is_none() && !is_program(&template) {
            for all in &conditions.any {
                routes.emit(self.strength(), line, all, vec![("rewrite", quoted(&template))], false, draft);
            }
            return;
        }
        if is_plain
            && is_program(&template)
            && routes.fastcgi.is_some()
            && (is_known || all_of_path)
            && conditions.file.is_none()
        {
            for all in &conditions.any {
                let keys = vec![
                    ("try", format!("[{}]", quoted(&template))),
                    ("fastcgi", routes.fastcgi.clone().unwrap_or_default()),
                ];
                routes.emit(self.strength(), line, all, keys, false, draft);
            }
            return;
        }
        draft.lose(line.line, format!("`{text}`: what it asks a script for cannot be said; {DENIED_WORDS}"));
        if conditions.file == Some(false) && self.is_for_all() {
            return;
        }
        for all in &conditions.any {
            routes.emit(self.strength(), line, all, vec![("respond", "404".into())], true, draft);
        }
    }
}

/// An expression with `with` in the place of each `^` that stands for the beginning, and how many there are.
fn with_beginnings(regex: &str, with: &str) -> (String, usize) {
    let (mut out, mut count, mut is_escaped, mut in_class) = (String::new(), 0, false, false);
    for one in regex.chars() {
        let is_plain = !is_escaped;
        is_escaped = is_plain && one == '\\';
        match one {
            '^' if is_plain && !in_class => {
                out.push_str(with);
                count += 1;
                continue;
            }
            '[' if is_plain => in_class = true,
            ']' if is_plain => in_class = false,
            _ => {}
        }
        out.push(one);
    }
    (out, count)
}

/// Whether there is an alternative outside of groups.
pub(super) fn has_alternatives(regex: &str) -> bool {
    let (mut depth, mut is_escaped) = (0, false);
    regex.chars().any(|one| {
        let was_escaped = is_escaped;
        is_escaped = one == '\\' && !was_escaped;
        match one {
            _ if was_escaped => {}
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '|' => return depth == 0,
            _ => {}
        }
        false
    })
}

/// Whether each percent sign begins an encoded byte.
fn is_encoded(text: &str) -> bool {
    text.match_indices('%')
        .all(|(at, _)| text.get(at + 1..at + 3).is_some_and(|two| two.bytes().all(|byte| byte.is_ascii_hexdigit())))
}
