//! The applications of all sites.
//!
//! Owns: having them ready to be asked, and which of them go on when the settings of sites change.

use std::sync::Arc;

use lamna_config::gateway::GatewayProtocol;
use lamna_sys::clock::Clock;
use lamna_sys::metrics::counters::Counters;
use lamna_sys::shared_memory::SharedMemory;
use lamna_tls::{Tickets, TlsError};

use super::Sites;
use crate::upstream::group::Group;

impl Sites {
    /// The applications and the auth services of all sites, with the labels of their sites.
    pub fn groups(&self) -> impl Iterator<Item = (String, &Arc<Group>)> {
        self.sites.iter().flat_map(|site| {
            let groups = site.routes.groups().iter().chain(site.routes.services());
            groups.map(move |group| (site.label(), group))
        })
    }

    /// Has the same applications as `before` where a site of the same name has the same ones.
    pub fn keep_applications(&mut self, before: &Sites) {
        for site in &mut self.sites {
            let label = site.label();
            if let Some(same) = before.sites.iter().find(|other| other.label() == label) {
                site.routes.keep_applications(&same.routes);
            }
        }
    }

    /// Whether applications are known by what the files of their `ca` hold now.
    pub fn have_current_trust(&self) -> bool {
        self.groups().all(|(_, group)| group.has_current_trust())
    }

    /// Whether some application speaks HTTP, and so may speak what HTTP is changed to.
    pub fn have_proxies(&self) -> bool {
        let mut groups = self.sites.iter().flat_map(|site| site.routes.groups());
        groups.any(|group| group.settings.protocol == GatewayProtocol::Http)
    }

    /// Has applications ready to be asked: see [`Group::prepare`].
    ///
    /// # Errors
    /// Nothing tells who one of them is.
    pub fn prepare_applications(
        &self,
        counters: &SharedMemory<Counters>,
        (clock, keys): (Clock, &Arc<Tickets>),
    ) -> Result<(), TlsError> {
        self.groups().try_for_each(|(site, group)| group.prepare(&site, counters, (clock, keys)))
    }
}
