//! `[[site.limit]]`: from its table to settings.
//!
//! Owns: the judgement of limits, and how they are written. Their types are in `site_limit`.

use std::fmt::Display;
use std::ops::Range;
use std::str::FromStr;

use lamna_policy::volume::Bandwidth;
use serde::Deserialize;
use serde_json::Value;
use toml::Spanned;

use super::SiteTable;
use super::row::SiteKey;
use crate::checker::Checker;
use crate::page::{Page, quoted};
use crate::schema::values::{BANDWIDTH, RATE, SHARED_BANDWIDTH, VOLUME, list_of, pattern, table};
use crate::site_limit::{LimitKey, SiteLimit};
use crate::written::Text;

/// `[[site.limit]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct LimitTable {
    path: Option<Text>,
    key: Option<Text>,
    requests: Option<Text>,
    bytes: Option<Text>,
    bandwidth: Option<Text>,
    shared_bandwidth: Option<Text>,
}

/// `limit`.
pub(super) struct Limits;

impl SiteKey for Limits {
    type Value = Vec<SiteLimit>;

    fn judge(given: &SiteTable, _: &Range<usize>, limits: &mut Vec<SiteLimit>, checker: &mut Checker<'_>) {
        *limits = site_limits(&given.limit, checker);
    }

    fn render(limits: &Vec<SiteLimit>, page: &mut Page) {
        for limit in limits {
            page.table("[[site.limit]]");
            page.line("path", quoted(&limit.path));
            let key = (limit.key != LimitKey::Network).then(|| limit.key.to_string());
            let lines = [
                ("key", key),
                ("requests", limit.rate.map(|rate| rate.to_string())),
                ("bytes", limit.volume.map(|volume| volume.to_string())),
                ("bandwidth", limit.bandwidth.map(|bandwidth| bandwidth.to_string())),
                ("shared_bandwidth", limit.shared_bandwidth.map(|bandwidth| bandwidth.to_string())),
            ];
            for (key, value) in lines {
                value.into_iter().for_each(|value| page.line(key, quoted(&value)));
            }
        }
    }
}

/// The schema of `limit`.
pub(super) fn schema() -> Value {
    let key = "^(network|user|header:[0-9A-Za-z_-]+)$";
    let keys = [
        ("path", pattern("^/", "What the decoded paths begin with; / unless it is given")),
        ("requests", pattern(RATE, "How much each client network may ask for, as in 5/m burst 10")),
        ("bytes", pattern(VOLUME, "How much each client network may get, as in 10GB/d burst 20GB")),
        ("bandwidth", pattern(BANDWIDTH, "How fast each connection gets it, as in 500kB/s after 5MB")),
        (
            "shared_bandwidth",
            pattern(
                SHARED_BANDWIDTH,
                "How fast all connections get it together that are counted together, as in 5MB/s",
            ),
        ),
        (
            "key",
            pattern(
                key,
                "Who is counted together: network, user, or a field as in header:X-Api-Key; network unless it is given",
            ),
        ),
    ];
    list_of(table(keys, &[], "How much clients may take"))
}

/// The limits of a site. Those that limit nothing are left out.
fn site_limits(tables: &[Spanned<LimitTable>], checker: &mut Checker<'_>) -> Vec<SiteLimit> {
    tables.iter().map(|table| site_limit(table, checker)).filter(SiteLimit::is_any).collect()
}

fn site_limit(table: &Spanned<LimitTable>, checker: &mut Checker<'_>) -> SiteLimit {
    let given = table.get_ref();
    if let Some(path) = &given.path {
        checker.expect(path.get_ref().starts_with('/'), path, "does not start with /");
    }
    let path = given.path.as_ref().map_or("/", |path| path.get_ref());
    let said = [&given.requests, &given.bytes, &given.bandwidth, &given.shared_bandwidth];
    if said.iter().all(|one| one.is_none()) {
        let hint = "say what: requests = \"10/m burst 5\", bytes = \"10GB/d\", bandwidth = \"500kB/s after 5MB\" or \
                    shared_bandwidth = \"5MB/s\"";
        checker.problem_with_hint(table.span(), "this limit limits nothing", Some(hint.to_owned()));
    }
    let shared_bandwidth: Option<Bandwidth> = unless_off(given.shared_bandwidth.as_ref(), checker);
    if let (Some(text), Some(Bandwidth { after: 1.., .. })) = (&given.shared_bandwidth, shared_bandwidth) {
        checker.expect(false, text, "has an `after`: what connections share begins with their first byte");
    }
    SiteLimit {
        key: given.key.as_ref().and_then(|key| checker.parsed(key)).unwrap_or_default(),
        rate: unless_off(given.requests.as_ref(), checker),
        volume: unless_off(given.bytes.as_ref(), checker),
        bandwidth: unless_off(given.bandwidth.as_ref(), checker),
        shared_bandwidth,
        ..SiteLimit::new(path)
    }
}

/// A limit as a value; none for any amount.
fn unless_off<T: FromStr<Err: Display>>(text: Option<&Text>, checker: &mut Checker<'_>) -> Option<T> {
    text.filter(|text| text.get_ref() != "off").and_then(|text| checker.parsed(text))
}
