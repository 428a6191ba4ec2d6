//! Which routes of a site match a request: compiled once, asked when something is not cached.
//!
//! Owns: [`Matcher`]. Exact paths and prefixes are looked up in tables, one look for each length that a prefix has; all
//! globs and regular expressions are one automaton, so that a thousand of them are one pass over the path. Guarantees:
//! the routes that match come the most specific first, in whatever order they were written. Pure; waits for nothing.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::OnceLock;

use lamna_filter::{Chain, Link, Step};
use regex::bytes::{Regex, RegexSet, RegexSetBuilder};

use super::condition::{Asked, Test};
use super::pattern::{Pattern, compile};
use super::template::Captures;
use super::{RouteSettings, Switch};
use crate::gateway::GatewaySettings;

/// The routes of a site.
#[derive(Debug, Default)]
pub struct Matcher {
    routes: Vec<Route>,
    /// Those without a path.
    anywhere: Vec<RouteId>,
    exact: Table,
    /// By length, the shortest first.
    prefixes: Vec<(usize, Table)>,
    automaton: Option<RegexSet>,
    of_automaton: Vec<RouteId>,
    /// Origins that some route lets in, each once.
    origins: Vec<String>,
}

/// A route, by its place in the order: the most specific is 0.
pub type RouteId = u16;

/// Routes by a path, or by the beginning of one.
type Table = HashMap<Vec<u8>, Vec<RouteId>>;

/// The most routes that a site may have.
pub const ROUTES_MAX: usize = 10_000;

/// Memory that the automaton of all regular expressions of a site may take, and that of each thread that runs it.
const AUTOMATON_BYTES_MAX: usize = 64 << 20;
const AUTOMATON_STATES_BYTES_MAX: usize = 4 << 20;

#[derive(Debug)]
struct Route {
    settings: RouteSettings,
    tests: Vec<Test>,
    /// A regular expression for each of its patterns, compiled when captures are asked for.
    regexes: Vec<OnceLock<Option<Regex>>>,
}

/// The properties of a request besides its path that decide about the routes of a path.
#[derive(Clone, Debug, Default)]
pub struct Dependence {
    /// Routes whose paths match and that ask for more.
    pub conditional: Vec<RouteId>,
    /// Whether it matters which origin asks.
    pub origin: bool,
    /// Whether it matters which host is asked.
    pub host: bool,
    /// The filters that find out which recipe a query asks for.
    pub recipes: Option<Chain>,
}

impl Dependence {
    /// Whether the path alone decides.
    pub fn is_of_path(&self) -> bool {
        self.conditional.is_empty() && !self.origin && !self.host && self.recipes.is_none()
    }
}

impl Matcher {
    /// Compiles `routes`.
    ///
    /// # Errors
    /// The fault of the routes together, in words.
    pub fn new(routes: &[RouteSettings]) -> Result<Matcher, String> {
        if routes.len() > ROUTES_MAX {
            return Err(format!("a site may have at most {ROUTES_MAX} routes, and this one has {}", routes.len()));
        }
        let mut sorted: Vec<&RouteSettings> = routes.iter().collect();
        let texts = |route: &RouteSettings| route.paths.iter().map(Pattern::text).collect::<Vec<_>>();
        // Routes of one rank do not contradict each other; that they have an order at all makes reports repeatable.
        sorted.sort_by(|one, two| two.rank().cmp(&one.rank()).then_with(|| texts(one).cmp(&texts(two))));
        let mut matcher = Matcher::default();
        let mut texts = Vec::new();
        for (id, settings) in sorted.into_iter().enumerate() {
            let id = id as RouteId; // At most ROUTES_MAX.
            for pattern in &settings.paths {
                match pattern {
                    Pattern::Exact(path) => matcher.exact.entry(path.clone().into_bytes()).or_default().push(id),
                    Pattern::Prefix(prefix) => matcher.add_prefix(prefix.as_bytes(), id),
                    Pattern::Glob(_) | Pattern::Regex(_) => {
                        texts.push(pattern.to_regex());
                        matcher.of_automaton.push(id);
                    }
                }
            }
            if settings.paths.is_empty() {
                matcher.anywhere.push(id);
            }
            let tests = settings.conditions.iter().map(Test::new).collect::<Result<_, _>>()?;
            let regexes = settings.paths.iter().map(|_| OnceLock::new()).collect();
            matcher.routes.push(Route { settings: settings.clone(), tests, regexes });
        }
        matcher.prefixes.sort_by_key(|(length, _)| *length);
        if !texts.is_empty() {
            let mut builder = RegexSetBuilder::new(&texts);
            builder.unicode(false).size_limit(AUTOMATON_BYTES_MAX).dfa_size_limit(AUTOMATON_STATES_BYTES_MAX);
            let automaton =
                builder.build().map_err(|_| "the patterns of this site are too large together".to_owned())?;
            matcher.automaton = Some(automaton);
        }
        let listed = matcher.routes.iter().filter_map(|route| match &route.settings.cors {
            super::Switch::Set(cors) if !cors.is_for_any() => Some(&cors.origins),
            _ => None,
        });
        let origins: BTreeSet<String> = listed.flatten().cloned().collect();
        matcher.origins = origins.into_iter().collect();
        Ok(matcher)
    }

    fn add_prefix(&mut self, prefix: &[u8], id: RouteId) {
        let at = self.prefixes.iter().position(|(length, _)| *length == prefix.len()).unwrap_or_else(|| {
            self.prefixes.push((prefix.len(), HashMap::new()));
            self.prefixes.len() - 1
        });
        self.prefixes[at].1.entry(prefix.to_vec()).or_default().push(id);
    }

    /// Whether there are no routes.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Whether for some path more than the path decides.
    pub fn depends_on_requests(&self) -> bool {
        let has_recipes = |steps: &Vec<Step>| of_table(steps).has_recipes();
        let depends = |route: &Route| {
            !route.tests.is_empty()
                || names_host(&route.settings)
                || route.settings.filters.as_ref().is_some_and(has_recipes)
        };
        !self.origins.is_empty() || self.routes.iter().any(depends)
    }

    /// The route.
    pub fn route(&self, id: RouteId) -> &RouteSettings {
        &self.routes[usize::from(id)].settings
    }

    /// Routes, the most specific first.
    pub fn routes(&self) -> impl Iterator<Item = (RouteId, &RouteSettings)> {
        self.routes.iter().enumerate().map(|(id, route)| (id as RouteId, &route.settings))
    }

    /// Origins that some route lets in.
    pub fn origins(&self) -> &[String] {
        &self.origins
    }

    /// Routes whose paths match `path`, which is decoded and normalised, the most specific first; whatever else they
    /// ask.
    pub fn by_path(&self, path: &[u8]) -> Vec<RouteId> {
        let mut found = self.anywhere.clone();
        found.extend(self.exact.get(path).into_iter().flatten());
        let _ = self.prefixes.iter().try_for_each(|(length, prefixes)| {
            let Some(start) = path.get(..*length) else { return ControlFlow::Break(()) };
            found.extend(prefixes.get(start).into_iter().flatten());
            ControlFlow::Continue(())
        });
        if let Some(automaton) = &self.automaton {
            found.extend(automaton.matches(path).into_iter().map(|at| self.of_automaton[at]));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The application that runs the file at `path`: of the routes that may apply, whatever else they ask of a request,
    /// the most specific whose application runs files of its extension.
    pub fn application_at(&self, path: &[u8]) -> Option<&GatewaySettings> {
        for id in self.by_path(path) {
            let route = self.route(id);
            let is_certain = route.conditions.is_empty();
            let gateway = match &route.gateway {
                Switch::Set(gateway) => gateway,
                Switch::Off if is_certain => return None,
                Switch::Off | Switch::Unset => continue,
            };
            match gateway.scripts.as_ref().is_some_and(|scripts| scripts.run(path)) {
                true => return Some(gateway),
                false if is_certain => return None,
                false => {}
            }
        }
        None
    }

    /// Whether the most specific route for `path` that names an application, or says `false` for every request, says
    /// `false`.
    pub fn leaves_to_files(&self, path: &[u8]) -> bool {
        for id in self.by_path(path) {
            let route = self.route(id);
            match &route.gateway {
                Switch::Set(_) => return false,
                Switch::Off if route.conditions.is_empty() => return true,
                Switch::Off | Switch::Unset => {}
            }
        }
        false
    }

    /// The properties of a request besides `path` that decide about it.
    pub fn dependence(&self, path: &[u8]) -> Dependence {
        let by_path = self.by_path(path);
        let has_origins =
            |id: &RouteId| matches!(&self.route(*id).cors, super::Switch::Set(cors) if !cors.is_for_any());
        let filters = by_path.iter().find_map(|id| self.route(*id).filters.as_ref());
        let recipes = filters.map(|steps| of_table(steps)).filter(Chain::has_recipes);
        Dependence {
            recipes,
            origin: by_path.iter().any(has_origins),
            host: by_path.iter().any(|id| names_host(self.route(*id))),
            conditional: by_path.into_iter().filter(|id| !self.routes[usize::from(*id)].tests.is_empty()).collect(),
        }
    }

    /// Those of `ids` of which the request fulfils all that they ask for besides the path.
    pub fn fulfilled<'m>(&'m self, ids: &'m [RouteId], asked: &'m Asked<'_>) -> impl Iterator<Item = RouteId> + 'm {
        // Routes of a path often look at one field, which few requests have: it is not looked for again.
        let mut absent: Option<&str> = None;
        let mut lacks = move |name: &'m str| {
            if absent != Some(name)
                && asked.request.is_some_and(|request| request.lines_named(name.as_bytes()).next().is_none())
            {
                absent = Some(name);
            }
            absent == Some(name)
        };
        let mut holds = move |test: &'m Test| !test.needed_header().is_some_and(&mut lacks) && test.holds(asked);
        ids.iter().copied().filter(move |id| self.routes[usize::from(*id)].tests.iter().all(&mut holds))
    }

    /// The number of the origin that asks, among [`Matcher::origins`].
    pub fn origin(&self, asked: &Asked<'_>) -> Option<u16> {
        let origin = asked.request?.lines_named(b"origin").next()?;
        let at = self.origins.iter().position(|one| one.as_bytes() == origin)?;
        u16::try_from(at).ok()
    }

    /// Names of header fields that routes look at.
    pub fn headers_of<'m>(&'m self, ids: &'m [RouteId]) -> impl Iterator<Item = &'m str> {
        ids.iter().flat_map(|id| self.routes[usize::from(*id)].tests.iter().flat_map(Test::headers))
    }

    /// The captures of the route in `path`, which it matches.
    pub fn captures(&self, id: RouteId, path: &[u8]) -> Captures {
        let route = &self.routes[usize::from(id)];
        let found = route.settings.paths.iter().zip(&route.regexes).find_map(|(pattern, regex)| match pattern {
            Pattern::Exact(exact) => (exact.as_bytes() == path).then(Captures::default),
            Pattern::Prefix(prefix) => {
                let rest = path.strip_prefix(prefix.as_bytes())?;
                Some(Captures { numbered: vec![rest.to_vec()], named: Vec::new() })
            }
            Pattern::Glob(_) | Pattern::Regex(_) => {
                let regex = regex.get_or_init(|| compile(&pattern.to_regex()).ok()).as_ref()?;
                let captured = regex.captures(path)?;
                let bytes =
                    |found: Option<regex::bytes::Match<'_>>| found.map_or(&b""[..], |one| one.as_bytes()).to_vec();
                Some(Captures {
                    numbered: captured.iter().skip(1).map(bytes).collect(),
                    named: regex
                        .capture_names()
                        .flatten()
                        .map(|name| (name.to_owned(), bytes(captured.name(name))))
                        .collect(),
                })
            }
        });
        found.unwrap_or_default()
    }
}

/// Whether a route leads to the host that is asked.
fn names_host(route: &RouteSettings) -> bool {
    matches!(&route.redirect, super::Switch::Set(redirect) if redirect.to.names_host())
}

/// The filters of the table among `steps`. The others are services, which no query asks for anything.
fn of_table(steps: &[Step]) -> Chain {
    let links: Vec<Link> = steps.iter().filter_map(|step| Link::of_table(step).ok()).collect();
    Chain::of(&links)
}

#[cfg(test)]
mod tests {
    use super::super::condition::Condition;
    use super::*;
    use proptest::prelude::*;

    fn route(path: &str) -> RouteSettings {
        let paths = match path.strip_prefix('~') {
            Some(regex) => vec![Pattern::from_regex(regex).unwrap()],
            None => Pattern::from_glob(path).unwrap(),
        };
        RouteSettings { paths, ..RouteSettings::default() }
    }

    fn titles(paths: &[&str], path: &str) -> Vec<String> {
        let routes: Vec<RouteSettings> = paths.iter().map(|path| route(path)).collect();
        let matcher = Matcher::new(&routes).unwrap();
        matcher.by_path(path.as_bytes()).into_iter().map(|id| matcher.route(id).title()).collect()
    }

    #[test]
    fn what_matches_comes_the_most_specific_first() {
        let paths =
            ["*", "*.css", "/assets/*", "/assets/a.css", "~^/assets/[a-z]+[.]css$", "/other/*", "/assets/*.css"];
        let found = titles(&paths, "/assets/a.css");
        assert_eq!(found[..2], ["/assets/a.css", "/assets/*.css"]);
        assert_eq!(found.len(), 6);
        assert_eq!(found[4..], ["*.css", "/*"]);
        assert_eq!(titles(&paths, "/"), ["/*"]);
        // All paths begin with a slash: that alone says nothing.
        assert_eq!(titles(&["/*", "~[.]css$"], "/a.css"), ["[.]css$", "/*"]);
    }

    #[test]
    fn captures_are_those_of_the_pattern_that_matches() {
        let matcher = Matcher::new(&[route("~^/u/(?<id>[0-9]+)(/x)?$")]).unwrap();
        let captures = matcher.captures(0, b"/u/12");
        assert_eq!(captures.numbered, [b"12".to_vec(), Vec::new()]);
        assert_eq!(captures.named, [("id".to_owned(), b"12".to_vec())]);
        let matcher = Matcher::new(&[route("/{a,b}/*")]).unwrap();
        assert_eq!(matcher.captures(0, b"/b/c/d").numbered, [b"c/d".to_vec()]);
        let matcher = Matcher::new(&[route("/*/b/**.js")]).unwrap();
        assert_eq!(matcher.captures(0, b"/x/b/c/d.js").numbered, [b"x".to_vec(), b"c/d".to_vec()]);
    }

    #[test]
    fn a_path_depends_on_more_only_where_a_route_of_it_asks_for_more() {
        let asks = RouteSettings { conditions: vec![Condition::Method(vec!["HEAD".into()])], ..route("/a/*") };
        let matcher = Matcher::new(&[route("/*"), asks]).unwrap();
        assert!(matcher.depends_on_requests());
        assert!(matcher.dependence(b"/b").is_of_path());
        assert_eq!(matcher.dependence(b"/a/b").conditional, [0]);
        assert!(!Matcher::new(&[route("/*")]).unwrap().depends_on_requests());
    }

    #[test]
    fn a_thousand_regular_expressions_are_compiled_and_one_of_them_found() {
        let paths: Vec<String> = (0..1000).map(|number| format!("~^/item{number}/[a-z]+/(\\d+)$")).collect();
        let routes: Vec<RouteSettings> = paths.iter().map(|path| route(path)).collect();
        let matcher = Matcher::new(&routes).unwrap();
        let found = matcher.by_path(b"/item777/abc/12");
        assert_eq!(found.len(), 1);
        assert!(matcher.route(found[0]).title().contains("item777"));
        assert_eq!(matcher.captures(found[0], b"/item777/abc/12").numbered, [b"12".to_vec()]);
    }

    fn any_path() -> impl Strategy<Value = String> {
        prop::sample::select(vec![
            "/a", "/a/*", "/a/b", "/ab*", "*", "*.js", "/a/*.js", "/**/b", "~^/a/b?$", "~b", "~^/[ab]/", "/{a,b}/*",
        ])
        .prop_map(str::to_owned)
    }

    proptest! {
        #[test]
        fn the_order_in_which_routes_are_written_decides_nothing(
            paths in proptest::collection::vec((any_path(), 0i32..2), 0..8), path in "/[ab/]{0,4}([.]js)?",
        ) {
            let routes: Vec<RouteSettings> =
                paths.iter().map(|(path, priority)| RouteSettings { priority: *priority, ..route(path) }).collect();
            let found = |routes: &[RouteSettings]| {
                let matcher = Matcher::new(routes).unwrap();
                let found = matcher.by_path(path.as_bytes());
                found.into_iter().map(|id| matcher.route(id).clone()).collect::<Vec<_>>()
            };
            let mut turned = routes.clone();
            turned.reverse();
            prop_assert_eq!(found(&routes), found(&turned));
        }

        #[test]
        fn tables_and_automaton_find_what_each_pattern_matches_alone(
            paths in proptest::collection::vec(any_path(), 0..8), path in "/[ab/]{0,4}([.]js)?",
        ) {
            let routes: Vec<RouteSettings> = paths.iter().map(|path| route(path)).collect();
            let matcher = Matcher::new(&routes).unwrap();
            let expected: Vec<RouteId> = matcher
                .routes()
                .filter(|(_, route)| route.paths.iter().any(|one| compile(&one.to_regex()).unwrap().is_match(path.as_bytes())))
                .map(|(id, _)| id)
                .collect();
            prop_assert_eq!(matcher.by_path(path.as_bytes()), expected);
        }

        #[test]
        fn what_comes_first_is_at_least_as_specific(
            paths in proptest::collection::vec(any_path(), 0..8), path in "/[ab/]{0,4}",
        ) {
            let routes: Vec<RouteSettings> = paths.iter().map(|path| route(path)).collect();
            let matcher = Matcher::new(&routes).unwrap();
            let ranks: Vec<_> = matcher.by_path(path.as_bytes()).into_iter().map(|id| matcher.route(id).rank()).collect();
            prop_assert!(ranks.windows(2).all(|pair| pair[0] >= pair[1]));
        }
    }
}
