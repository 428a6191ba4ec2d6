//! Requests that have come to an application by the way of files: to a script, or to where no file is.
//!
//! Owns: the verdict on the paths at which a script is, for the request that has come to it by whatever way: its name,
//! a path behind that, an index, `try`, `_redirects`, a link. Guarantees: an application runs a file only for a client
//! that is let in at each path of that file and at the path behind it. Its request must be allowed there, and within
//! the limits of these paths ([`LetIn`]). A path behind a file runs it only if a request for the file's own path does;
//! its answer has the fields of the script's own routes as well. The verdict on the requested path has been given
//! before (`steps`).

use std::sync::Arc;

use lamna_proto::error::Refusal;
use lamna_proto::exchange::RequestedResource;
use lamna_proto::parse::path;
use lamna_site::cache::{Entry, Script};
use lamna_site::content::access::{Rules, Verdict};
use lamna_site::content::route::Effective;
use lamna_site::upstream::group::Group;

use super::answers::ApplicationRequest;
use super::asked::Asked;
use super::responders::{leads_elsewhere, without_application};
use super::steps::Outcome;
use super::{TranslationTarget, WorkerContext};
use crate::worker::limiter::Exceeded;
use crate::worker::making::Making;

/// A script, and proof that the client is let in to it: only the verdict on its paths makes one.
#[derive(Clone, Copy)]
pub(super) struct LetIn<'a>(&'a Script);

impl<'a> LetIn<'a> {
    /// The script.
    pub(super) fn script(self) -> &'a Script {
        self.0
    }
}

impl WorkerContext<'_> {
    /// The outcome of a request whose target is a script, or that changes something where there is none.
    pub fn run_script(&mut self, asked: &Asked<'_>, entry: &Entry) -> Outcome {
        let requested = asked.requested;
        let mut rules = self.rules(asked);
        if let Some(application) = entry.application() {
            return self.ask_behind_files(asked, &rules, application);
        }
        let Some(script) = entry.script() else { return self.without_script(asked, entry, &rules) };
        // By the path that is asked for, too: there it was judged by what the method is for files, and an application
        // does what it likes with it.
        let mut verdict = self.judge(asked, &rules, &Rules::of_application(&rules, requested));
        let mut runs = true;
        for (number, place) in script.places().enumerate() {
            let own = self.rules_at(asked, &place);
            if number == 0 && is_asked_beyond(requested, &place, script) {
                runs = asked.site.runs_at(&place, &own, &script.group);
            }
            // One that is led away at its own path may be what others are led to: a front controller.
            runs &= own.respond.is_none();
            if verdict.is_none() {
                verdict = self.judge(asked, &own, &Rules::of_application(&own, requested));
            }
            rules = asked.site.routes.joined(&rules, &own);
        }
        // An application reads what follows its script as a path of the site.
        for path in script.paths_within().filter(|_| asked.site.guard.is_some()) {
            let there = self.rules_at(asked, &path);
            if verdict.is_none() {
                verdict = self.judge(asked, &there, &Rules::of_application(&there, requested));
            }
            rules = asked.site.routes.guarded(&rules, &there);
        }
        if verdict.is_none() && !runs {
            let outcome = Outcome::Answer(entry.resource.clone());
            self.trace_found(asked, "script", &outcome, true);
            return outcome;
        }
        // A request whose client is first asked for credentials comes here once more.
        let is_counted = matches!(verdict, None | Some(Verdict::Answer(_)));
        if is_counted && let Err(exceeded) = self.count_at(asked, script, &rules) {
            let outcome = self.limited_with(asked, exceeded);
            self.trace_found(asked, "script", &outcome, true);
            return outcome;
        }
        let is_let_in = verdict.is_none();
        let outcome = match verdict {
            Some(verdict) => self.carry_out(verdict, asked),
            None => {
                let identity = asked.identity(&Rules::of_application(&rules, requested), (self.now, &mut self.known));
                let (group, script) = (&script.group, Some(LetIn(script)));
                self.ask(&ApplicationRequest { asked, identity, rules: &rules, group, script })
            }
        };
        self.trace_found(asked, "script", &outcome, is_let_in || !matches!(outcome, Outcome::Run(_)));
        outcome
    }

    /// The same where no file is, and `application` answers. The request was let in to files: an application does what
    /// it likes with any method.
    fn ask_behind_files(&mut self, asked: &Asked<'_>, rules: &Arc<Effective>, application: &Arc<Group>) -> Outcome {
        let of_application = Rules::of_application(rules, asked.requested);
        let verdict = self.judge(asked, rules, &of_application);
        let is_let_in = verdict.is_none();
        let outcome = match verdict {
            Some(verdict) => self.carry_out(verdict, asked),
            None => {
                let identity = asked.identity(&of_application, (self.now, &mut self.known));
                self.ask(&ApplicationRequest { asked, identity, rules, group: application, script: None })
            }
        };
        self.trace_found(asked, "application", &outcome, is_let_in || !matches!(outcome, Outcome::Run(_)));
        outcome
    }

    /// The same where there is no script.
    fn without_script(&mut self, asked: &Asked<'_>, entry: &Entry, rules: &Effective) -> Outcome {
        if entry.is_unmade() && asked.requested.request.is_none_or(|request| request.head.method.reads()) {
            let cache_key = self.cache_key(asked);
            let target = TranslationTarget::new(self.shared, &cache_key, None, asked.name());
            self.cache_keys.take_back(cache_key);
            let making = Making::new(self.shared, target, asked.network(), entry.resource.clone());
            return Outcome::Run(Box::new(making.traced_as(self.traced(asked))));
        }
        // Where it is now is told whatever is to be done there: by the status a client knows whether its method stays
        // (RFC 9110 15.4).
        let outcome = match leads_elsewhere(rules) && (300..400).contains(&entry.resource.status.0) {
            true => Outcome::Answer(entry.resource.clone()),
            false => without_application(self, asked),
        };
        let outcome = match outcome {
            Outcome::Next => Outcome::Refuse(Refusal::MethodNotAllowed),
            outcome => outcome,
        };
        self.trace_method(asked, &outcome);
        outcome
    }

    /// The effective rules of `place`, a normalised path, for this request.
    pub(super) fn rules_at(&mut self, asked: &Asked<'_>, place: &[u8]) -> Arc<Effective> {
        let encoded = path::encode(place);
        let there = RequestedResource { path: encoded.as_bytes(), ..*asked.requested };
        self.rules(&asked.at(&there))
    }

    /// Counts the request for those limits of the paths of `script`, and of what follows it, that are not limits of the
    /// requested path.
    fn count_at(&mut self, asked: &Asked<'_>, script: &Script, rules: &Effective) -> Result<(), Exceeded> {
        if asked.site.settings.limits.is_empty() {
            return Ok(());
        }
        let user = asked.identity(&Rules::of_application(rules, asked.requested), (self.now, &mut self.known));
        let counted = (asked.counted_client(), user);
        let places: Vec<_> = script.places().chain(script.paths_within()).collect();
        self.shared.limiter.count_at(asked.site, asked.requested, counted, &places, &mut self.rate_limits, self.now)
    }
}

/// Whether a request asks for a path that goes on behind `place`, where `script` is.
fn is_asked_beyond(requested: &RequestedResource<'_>, place: &[u8], script: &Script) -> bool {
    let mut asked = Vec::new();
    !script.path_info.is_empty()
        && path::normalise_for_rules(requested.path, &mut asked).is_ok()
        && asked.strip_prefix(place) == Some(&script.path_info[..])
}
