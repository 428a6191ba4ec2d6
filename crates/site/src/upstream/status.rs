//! How the places of applications are doing, for people and for machines.
//!
//! Owns: [`PlaceStatus`], and where it comes from: what all processes have counted, and what this process knows of its
//! own requests.

use serde::{Deserialize, Serialize};

use std::sync::Arc;

use lamna_config::gateway::{GatewaySettings, UpstreamSettings};
use lamna_config::settings::Settings;
use lamna_policy::upstream::choice::WHOLE;
use lamna_policy::upstream::health::Availability;
use lamna_policy::words::count;
use lamna_proto::time::Instant;
use lamna_sys::metrics::applications::{PLACES_MAX, Places};

use super::group::{Group, MemberStatus};

/// How one place is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceStatus {
    /// The site that asks it: its first host, or its number.
    pub site: String,
    /// The names of the applications that it is a place of; those of routes have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<String>,
    /// Where it is, as it is configured.
    pub address: String,
    /// Whether it is asked; none where worker processes ask it, each of which finds out for itself.
    pub state: Option<State>,
    /// Whether an operator has it get no request.
    #[serde(default)]
    pub drained: bool,
    /// Whether it is asked only where no other can be.
    #[serde(default)]
    pub spare: bool,
    /// Requests under way; none as above.
    pub under_way: Option<u32>,
    /// The time in which an answer is expected to begin, in milliseconds, with `balance = "least-time"`; none as above.
    #[serde(default)]
    pub time_ms: Option<u32>,
    /// Connections that are kept; none as above.
    pub kept: Option<usize>,
    /// Requests that it was given so far.
    pub asked: u64,
    /// Those that have failed.
    pub failed: u64,
    /// Why the last one has.
    pub error: Option<String>,
    /// When that was, in seconds since 1970.
    pub failed_at: Option<u64>,
}

/// A place of an application that gets no request: its site, by its first host or its number, and its address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainedPlace {
    /// The site.
    pub site: String,
    /// The address, as it is told in reports.
    pub address: String,
}

/// Whether a place is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Yes.
    Up,
    /// It has come back, and gets this much of its share, in percent.
    Rising(u32),
    /// The next request finds out.
    Trial,
    /// Requests have failed: not before so many milliseconds.
    Resting(u64),
    /// Checks hold it to be down.
    Down,
}

impl State {
    fn of(availability: Availability, now: Instant) -> State {
        match availability {
            Availability::InUse { share: WHOLE } => State::Up,
            Availability::InUse { share } => State::Rising(share * 100 / WHOLE),
            Availability::Trial => State::Trial,
            Availability::Out { until_ms } => State::Resting(until_ms.saturating_sub(now.ms())),
            Availability::Down => State::Down,
        }
    }

    /// Whether requests of any number are given to it.
    pub fn is_up(self) -> bool {
        matches!(self, State::Up | State::Rising(_))
    }

    fn describe(self) -> String {
        match self {
            State::Up => "up".to_owned(),
            State::Rising(percent) => format!("up, {percent} % of its share"),
            State::Trial => "tried by the next request".to_owned(),
            State::Resting(ms) => format!("left alone for {} s", ms.div_ceil(1000)),
            State::Down => "down by its checks".to_owned(),
        }
    }
}

impl PlaceStatus {
    /// Whether it is asked, in words.
    pub fn describe_state(&self) -> String {
        let state = self.state.map_or_else(|| "asked by worker processes".to_owned(), State::describe);
        match (self.drained, self.spare) {
            (true, _) => "drained".to_owned(),
            (false, true) => format!("{state}, a spare"),
            (false, false) => state,
        }
    }

    /// Whether requests of any number are given to it; none where worker processes ask it.
    pub fn is_up(&self) -> Option<bool> {
        if self.drained { Some(false) } else { self.state.map(State::is_up) }
    }

    /// In words. `ago` says how long ago a time was.
    pub fn describe(&self, ago: impl FnOnce(u64) -> String) -> String {
        let mut parts = vec![self.describe_state()];
        parts.extend(self.under_way.map(|under_way| format!("{under_way} under way")));
        parts.push(format!("{} so far", count(self.asked, "request")));
        parts.push(format!("{} failed", self.failed));
        parts.extend(self.time_ms.map(|ms| format!("answers within {ms} ms")));
        parts.extend(self.kept.map(|kept| format!("{} kept", count(kept, "connection"))));
        let text = format!("{}: {}", self.address, parts.join(", "));
        match (&self.error, self.failed_at) {
            (Some(error), Some(at)) => format!("{text}; {}: {error}", ago(at)),
            _ => text,
        }
    }

    /// Adds another group's view of the same place.
    fn add(&mut self, other: &MemberStatus, now: Instant) {
        let state = other.availability.map(|availability| State::of(availability, now));
        // The worse of both: a place that some requests are kept from is not up.
        self.state = self.state.max(state);
        self.under_way = Some(self.under_way.unwrap_or(0) + other.load);
        self.kept = Some(self.kept.unwrap_or(0) + other.kept);
        self.time_ms = self.time_ms.max(other.time_ms);
        if let Some((error, at)) = other.last_failure.as_ref().filter(|(_, at)| Some(*at) >= self.failed_at) {
            (self.error, self.failed_at) = (Some(error.clone()), Some(*at));
        }
    }
}

/// All places that `settings` name, in their order; as many as are counted. `groups` are those of this process with the
/// names of their sites, if it asks them itself.
pub fn status<'a>(
    settings: &Settings,
    places: &Places,
    groups: impl IntoIterator<Item = (String, &'a Arc<Group>)>,
    now: Instant,
) -> Vec<PlaceStatus> {
    let mut all: Vec<PlaceStatus> = Vec::new();
    for (site, label) in settings.sites.iter().zip(1..).map(|(site, number)| (site, site.label(number))) {
        let of = |gateway: &GatewaySettings| {
            let place =
                |upstream: &UpstreamSettings| (gateway.name.clone(), upstream.address.to_string(), upstream.weight);
            gateway.upstreams.iter().map(place).collect::<Vec<_>>()
        };
        for (application, address, weight) in site.gateways().flat_map(of) {
            if let Some(one) = all.iter_mut().find(|one| (&one.site, &one.address) == (&label, &address)) {
                one.applications.extend(application.filter(|name| !one.applications.contains(name)));
                continue;
            }
            if all.len() == PLACES_MAX {
                continue;
            }
            let counts = places.row(&label, &address).map(|row| row.counts()).unwrap_or_default();
            all.push(PlaceStatus {
                site: label.clone(),
                applications: application.into_iter().collect(),
                address,
                asked: counts.asked,
                failed: counts.failed,
                drained: counts.is_drained,
                spare: weight == 0,
                state: counts.is_down.then_some(State::Down),
                error: counts.last.map(|(error, _)| error.to_string()),
                failed_at: counts.last.map(|(_, at)| at),
                ..PlaceStatus::default()
            });
        }
    }
    for (site, group) in groups {
        for member in group.status(now) {
            let found = all.iter_mut().find(|one| (&one.site, &one.address) == (&site, &member.address));
            found.into_iter().for_each(|one| one.add(&member, now));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_told_of_in_one_line() {
        let mut place = PlaceStatus { address: "127.0.0.1:1".into(), asked: 5, ..PlaceStatus::default() };
        let ago = |_| "3 s ago".to_owned();
        assert_eq!(place.describe(ago), "127.0.0.1:1: asked by worker processes, 5 requests so far, 0 failed");
        let member = MemberStatus {
            address: place.address.clone(),
            availability: Some(Availability::Out { until_ms: 2_500 }),
            load: 1,
            time_ms: None,
            kept: 2,
            last_failure: Some(("it is closed".into(), 7)),
        };
        place.failed = 3;
        place.add(&member, Instant::from_ms(1_000));
        place.add(
            &MemberStatus { availability: Some(Availability::InUse { share: WHOLE }), ..member },
            Instant::from_ms(1_000),
        );
        assert_eq!(
            place.describe(ago),
            "127.0.0.1:1: left alone for 2 s, 2 under way, 5 requests so far, 3 failed, 4 connections kept; 3 s ago: it is closed"
        );
    }
}
