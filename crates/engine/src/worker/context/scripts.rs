//! Requests that have come to a script.
//!
//! Owns: the verdict on the paths at which a script is, for the request that has come to it by whatever way: its name, what follows that, an
//! index, `try`, `_redirects`, a link. Guarantees: an application runs a file only for who is let in at each path of that file, to do what the
//! request does, and within the limits of these paths ([`LetIn`]); its answer has the fields of the script's own routes as well. The verdict on the path that
//! is asked for has been given before (`routing`).

use std::net::IpAddr;
use std::sync::Arc;

use lamna_config::proxies::Peer;
use lamna_proto::error::Refusal;
use lamna_proto::exchange::{Done, Translate};
use lamna_proto::parse::path;
use lamna_site::cache::{Entry, Script};
use lamna_site::content::access::{Rules, Verdict};
use lamna_site::content::route::Effective;
use lamna_tls::Over;

use super::answers::Inquiry;
use super::routing::{leads_elsewhere, who};
use super::{Target, WorkerContext, name_of};
use crate::worker::limiter::Exceeded;
use crate::worker::making::Making;
use crate::worker::shared::Shared;

/// A script, and that who asks is let in to it: only the verdict on its paths makes one.
#[derive(Clone, Copy)]
pub(super) struct LetIn<'a>(&'a Script);

impl<'a> LetIn<'a> {
    /// The script.
    pub(super) fn script(self) -> &'a Script {
        self.0
    }
}

impl WorkerContext<'_> {
    /// What a request is answered with whose target is a script, or that changes something where there is none.
    pub fn run_script(&mut self, translate: &Translate<'_>, peer: Peer, over: Over<'_>, entry: &Entry) -> Done<'_> {
        let Shared { sites, proxies, .. } = self.shared;
        let client = proxies.client(peer, translate.request);
        let site = sites.find(translate.host);
        let mut rules = self.addresses.rules(sites, translate, client);
        let Some(script) = entry.script() else { return self.without_script(translate, (peer, client), entry, &rules) };
        // By the path that is asked for, too: there it was judged by what the method is for files, and an application does what it likes with it.
        let mut verdict = self.judge(translate, (peer, over), &rules, &Rules::of_application(&rules, translate));
        for place in script.places() {
            let own = self.rules_at(translate, client, &place);
            if verdict.is_none() {
                verdict = self.judge(translate, (peer, over), &own, &Rules::of_application(&own, translate));
            }
            rules = site.routes.joined(&rules, &own);
        }
        // Who is asked first who he is comes here once more.
        let is_counted = matches!(verdict, None | Some(Verdict::Answer(_)));
        if is_counted && let Err(exceeded) = self.count_at(translate, (peer, over), script, &rules) {
            return self.limited_with(site, exceeded);
        }
        if let Some(verdict) = verdict {
            return self.carry_out(verdict, translate, peer, over);
        }
        let known = Rules::of_application(&rules, translate);
        let who = who(self.shared, translate, over, &known, (self.now, &mut self.known));
        let (group, script) = (&script.group, Some(LetIn(script)));
        self.ask(&Inquiry { translate, peer, over, who, rules: &rules, group, script })
    }

    /// The same where there is no script.
    fn without_script(
        &mut self,
        translate: &Translate<'_>,
        (peer, client): (Peer, Option<IpAddr>),
        entry: &Entry,
        rules: &Effective,
    ) -> Done<'_> {
        if entry.is_unmade() && translate.request.is_none_or(|request| request.head.method.reads()) {
            let address = self.addresses.address(&self.shared.sites, translate, || client);
            let target = Target::new(self.shared, &address, None, name_of(self.shared, translate, peer));
            self.addresses.take_back(address);
            return Done::Run(Box::new(Making::new(self.shared, target, self.party(client), entry.resource.clone())));
        }
        // Where it is now is told whatever is to be done there: by the status a client knows whether its method stays (RFC 9110 15.4).
        if leads_elsewhere(rules) && (300..400).contains(&entry.resource.status.0) {
            return Done::Translated(self.passing.insert(entry.resource.clone()));
        }
        self.without_application(translate).unwrap_or(Done::Refused(Refusal::MethodNotAllowed))
    }

    /// What applies to `place`, a normalised path, for this request.
    fn rules_at(&mut self, translate: &Translate<'_>, client: Option<IpAddr>, place: &[u8]) -> Arc<Effective> {
        let encoded = path::encode(place);
        let there = Translate { path: encoded.as_bytes(), ..*translate };
        self.addresses.rules(&self.shared.sites, &there, client)
    }

    /// Counts the request for the limits of the paths of `script` that those of its own path are not.
    fn count_at(
        &mut self,
        translate: &Translate<'_>,
        (peer, over): (Peer, Over<'_>),
        script: &Script,
        rules: &Effective,
    ) -> Result<(), Exceeded> {
        let Shared { sites, proxies, limiter, .. } = self.shared;
        if !sites.have_limits() {
            return Ok(());
        }
        let rules = Rules::of_application(rules, translate);
        let user = who(self.shared, translate, over, &rules, (self.now, &mut self.known));
        let client = proxies.client(peer, translate.request).filter(|client| !proxies.trust(Some(*client)));
        let site = sites.find(translate.host);
        let places: Vec<_> = script.places().collect();
        limiter.count_at(site, translate, (client, user), &places, &mut self.terms, self.now)
    }
}
