//! Tests of merged routes, and of the rules for a request.

use lamna_config::route::Cors;
use lamna_config::route::condition::Condition;
use lamna_config::route::pattern::Pattern;
use lamna_config::route::{RouteSettings, Switch};

use super::cors::ALLOW_ORIGIN;
use super::*;
use crate::content::page_file::PageFiles;
use std::path::PathBuf;

fn route(path: &str, field: &str) -> RouteSettings {
    let headers = vec![HeaderRule::of_fields(&[(field.to_owned(), "1".to_owned())])];
    RouteSettings { paths: Pattern::from_glob(path).unwrap(), headers, ..RouteSettings::default() }
}

fn routes(routes: Vec<RouteSettings>) -> Routes {
    Routes::new(
        &SiteSettings { routes, ..SiteSettings::new(PathBuf::from("/")) },
        Vec::new(),
        &Arc::default(),
        PageFiles::new(),
    )
    .unwrap()
}

fn names(effective: &Effective) -> Vec<String> {
    effective.fields(200).iter().map(|(name, _)| name.clone()).collect()
}

#[test]
fn the_same_routes_come_to_the_same_rules_and_no_routes_to_those_of_the_site() {
    let routes = routes(vec![route("/a/*", "X-A"), route("*.txt", "X-Text")]);
    let [one, two, other] = ["/a/b.txt", "/a/c.txt", "/a/c"].map(|path| routes.effective(path.as_bytes(), &[]));
    assert!(Arc::ptr_eq(&one, &two) && one.number != other.number);
    assert_eq!(names(&one), ["X-Text", "X-A"]);
    assert!(Arc::ptr_eq(&routes.effective(b"/b", &[]), routes.plain()));
    assert!(Arc::ptr_eq(&routes.effective(b"", &[]), routes.plain()));
}

#[test]
fn what_a_route_looks_at_is_in_vary_whether_it_matched_or_not() {
    let asks = RouteSettings {
        conditions: vec![Condition::Header("X-Debug".into(), lamna_config::route::condition::ValueTest::Present)],
        ..route("/a/*", "X-A")
    };
    let routes = routes(vec![asks]);
    assert!(routes.depends_on_requests());
    let outcome = 0u16.to_le_bytes();
    let (with, without) = (routes.effective(b"/a/b", &outcome), routes.effective(b"/a/b", &[]));
    assert_eq!((with.extras(200).vary, without.extras(200).vary), (Some("X-Debug"), Some("X-Debug")));
    assert_eq!((names(&with).len(), names(&without).len()), (1, 0));
    assert_eq!(routes.effective(b"/b", &[]).extras(200).vary, None);
}

#[test]
fn origins_that_are_listed_are_answered_by_name_and_others_not_at_all() {
    let cors = Cors {
        origins: vec!["https://a.example".into(), "https://b.example".into()],
        methods: Vec::new(),
        headers: Vec::new(),
        expose: vec!["X-A".into()],
        credentials: true,
        max_age_s: None,
    };
    let routes = routes(vec![RouteSettings { cors: Switch::Set(cors), headers: Vec::new(), ..route("/api/*", "X") }]);
    assert!(routes.dependence(b"/api/x").origin && !routes.dependence(b"/x").origin);
    let effective = routes.effective(b"/api/x", &(ORIGIN | 1).to_le_bytes());
    assert_eq!(effective.fields(404)[0], (ALLOW_ORIGIN.to_owned(), "https://b.example".to_owned()));
    assert_eq!(effective.fields(404).len(), 3);
    let other = routes.effective(b"/api/x", &[]);
    assert_eq!((other.fields(200).len(), other.extras(200).vary), (0, Some("Origin")));
}

#[test]
fn no_more_than_so_many_sets_of_routes_are_kept_and_numbers_do_not_come_again() {
    let asks = |number: u32| RouteSettings {
        conditions: vec![Condition::Header(format!("X-{number}"), lamna_config::route::condition::ValueTest::Present)],
        ..route("/*", &format!("X-{number}"))
    };
    let routes = routes((0..12).map(asks).collect());
    let mut seen = std::collections::HashSet::new();
    for bits in 0..4096u32 {
        let outcome: Vec<u8> = (0..12u16).filter(|bit| bits >> bit & 1 > 0).flat_map(u16::to_le_bytes).collect();
        assert!(seen.insert(routes.effective(b"/", &outcome).number));
        assert!(routes.made.lock().unwrap().by_routes.len() <= KEPT_MAX);
    }
}
