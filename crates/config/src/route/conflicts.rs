//! Routes that contradict each other: equally specific, and with different words about the same thing; and redirects
//! that lead back to themselves.
//!
//! Owns: finding them. What is plain is known (different prefixes, different methods); in doubt two routes may match
//! the same request. Pure.

use std::collections::BTreeMap;

use lamna_proto::parse::path;

use super::matcher::Matcher;
use super::row::{Objection, Row};
use super::{ROWS, Rank, RouteSettings, Switch, directing, merge};

/// For each route that contradicts an earlier one: which it is, what is wrong and what to do about it.
pub(super) fn of(routes: &[RouteSettings]) -> Vec<(usize, String, String)> {
    let mut by_rank: BTreeMap<Rank, Vec<usize>> = BTreeMap::new();
    for (at, route) in routes.iter().enumerate() {
        by_rank.entry(route.rank()).or_default().push(at);
    }
    let mut found: Vec<_> = by_rank.values().flat_map(|equals| of_equals(routes, equals)).collect();
    found.sort();
    found
}

/// Among routes of one rank. Their prefixes are equally long: those that are not the same have no path in common. So a
/// route is compared with those of its prefix, and with those that have no prefix in particular.
fn of_equals(routes: &[RouteSettings], equals: &[usize]) -> Vec<(usize, String, String)> {
    let prefix = |at: usize| match &routes[at].paths[..] {
        [one] => Some(one.prefix()),
        _ => None,
    };
    let mut by_prefix: BTreeMap<Option<String>, Vec<usize>> = BTreeMap::new();
    let mut found = Vec::new();
    for (index, &later) in equals.iter().enumerate() {
        let of_prefix = prefix(later);
        let differs = |earlier: &usize| {
            let what = contradiction(&routes[*earlier], &routes[later])?;
            may_meet(&routes[*earlier], &routes[later]).then(|| report(routes, *earlier, later, &what))
        };
        let nothing = Vec::new();
        found.extend(match of_prefix {
            None => equals[..index].iter().find_map(differs),
            Some(_) => {
                let alike = [&of_prefix, &None].map(|key| by_prefix.get(key).unwrap_or(&nothing));
                alike.into_iter().flatten().find_map(differs)
            }
        });
        by_prefix.entry(of_prefix).or_default().push(later);
    }
    found
}

/// The routes by which a client would be redirected again and again, tried for one path of each. What leads to another
/// host, or to this one by its name, is not followed, and neither is what depends on more than the path.
pub(super) fn loops(routes: &[RouteSettings], matcher: &Matcher) -> Vec<usize> {
    let location = |path: &[u8]| {
        let is_certain = |id: &u16| matcher.route(*id).conditions.is_empty();
        let ids = matcher.by_path(path).into_iter().filter(is_certain);
        let (redirect, id) = merge(ids.map(|id| (usize::from(id), matcher.route(id)))).redirect?;
        let captures = matcher.captures(id as u16, path); // It is from `merge`, which was given one.
        let location = redirect.to.fill_encoded(path, b"host.invalid", &captures);
        let target = location.split(['?', '#']).next().filter(|_| !redirect.if_missing)?;
        let mut next = Vec::new();
        path::normalise(target.as_bytes(), &mut next).ok().map(|()| next)
    };
    let goes_round = |route: &RouteSettings| {
        if !matches!(route.redirect, Switch::Set(_)) || !route.conditions.is_empty() {
            return false;
        }
        let sample = route.paths.first().map_or("/*".to_owned(), |pattern| pattern.sample());
        let mut path = sample.into_bytes();
        // More hops than any chain of redirects has that somebody wrote on purpose.
        (0..HOPS_MAX).all(|_| location(&path).map(|next| path = next).is_some())
    };
    (0..routes.len()).filter(|at| goes_round(&routes[*at])).collect()
}

/// Browsers give up after 20.
const HOPS_MAX: usize = 20;

fn report(routes: &[RouteSettings], earlier: usize, later: usize, what: &str) -> (usize, String, String) {
    let message = format!(
        "this route (`{}`) and route {} (`{}`) are equally specific, may match the same request, and differ in {what}",
        routes[later].title(),
        earlier + 1,
        routes[earlier].title()
    );
    (later, message, "give the one that is to count a priority = 1".to_owned())
}

/// Whether a request may match both.
fn may_meet(one: &RouteSettings, two: &RouteSettings) -> bool {
    let is_apart = !one.paths.is_empty()
        && !two.paths.is_empty()
        && one.paths.iter().all(|path| two.paths.iter().all(|other| path.is_apart_from(other)));
    let is_excluded =
        one.conditions.iter().any(|condition| two.conditions.iter().any(|other| condition.excludes(other)));
    !is_apart && !is_excluded
}

/// The thing that they say differently: of the key that is judged first.
fn contradiction(one: &RouteSettings, two: &RouteSettings) -> Option<String> {
    let differ = |row: &Row| row.directs && !(row.is_alike)(one, two);
    if one.directs() && two.directs() && ROWS.iter().any(differ) {
        let names: Vec<String> = directing().flat_map(|(names, _)| names).map(|name| format!("`{name}`")).collect();
        return Some(format!("where answers come from ({})", names.join(", ")));
    }
    let found = ROWS.iter().filter_map(|row| Some((row.order.judged, (row.contradiction)(one, two)?)));
    found.min_by_key(|(order, _)| *order).map(|(_, what)| what)
}

/// The contradictions within one route.
pub(super) fn within(route: &RouteSettings) -> impl Iterator<Item = Objection> {
    Row::in_order(|order| order.judged).into_iter().filter_map(|row| (row.conflict)(route))
}

#[cfg(test)]
mod tests {
    use super::super::condition::Condition;
    use super::super::headers::HeaderRule;
    use super::super::pattern::Pattern;
    use super::*;

    fn route(path: &str, field: &str, value: &str) -> RouteSettings {
        let headers = vec![HeaderRule::of_fields(&[(field.into(), value.into())])];
        RouteSettings { paths: Pattern::from_glob(path).unwrap(), headers, ..RouteSettings::default() }
    }

    fn wrong(routes: &[RouteSettings]) -> Vec<usize> {
        of(routes).into_iter().map(|(at, ..)| at).collect()
    }

    #[test]
    fn equally_specific_routes_that_differ_are_found_whatever_stands_between() {
        let [one, two] = ["1", "2"].map(|value| route("/a/*", "X-A", value));
        assert_eq!(wrong(&[one.clone(), route("/b/*", "X-A", "3"), two.clone()]), [2]);
        assert!(wrong(&[one.clone(), RouteSettings { priority: 1, ..two.clone() }]).is_empty());
        assert!(wrong(&[one.clone(), one.clone()]).is_empty(), "they say the same");
        assert!(wrong(&[one.clone(), route("/a/*", "X-B", "2")]).is_empty(), "they say nothing about the same");
        assert_eq!(wrong(&[one, route("/{a,b}/*", "X-A", "2")]), [1]);
    }

    #[test]
    fn routes_that_cannot_meet_may_differ() {
        assert!(wrong(&[route("/a/*", "X-A", "1"), route("/b/*", "X-A", "2")]).is_empty());
        assert!(wrong(&[route("*.css", "X-A", "1"), route("*.png", "X-A", "2")]).is_empty());
        assert_eq!(wrong(&[route("*a*", "X-A", "1"), route("*b*", "X-A", "2")]), [1]);
        let by = |method: &str, value| RouteSettings {
            conditions: vec![Condition::Method(vec![method.into()])],
            ..route("/a/*", "X-A", value)
        };
        assert!(wrong(&[by("GET", "1"), by("POST", "2")]).is_empty());
        assert_eq!(wrong(&[by("GET", "1"), by("HEAD", "2")]), [1], "HEAD asks for what GET gets");
        assert_eq!(wrong(&[by("GET", "1"), by("GET", "2")]), [1]);
    }

    #[test]
    fn redirects_that_lead_back_are_found_and_chains_that_end_are_not() {
        use super::super::RouteRedirect;
        use super::super::template::Template;
        let route = |path: &str, to: &str| {
            let to = Template::parse(to).unwrap();
            let redirect = Switch::Set(RouteRedirect { to, status: 302, if_missing: false });
            RouteSettings { paths: Pattern::from_glob(path).unwrap(), redirect, ..RouteSettings::default() }
        };
        let rounds = |routes: &[RouteSettings]| loops(routes, &Matcher::new(routes).unwrap());
        assert_eq!(rounds(&[route("/a/*", "/a/b/$1")]), [0]);
        assert_eq!(rounds(&[route("/a", "/b"), route("/b", "/a"), route("/c", "/d")]), [0, 1]);
        assert!(rounds(&[route("/a/*", "/b/$1"), route("/b/*", "/c/$1")]).is_empty());
        assert!(rounds(&[route("*", "https://a.example$path")]).is_empty());
        let exempt = RouteSettings { redirect: Switch::Off, ..route("/new/*", "/") };
        assert!(rounds(&[route("*", "/new$path"), exempt]).is_empty());
    }

    #[test]
    fn a_thousand_routes_are_compared_in_little_time() {
        let routes: Vec<RouteSettings> =
            (0..2000).map(|number| route(&format!("/{number:04}/*.js"), "X-A", &number.to_string())).collect();
        assert!(wrong(&routes).is_empty());
    }
}
