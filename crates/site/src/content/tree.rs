//! The part of a site that one client may read, seen from a folder to which it was let in: for archives of that folder,
//! and for searching it.
//!
//! Owns: [`Tree`], which knows the client, and the judgement of paths. Guarantees: a path is only said to be served if
//! a request for it by the same client would be answered with the file that is there. Opens nothing.

use std::borrow::Cow;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use lamna_config::route::Rules;
use lamna_io::KernelFeatures;
use lamna_proto::exchange::RequestedResource;
use lamna_proto::message::Request;
use lamna_proto::parse::path;
use lamna_sys::clock::Clock;

use super::action::Action;
use super::permitted::Permitted;
use super::route::{Clearance, Effective, variant_of};
use super::site::{Site, Sites};
use super::upload::{Resources, RouteFacts};

/// Whether the rules answer with the file or the folder that is there, to every client that gets the folder around it.
pub(super) fn leads_to_files(rules: &Rules) -> bool {
    let is_filtered = rules.filters.as_ref().is_some_and(|filters| lamna_filter::change_files(filters));
    !rules.replace_files() && rules.try_files.is_none() && !is_filtered
}

/// The files of a folder that a given client may read.
#[derive(Debug)]
pub(super) struct Tree {
    sites: Arc<Sites>,
    pub(super) abilities: Arc<KernelFeatures>,
    pub(super) clock: Clock,
    site: u32,
    /// The request's facts, if routes of the site look at more than paths.
    route_facts: Option<RouteFacts>,
    /// The rules of the requested folder, to which the client was let in.
    entered: Arc<Effective>,
    /// The rules of access that the client fulfils besides.
    clearance: Clearance,
}

impl Tree {
    /// The files of `site` for the client that asks for the folder at `path`, which is normalised.
    pub(super) fn of(
        site: &Site,
        path: &[u8],
        (requested, request, client): (&RequestedResource<'_>, Request<'_>, Option<IpAddr>),
        clearance: Clearance,
        resources: Resources<'_>,
    ) -> Tree {
        let route_facts = site.routes.depends_on_requests().then(|| RouteFacts::of(requested, request, client));
        let facts = route_facts.as_ref().map(RouteFacts::asked);
        let entered = site.routes.applying_to(path, facts.as_ref(), &clearance);
        let (sites, abilities) = (resources.sites.clone(), resources.abilities.clone());
        Tree { entered, sites, abilities, clock: resources.clock, site: site.index, route_facts, clearance }
    }

    /// The rules of the folder.
    pub(super) fn entered(&self) -> &Effective {
        &self.entered
    }

    pub(super) fn site(&self) -> &Site {
        self.sites.at(self.site)
    }

    pub(super) fn rules_of(&self, path: &[u8]) -> Arc<Effective> {
        match &self.route_facts {
            Some(route_facts) => self.site().routes.applying(path, &route_facts.asked()),
            None => self.site().routes.effective(path, &[]),
        }
    }

    /// Whether `path`, which is normalised, is answered with what is there, as it is.
    pub(super) fn serves(&self, path: &[u8]) -> bool {
        self.shows(path, leads_to_files)
    }

    /// The permission of the client to have `file`, which is open and is at `path`, as it is. Another name may lead to
    /// the file, and a file that an application runs, for any client, is never shown. At another path it has to be for
    /// those for whom it is at this one, as for a request for it.
    pub(super) fn permit(&self, path: &[u8], file: &OwnedFd) -> Option<Permitted<'static>> {
        let (site, rules) = (self.site(), self.rules_of(path));
        let lets = |place: &[u8]| match place == path {
            true => self.lets_in(place),
            false => site.routes.lets_on(&rules, place),
        };
        let may = |place: &[u8]| site.routes.runner(place).is_none() && lets(place);
        Permitted::judge(site, Cow::Owned(path.to_vec()), file.as_fd(), may)
    }

    /// Whether the client is let in at `path`, and where it is a variant of a file, at that.
    fn lets_in(&self, path: &[u8]) -> bool {
        if self.site().routes.hides(path) {
            return false;
        }
        if !self.site().routes.keep_out() {
            return true;
        }
        let is_for = |rules: &Effective| {
            rules.whom(Action::Read).is_none_or(|whom| {
                self.entered.whom(Action::Read) == Some(whom) || self.site().routes.clears(&self.clearance, whom)
            })
        };
        is_for(&self.rules_of(path)) && variant_of(path).is_none_or(|file| is_for(&self.rules_of(file)))
    }

    /// Whether `path`, which is normalised, is answered with what is there, by rules that `leads` takes for that.
    pub(super) fn shows(&self, path: &[u8], leads: fn(&Rules) -> bool) -> bool {
        let site = self.site();
        let is_moved = std::str::from_utf8(path)
            .is_ok_and(|text| site.settings.redirects.iter().any(|redirect| redirect.location(text).is_some()));
        let rules = self.rules_of(path);
        self.lets_in(path) && leads(&rules.rules) && !is_moved && !path::is_hidden(path) && !site.routes.hides(path)
    }

    /// Whether the entry `entry` of the directory `path` is beneath another root than it.
    pub(super) fn is_elsewhere(&self, path: &[u8], entry: &[u8]) -> bool {
        !std::ptr::eq(self.site().root_of(path).0, self.site().root_of(entry).0)
    }
}
