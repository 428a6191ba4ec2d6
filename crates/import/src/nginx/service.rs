//! Locations of nginx that `auth_request` names: services that decide about access.
//!
//! Owns: which locations these are, and what becomes of them. nginx asks a location of its own, which passes the
//! question on; here the service is asked itself, and the location is not served where nginx serves it to no client.

use super::gateway::{Gateway, Upstream};
use super::pattern::spelled;
use super::syntax::Directive;

/// The services of a server: their paths, what they say of an application, and whether nginx alone asks for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Services(Vec<(String, Gateway, bool)>);

impl Services {
    /// Those among `locations` of a server in which `outer` is said besides.
    pub(super) fn of(locations: &[&Directive], outer: &Gateway) -> Services {
        let service = |location: &&Directive| {
            let path = path_of(location)?;
            let inner = location.block.as_deref().unwrap_or_default();
            let mut gateway = outer.clone();
            if inner.iter().any(|one| one.name == "proxy_set_header") {
                gateway.forget_host();
            }
            // What is not carried over of it is said where it is served.
            inner.iter().for_each(|one| _ = gateway.take(one, &mut super::Draft::default()));
            Some((path.to_owned(), gateway, inner.iter().any(|one| one.name == "internal")))
        };
        Services(locations.iter().filter_map(service).collect())
    }

    /// Whether nginx alone asks for a location, and it is carried over where it is named.
    pub(super) fn has_to_itself(&self, location: &Directive, asked: &[String]) -> bool {
        let Some(path) = path_of(location) else { return false };
        asked.iter().any(|one| one == path)
            && self.0.iter().any(|(other, _, is_internal)| *is_internal && other == path)
    }

    /// The keys that say where the service is of which `path` is the location.
    pub(super) fn keys(&self, path: &str, upstreams: &[Upstream]) -> Result<String, String> {
        let found = self.0.iter().find(|(other, ..)| other == path);
        let (_, gateway, _) = found.ok_or("there is no location for it")?;
        gateway.service(path, upstreams)
    }
}

/// The paths that `auth_request` names, anywhere in `directives`.
pub(super) fn asked_by(directives: &[Directive]) -> Vec<String> {
    let mut asked = Vec::new();
    for directive in directives {
        if directive.name == "auth_request" {
            asked.push(directive.argument(0).to_owned());
        }
        asked.extend(asked_by(directive.block.as_deref().unwrap_or_default()));
    }
    asked
}

fn path_of(location: &Directive) -> Option<&str> {
    match spelled(location) {
        ("=" | "^~", path) => Some(path),
        ("", path) if path.starts_with('/') => Some(path),
        _ => None,
    }
}
