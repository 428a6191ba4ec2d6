//! Tests of what several routes come to.

use std::cmp::Reverse;

use super::headers::HeaderRule;
use super::pattern::Pattern;
use super::template::Template;
use super::{Changes, Immutable, RouteRedirect, RouteSettings, Rules, Source, Switch, merge};
use crate::answer_cache::AnswerCache;
use crate::error_pages::ErrorPages;
use crate::gateway::GatewaySettings;

fn route(path: &str) -> RouteSettings {
    RouteSettings { paths: Pattern::from_glob(path).unwrap(), ..RouteSettings::default() }
}

fn redirect(to: &str) -> Switch<RouteRedirect> {
    Switch::Set(RouteRedirect { to: Template::parse(to).unwrap(), status: 302, if_missing: false })
}

fn merged(routes: &[RouteSettings]) -> Rules {
    merge(routes.iter().enumerate())
}

#[test]
fn the_most_specific_decides_and_the_others_fill_in() {
    let pages = |status: u16, page: &str| ErrorPages::from([(status, page.to_owned())]);
    let more = RouteSettings { index: Some(vec!["a".into()]), error_pages: pages(404, "/m"), ..route("/a/*") };
    let less = RouteSettings {
        index: Some(vec!["b".into()]),
        error_pages: [(404, "/l".into()), (500, "/l5".into())].into(),
        ..route("/*")
    };
    let rules = merged(&[more, less]);
    assert_eq!(rules.index, Some(vec!["a".to_owned()]));
    assert_eq!(rules.error_pages, [(404, "/m".to_owned()), (500, "/l5".to_owned())].into());
}

#[test]
fn what_is_looked_for_more_specifically_is_not_redirected() {
    let away = RouteSettings { redirect: redirect("https://a.example$path"), ..route("/*") };
    let kept = RouteSettings { try_files: Some(Vec::new()), ..route("/kept/*") };
    let off = RouteSettings { redirect: Switch::Off, ..route("/off/*") };
    let marked = RouteSettings { immutable: Some(Immutable::All), ..route("/marked/*") };
    assert!(merged(&[kept, away.clone()]).redirect.is_none());
    assert!(merged(&[off, away.clone()]).redirect.is_none());
    assert!(merged(&[marked, away]).redirect.is_some_and(|(_, number)| number == 1));
}

#[test]
fn what_is_looked_for_and_is_not_there_is_redirected() {
    let missing =
        |to: &str| Switch::Set(RouteRedirect { to: Template::parse(to).unwrap(), status: 301, if_missing: true });
    let moved = RouteSettings { redirect: missing("/new"), ..route("/*") };
    let tried = RouteSettings { try_files: Some(Vec::new()), ..route("/a/*") };
    let away = RouteSettings { redirect: redirect("/b"), priority: -1, ..route("/*") };
    let off = RouteSettings { redirect: Switch::Off, try_files: Some(Vec::new()), ..route("/a/*") };
    assert!(merged(&[tried.clone(), moved.clone()]).redirect.is_some_and(|(_, number)| number == 1));
    assert!(merged(&[off, moved.clone()]).redirect.is_none());
    assert!(merged(&[tried, away, moved]).redirect.is_none(), "the more specific redirect decides");
}

#[test]
fn what_clients_may_change_is_decided_one_by_one() {
    let route = |path, upload, delete| RouteSettings { upload, delete, ..self::route(path) };
    let rules = merged(&[route("/a/b/*", Some(false), None), route("/a/*", Some(true), Some(true))]);
    let site = Changes { mkdir: true, ..Changes::default() };
    assert_eq!(rules.changes_over(site), Changes { upload: false, delete: true, mkdir: true, webdav: false });
}

#[test]
fn caching_that_is_said_more_specifically_counts_before_immutable() {
    let set = |value: &str| HeaderRule::of_fields(&[("Cache-Control".into(), value.into())]);
    let immutable = RouteSettings { immutable: Some(Immutable::Hashed), headers: vec![set("a")], ..route("/*") };
    let said = RouteSettings { headers: vec![set("b")], ..route("/a/*") };
    assert_eq!(merged(&[said.clone(), immutable.clone()]).immutable, None);
    assert_eq!(merged(&[immutable, said]).immutable, Some(Immutable::Hashed));
}

#[test]
fn answers_are_kept_where_that_is_said_of_their_application() {
    let application = || {
        let upstream = crate::gateway::UpstreamSettings::new("127.0.0.1:1".parse().unwrap());
        Switch::Set(GatewaySettings::new(crate::gateway::GatewayProtocol::Http, vec![upstream]))
    };
    let kept = || Switch::Set(AnswerCache::default());
    let all = RouteSettings { gateway: application(), answer_cache: kept(), ..route("/*") };
    let other = RouteSettings { gateway: application(), ..route("/a/*") };
    let off = RouteSettings { answer_cache: Switch::Off, ..route("/b/*") };
    let some = RouteSettings { answer_cache: kept(), ..route("/c/*") };
    assert!(merged(std::slice::from_ref(&all)).answer_cache.is_some());
    assert!(merged(&[other.clone(), all.clone()]).answer_cache.is_none());
    assert!(merged(&[off, all]).answer_cache.is_none());
    assert!(merged(&[some.clone(), other]).answer_cache.is_some());
    assert!(merged(&[some]).answer_cache.is_none(), "there is no application");
}

#[test]
fn a_content_type_replaces_that_of_the_file() {
    let set = |value: &str| HeaderRule::of_fields(&[("content-type".into(), value.into())]);
    let less = RouteSettings { headers: vec![set("text/plain")], ..route("/*") };
    let more = RouteSettings { headers: vec![set("text/html")], ..route("/a") };
    let rules = merged(&[more, less]);
    assert_eq!((rules.media_type.as_deref(), rules.headers.len()), (Some("text/html"), 0));
}

#[test]
fn configuration_stands_before_the_files_of_a_site_and_lines_of_redirects_in_their_order() {
    let line = |number| RouteSettings { source: Source::RedirectsLine(Reverse(number)), ..route("/a/*") };
    assert!(line(1).rank() > line(2).rank());
    assert!(route("/*").rank() > RouteSettings { source: Source::HeadersLine(1), ..route("/a") }.rank());
    assert!(RouteSettings { priority: 1, ..route("/*") }.rank() > route("/a").rank());
}
