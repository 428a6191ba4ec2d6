//! The applications and auth services that the routes of a site name.
//!
//! Owns: which they are, and which of them go on when the settings of sites change.

use std::sync::Arc;

use lamna_config::access::ServiceSettings;

use super::Routes;
use crate::upstream::group::Group;

impl Routes {
    /// Whether some application runs files.
    pub fn run_files(&self) -> bool {
        self.groups.iter().any(|group| group.settings.scripts.is_some())
    }

    /// The applications that routes name.
    pub fn groups(&self) -> &[Arc<Group>] {
        &self.groups
    }

    /// The auth services.
    pub fn services(&self) -> &[Arc<Group>] {
        &self.services
    }

    /// Where this service is.
    pub fn service(&self, service: &ServiceSettings) -> Option<&Arc<Group>> {
        self.services.iter().find(|group| group.settings == service.gateway)
    }

    /// Has the same applications and services as `before`, where they are the same: with their connections and what is
    /// known of their places. No rules have been made yet.
    pub fn keep_applications(&mut self, before: &Routes) {
        let of_before = || before.groups.iter().chain(&before.services);
        for group in self.groups.iter_mut().chain(&mut self.services) {
            let is_same = |other: &&Arc<Group>| {
                other.settings == group.settings && other.name == group.name && other.has_current_trust()
            };
            if let Some(same) = of_before().find(is_same) {
                *group = same.clone();
            }
        }
    }
}
