//! Conclusions from the settings of a site, for those who ask about more than one key.
//!
//! Owns: its names in messages, and the applications and services that its routes name.

use std::path::PathBuf;
use std::sync::Arc;

use super::SiteSettings;
use crate::access::{AccessRules, ServiceSettings};
use crate::early_hints::{EarlyHintSettings, LinkPrefetchSettings};
use crate::gateway::{CommandSettings, GatewaySettings, ProgramSettings};
use crate::route::{Changes, Switch};

impl SiteSettings {
    /// The changes that clients may make where no route says otherwise.
    pub fn changes(&self) -> Changes {
        Changes { upload: self.upload, delete: self.delete, mkdir: self.mkdir, webdav: self.webdav }
    }

    /// A site for any host that serves a directory, with everything else at its default.
    pub fn new(root: PathBuf) -> Self {
        SiteSettings { root, ..SiteSettings::default() }
    }

    /// The settings of its hints to clients, if it gives them for any path.
    pub fn early_hints_anywhere(&self) -> Option<EarlyHintSettings> {
        let is_on = self.early_hints.is_on || self.routes.iter().any(|route| route.early_hints == Some(true));
        is_on.then_some(self.early_hints)
    }

    /// Which of its pages clients may fetch ahead, if that is any.
    pub fn link_prefetch_anywhere(&self) -> Option<LinkPrefetchSettings> {
        let is_on = self.link_prefetch.is_on || self.routes.iter().any(|route| route.link_prefetch == Some(true));
        is_on.then_some(self.link_prefetch)
    }

    /// The name of the site in messages: its first host, or else its number among the sites.
    pub fn label(&self, number: usize) -> String {
        self.hosts.first().cloned().unwrap_or_else(|| number.to_string())
    }

    /// Whether `name` is one of its hosts; or a number, which is what a site without hosts is called by: there is at
    /// most one, so that it is the same one wherever it stands.
    pub fn is_named(&self, name: &str) -> bool {
        match self.hosts.is_empty() {
            true => !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()),
            false => self.hosts.iter().any(|host| host == name),
        }
    }

    /// The source of its answers, in words: a directory, an application, or redirects.
    pub fn describe_root(&self) -> String {
        let gateway = self.routes.iter().find_map(|route| match &route.gateway {
            Switch::Set(gateway) => Some(gateway.upstreams.first()?.address.to_string()),
            Switch::Unset | Switch::Off => None,
        });
        match gateway {
            _ if self.has_root() => self.root.display().to_string(),
            Some(address) => format!("the application at {address}"),
            None => "redirects".to_owned(),
        }
    }

    /// The applications that its routes name, and the services that say who is let in.
    pub fn gateways(&self) -> impl Iterator<Item = &GatewaySettings> {
        let of_routes = self.routes.iter().filter_map(|route| match &route.gateway {
            Switch::Set(gateway) => Some(gateway),
            Switch::Unset | Switch::Off => None,
        });
        of_routes.chain(self.services().map(|service| &service.gateway))
    }

    /// The applications of its routes, each once, and what they are called: by their names, or by the paths of the
    /// first route that has it, behind the first host of the site if it has one.
    pub fn applications(&self) -> Vec<(String, &GatewaySettings)> {
        let host = self.hosts.first().map(|host| format!("{host} ")).unwrap_or_default();
        let mut applications: Vec<(String, &GatewaySettings)> = Vec::new();
        for route in &self.routes {
            let Switch::Set(gateway) = &route.gateway else { continue };
            if applications.iter().all(|(_, other)| *other != gateway) {
                let name = gateway.name.clone().unwrap_or_else(|| route.title());
                applications.push((format!("{host}{name}"), gateway));
            }
        }
        applications
    }

    /// The services that say who is let in.
    pub fn services(&self) -> impl Iterator<Item = &Arc<ServiceSettings>> {
        let accesses = [&self.access].into_iter().chain(self.routes.iter().map(|route| &route.access));
        accesses.flat_map(AccessRules::services)
    }

    /// The applications of its routes that the server starts.
    pub fn commands(&self) -> impl Iterator<Item = &CommandSettings> {
        self.routes.iter().filter_map(|route| match &route.gateway {
            Switch::Set(gateway) => gateway.command.as_ref(),
            Switch::Unset | Switch::Off => None,
        })
    }

    /// The processes of applications of its routes that listen themselves, and that the server starts.
    pub fn programs(&self) -> impl Iterator<Item = &ProgramSettings> {
        self.routes.iter().flat_map(|route| match &route.gateway {
            Switch::Set(gateway) => &gateway.programs[..],
            Switch::Unset | Switch::Off => &[],
        })
    }

    /// Whether it serves a directory.
    pub fn has_root(&self) -> bool {
        !self.root.as_os_str().is_empty()
    }
}
