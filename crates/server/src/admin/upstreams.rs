//! Orders about places of applications, and the places as a table for people.
//!
//! Owns: the vocabulary of `lamna ctl upstream`, and the words. What an order does is told by who carries it out.

use lamna_policy::words::{Align, Table};
use lamna_site::upstream::status::PlaceStatus;
use serde::{Deserialize, Serialize};

/// The verb of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UpstreamVerb {
    /// The place gets no request from now on.
    Drain,
    /// It may get requests again.
    Undrain,
}

/// An order about a place of an application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpstreamOrder {
    /// The verb.
    pub verb: UpstreamVerb,
    /// The address of the place, as it is configured.
    pub address: String,
    /// The site that asks it, by one of its hosts or its place in the configuration; none for every site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
}

/// A line for each place. `ago` says how long ago a time was.
pub fn tell_places(places: &[PlaceStatus], ago: impl Fn(u64) -> String) -> String {
    if places.is_empty() {
        return "there are no applications\n".to_owned();
    }
    let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[left, left, left, left, right, right, right, right, right, left]);
    table.row([
        "SITE",
        "APPLICATION",
        "ADDRESS",
        "STATE",
        "UNDER WAY",
        "MS",
        "KEPT",
        "REQUESTS",
        "FAILED",
        "LAST FAILURE",
    ]);
    for place in places {
        let failure = place.error.as_ref().zip(place.failed_at).map(|(error, at)| format!("{}: {error}", ago(at)));
        table.row([
            place.site.clone(),
            if place.applications.is_empty() { "-".to_owned() } else { place.applications.join(",") },
            place.address.clone(),
            place.describe_state(),
            number(place.under_way.map(u64::from)),
            number(place.time_ms.map(u64::from)),
            number(place.kept.map(|kept| kept as u64)),
            place.asked.to_string(),
            place.failed.to_string(),
            failure.unwrap_or_default(),
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_a_table() {
        let place = PlaceStatus { site: "a.test".into(), address: "127.0.0.1:1".into(), ..PlaceStatus::default() };
        let drained = PlaceStatus { drained: true, under_way: Some(2), kept: Some(0), ..place.clone() };
        let applications = vec!["rails".to_owned(), "jobs".to_owned()];
        let failed = PlaceStatus { error: Some("it is closed".into()), failed_at: Some(7), applications, ..place };
        let told = tell_places(&[drained, failed], |_| "3 s ago".to_owned());
        let lines: Vec<Vec<&str>> = told.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["a.test", "-", "127.0.0.1:1", "drained", "2", "-", "0", "0", "0"]);
        assert_eq!(lines[2][..3], ["a.test", "rails,jobs", "127.0.0.1:1"]);
        assert!(told.contains("asked by worker processes") && told.contains("3 s ago: it is closed"), "{told}");
        assert_eq!(tell_places(&[], |_| String::new()), "there are no applications\n");
    }
}
