//! Paths at which no file is sent, whatever there is: a route answers otherwise there, or leads to where nothing can
//! be.
//!
//! Owns: that judgement, and which files the server itself uses. Guarantees: a file that is never sent for its own
//! path is not sent for another one either, to which `try`, `rewrite`, a link or an alias leads ([`Routes::lets_on`]);
//! where the rules of a path withhold its files, clients change nothing there ([`Effective::changes`]). A redirect
//! (`/index.html` to `/`) says of a file where it has its address, and keeps it from nobody. Rights of clients are
//! `access`'s.

use lamna_config::route::template::Template;
use lamna_config::route::{RULE_FILES, RouteSettings, Rules, Switch, merge};
use lamna_proto::parse::path;

use super::{Effective, RouteId, Routes};

impl Routes {
    /// Whether `path` is used by the server itself, and not served.
    pub fn hides(&self, path: &[u8]) -> bool {
        let is_rule_file = self.hides_rule_files
            && path.strip_prefix(b"/").is_some_and(|name| RULE_FILES.iter().any(|own| own.as_bytes() == name));
        is_rule_file || self.own.iter().any(|own| own.covers(path))
    }

    /// Whether no file is sent at the path `to`: a route answers otherwise there, or leads to where nothing can be. Of
    /// routes that may apply there, those that refuse count.
    pub(super) fn withhold(&self, from: &Effective, to: &[u8]) -> bool {
        if !self.withholds {
            return false;
        }
        let ids = self.matcher.by_path(to);
        let applies = |id: &RouteId| self.matcher.route(*id).conditions.is_empty() || from.matched.contains(id);
        let refuses = |id: &RouteId| {
            let route = self.matcher.route(*id);
            let is_refusal = matches!(&route.respond, Switch::Set(respond) if respond.status >= 400)
                || matches!(&route.rewrite, Switch::Set(template) if leads_nowhere(template));
            is_refusal && !from.failed.contains(id)
        };
        let certain = ids.iter().copied().filter(applies);
        ids.iter().any(|id| !applies(id) && refuses(id))
            || withholds(&merge(certain.map(|id| (usize::from(id), self.matcher.route(id)))))
    }

    /// Whether some client is sent no file at `path`, whatever there is.
    pub fn withhold_from_some(&self, path: &[u8]) -> bool {
        self.withhold(&self.plain, path)
    }

    /// Whether some path may be one at which no file is sent.
    pub fn have_withheld(&self) -> bool {
        self.withholds
    }

    /// Whether a request for a path is sent no file, where the routes that apply to it come to `rules`.
    pub(super) fn withhold_by(&self, rules: &Rules) -> bool {
        self.withholds && withholds(rules)
    }
}

impl Effective {
    /// Whether these rules lead to where nothing can be, whatever there is.
    pub fn lead_nowhere(&self) -> bool {
        self.rules.rewrite.as_ref().is_some_and(|(template, _)| leads_nowhere(template))
    }
}

/// Whether some path of `route` is one at which no file is sent, at least to some clients.
pub(super) fn withholds_some(route: &RouteSettings) -> bool {
    withholds(&merge([(0, route)]))
}

fn leads_nowhere(template: &Template) -> bool {
    path::is_hidden(template.text().as_bytes())
}

/// Whether no file is sent where `rules` apply, whatever there is.
fn withholds(rules: &Rules) -> bool {
    rules.respond.is_some() || rules.rewrite.as_ref().is_some_and(|(template, _)| leads_nowhere(template))
}
