//! Routes at run time: what applies to a request of a site, found in memory before anything is looked for.
//!
//! Owns: [`Routes`] of a site and [`Effective`], the merge of several routes, made once for each set of routes that
//! matched together. An entry cached under a path is made with the rules of that path, so that heads have the
//! configured fields and a hit looks nothing up here. Where more than the path decides, the outcome is a part of the
//! cache key (`worker/context.rs`). Waits for nothing, and opens no file.

mod additions;
mod applications;
mod clearance;
mod cors;
mod elsewhere;
mod refusals;
mod request_fields;
mod runner;
mod services;
#[cfg(test)]
mod tests;
mod withheld;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use lamna_config::access::{AccessRule, AccessRules, Allowed};
use lamna_config::error_pages::ErrorPages;
use lamna_config::gateway::GatewaySettings;
use lamna_config::own_files::OwnPath;
use lamna_config::route::condition::Asked;
use lamna_config::route::headers::{self, HeaderRule, has_hash};
use lamna_config::route::matcher::{Dependence, Matcher, RouteId};
use lamna_config::route::template::Captures;
use lamna_config::route::{Changes, Immutable, Rules, Switch, merge};
use lamna_config::settings::SiteSettings;
use lamna_filter::Chain;
use lamna_proto::exchange::negotiate::Coding;
use lamna_proto::gateway::forwarding::spells;
use lamna_proto::resource::HeadTooLong;

use self::additions::{FixedAnswer, fixed};
use self::clearance::CLEARED;
use self::cors::shared_with;
use self::services::steps;
use self::withheld::withholds_some;
use crate::content::action::Action;
use crate::content::answers::{Errors, Extras};
use crate::content::page_file::PageFiles;
use crate::service::{Registry, Unavailable};
use crate::upstream::group::Group;

pub use self::clearance::Clearance;
pub use self::cors::is_preflight;
pub use self::request_fields::{Filling, RequestFields};
pub use self::runner::runs;

/// The routes of a site.
#[derive(Debug)]
pub struct Routes {
    matcher: Matcher,
    depends_on_requests: bool,
    /// Pages are told to load themselves again when files change.
    live_reload: bool,
    hides_rule_files: bool,
    /// Paths of files that the server itself uses.
    own: Vec<OwnPath>,
    changes: Changes,
    /// The fields of the site.
    base: Vec<HeaderRule>,
    /// Access rules where no route says otherwise.
    access: AccessRules,
    /// The rules of access, each once, without those that a service decides by.
    access_rules: Vec<Arc<AccessRule>>,
    keeps_out: bool,
    /// Whether some route answers in the place of files, leads to where nothing can be, or leads some clients away.
    withholds: bool,
    /// The applications that routes name.
    groups: Vec<Arc<Group>>,
    /// The auth services.
    services: Vec<Arc<Group>>,
    /// The services that filters may be.
    registry: Arc<Registry>,
    /// The pages of the site for errors.
    error_pages: ErrorPages,
    /// The files of pages and of fixed answers.
    files: Arc<PageFiles>,
    /// Whether some route has a fixed answer.
    respond: bool,
    /// Fields that only these say to applications.
    own_fields: Vec<String>,
    /// The rules without any route.
    plain: Arc<Effective>,
    made: Mutex<Made>,
}

/// Effective rules, cached by the set of matched routes.
#[derive(Debug, Default)]
struct Made {
    by_routes: HashMap<Vec<u16>, Arc<Effective>>,
    errors: HashMap<Vec<Vec<(String, String)>>, Arc<Errors>>,
    last_number: u32,
    /// The epoch of the services that these were made with.
    epoch: u64,
}

/// Sets of routes that are kept in memory at most: a client that varies what routes look at makes others.
const KEPT_MAX: usize = 1024;

/// The effective rules of a request.
#[derive(Debug)]
pub struct Effective {
    /// Another one for each that was ever made for this site; 0 without any route.
    pub number: u32,
    /// The merged rules of its routes.
    pub rules: Rules,
    /// Changes that clients may make: none where no file is sent.
    pub changes: Changes,
    /// No file is sent, whatever there is.
    pub is_withheld: bool,
    /// Ready pages for what cannot be served.
    pub errors: Arc<Errors>,
    /// Header fields that decided about the routes, for `Vary`.
    vary: Option<String>,
    /// The application that answers.
    pub gateway: Option<Arc<Group>>,
    /// The changes of the fields of requests to the application.
    pub request_fields: RequestFields,
    /// The filters that files and answers pass through.
    pub filters: Chain,
    /// A service of the filters that cannot be used: nothing is answered but why.
    pub unavailable: Option<Unavailable>,
    /// Whether filters are services, and may be others the next time.
    has_services: bool,
    /// The epoch of the services that this was made with.
    epoch: u64,
    /// The pages for errors, of the site and of its routes.
    pub error_pages: ErrorPages,
    /// The files of them, and of fixed answers.
    files: Arc<PageFiles>,
    /// The fixed answer to every request.
    pub respond: Option<FixedAnswer>,
    /// Fields of an answer with 200.
    fields: Vec<(String, String)>,
    /// Access rules.
    access: AccessRules,
    /// Whether anybody may read there, whatever else routes ask of a request.
    pub is_for_anybody: bool,
    /// The routes that apply, and those that would if the request fulfilled what else they ask for.
    matched: Vec<RouteId>,
    failed: Vec<RouteId>,
    /// The number of the origin that asks.
    origin: Option<u16>,
    /// The rules of access that the client fulfils, where what is shown goes by them.
    clearance: Clearance,
}

/// The merge of several routes: rules, names for `Vary`, access rules, the routes that decided, and the clearance.
type Outcome = (Rules, Option<String>, AccessRules, (Vec<RouteId>, Vec<RouteId>, Option<u16>), Clearance);

/// Marks the number of an origin among the outcomes, which are numbers of routes otherwise.
const ORIGIN: u16 = 0x8000;
/// Marks that what the query asks a filter for follows: its length, and as many bytes of text, to which one is added if
/// they are odd.
const RECIPE: u16 = 0xfffe;
/// Marks that the host that is asked follows.
const HOST: u16 = u16::MAX;

impl Routes {
    /// Those of `site`, which does not serve what is at the paths `own`, and holds `files`.
    ///
    /// # Errors
    /// The fields of the site are too long for a head, which no configuration has that was checked.
    pub fn new(
        site: &SiteSettings,
        own: Vec<OwnPath>,
        registry: &Arc<Registry>,
        files: PageFiles,
    ) -> Result<Routes, HeadTooLong> {
        let files = Arc::new(files);
        let fields_of_site = base(site);
        let mut base = Rules { headers: fields_of_site.clone(), ..Rules::default() };
        let withholds = site.routes.iter().any(withholds_some);
        let keeps_out = site.access.keeps_out() || site.routes.iter().any(|route| route.access.keeps_out());
        keep_private(&mut base, &site.access);
        let fields = |status| headers::fields(&base.headers, status);
        let page = |status| files.get(site.error_pages.get(status)?).map(|page| &**page);
        let errors = Errors::new(|status| Extras { fields: fields(status).into(), vary: None, page: page(status) })?;
        let fields = fields(200);
        let (changes, errors, gateway) = (site.changes(), Arc::new(errors), None);
        let filters = Chain::new(&steps(None, site.live_reload)).unwrap_or_default();
        let plain = Arc::new(Effective {
            number: 0,
            rules: base,
            changes,
            is_withheld: false,
            errors,
            vary: None,
            gateway,
            request_fields: RequestFields::default(),
            filters,
            unavailable: None,
            has_services: false,
            epoch: 0,
            error_pages: site.error_pages.clone(),
            files: files.clone(),
            respond: None,
            fields,
            access: site.access.clone(),
            is_for_anybody: !matches!(site.access.0[Action::Read as usize], Some(Allowed::Only(_))),
            matched: Vec::new(),
            failed: Vec::new(),
            origin: None,
            clearance: Clearance::default(),
        });
        let group = |(seed, (name, gateway)): (usize, (String, &GatewaySettings))| {
            Arc::new(Group::new(gateway.clone(), seed as u64).named(name))
        };
        let groups: Vec<Arc<Group>> = site.applications().into_iter().enumerate().map(group).collect();
        let mut services: Vec<Arc<Group>> = Vec::new();
        let mut own_fields: Vec<String> = Vec::new();
        for service in site.services() {
            if !services.iter().any(|group| group.settings == service.gateway) {
                let seed = (groups.len() + services.len()) as u64;
                services.push(Arc::new(Group::new(service.gateway.clone(), seed)));
            }
            let names = service.own_fields().map(|name| name.to_ascii_lowercase());
            own_fields.extend(names.collect::<Vec<_>>());
        }
        own_fields.extend(request_fields::names_of_identity(site));
        own_fields.sort_unstable();
        own_fields.dedup();
        // What cannot be compiled was refused with the settings.
        let matcher = Matcher::new(&site.routes).unwrap_or_default();
        let depends_on_requests = matcher.depends_on_requests();
        Ok(Routes {
            matcher,
            depends_on_requests,
            live_reload: site.live_reload,
            hides_rule_files: site.rule_files,
            own,
            changes,
            base: fields_of_site,
            access: site.access.clone(),
            access_rules: clearance::rules_of(site),
            keeps_out,
            withholds,
            groups,
            services,
            registry: registry.clone(),
            error_pages: site.error_pages.clone(),
            files,
            respond: site.routes.iter().any(|route| matches!(route.respond, Switch::Set(_))),
            own_fields,
            plain,
            made: Mutex::default(),
        })
    }

    /// The rules without any route.
    pub fn plain(&self) -> &Arc<Effective> {
        &self.plain
    }

    /// Which routes fit `path`, the most specific first: a sentence for each.
    pub fn describe(&self, path: &[u8], effective: &Effective) -> Vec<String> {
        let sentence = |id: RouteId| {
            let route = self.matcher.route(id);
            let verb = match route.conditions.is_empty() || effective.matched.contains(&id) {
                true => "applies",
                false => "does not apply: this request is not one that it is for",
            };
            format!("the route {} {verb}", route.title_with_place())
        };
        self.matcher.by_path(path).into_iter().map(sentence).collect()
    }

    /// Whether there is any route.
    pub fn is_empty(&self) -> bool {
        self.matcher.is_empty()
    }

    /// Whether some route has a fixed answer.
    pub fn respond(&self) -> bool {
        self.respond
    }

    /// The files of pages and of fixed answers.
    pub fn files(&self) -> &PageFiles {
        &self.files
    }

    /// Whether some file is held that is sent in place of the server's own pages.
    pub fn have_pages(&self) -> bool {
        !self.files.is_empty()
    }

    /// Whether some service, or a route of what the server has verified, says things to applications that no client may
    /// say.
    pub fn have_own_fields(&self) -> bool {
        !self.own_fields.is_empty()
    }

    /// Whether a field is such a thing, in whatever spelling.
    pub fn is_own_field(&self, name: &[u8]) -> bool {
        self.own_fields.iter().any(|own| spells(name, own))
    }

    /// Whether for some path more than the path decides.
    pub fn depends_on_requests(&self) -> bool {
        self.depends_on_requests
    }

    /// The parts of a request besides its path that decide about `path`.
    pub fn dependence(&self, path: &[u8]) -> Dependence {
        self.matcher.dependence(path)
    }

    /// Whether anything is kept from anybody.
    pub fn keep_out(&self) -> bool {
        self.keeps_out
    }

    /// Whether every path at which a file is has to be judged: access to some of them is restricted, no file is sent at
    /// some or applications run those there, or the server itself uses a file and does not serve it.
    pub fn judge_files(&self) -> bool {
        self.keeps_out || self.withholds || self.run_files() || self.hides_rule_files || !self.own.is_empty()
    }

    /// Whether anybody may read what is at `path`, whatever else routes ask of a request.
    pub fn is_for_anybody(&self, path: &[u8]) -> bool {
        let is_open = |path: &[u8]| self.are_for_anybody(self.matcher.by_path(path));
        // A variant of a file is as much as the file.
        !self.keeps_out || is_open(path) && variant_of(path).is_none_or(is_open)
    }

    /// The same where these routes may apply, the most specific first.
    fn are_for_anybody(&self, ids: Vec<RouteId>) -> bool {
        for id in ids {
            let route = self.matcher.route(id);
            match &route.access.0[Action::Read as usize] {
                Some(Allowed::Only(_)) => return false,
                Some(Allowed::Anyone) if route.conditions.is_empty() => return true,
                Some(Allowed::Anyone) | None => {}
            }
        }
        !matches!(self.access.0[Action::Read as usize], Some(Allowed::Only(_)))
    }

    /// Writes which of the conditions that matter the request fulfils behind `out`: nothing if it fulfils none.
    pub fn push_outcome(&self, dependence: &Dependence, asked: &Asked<'_>, out: &mut Vec<u8>) {
        for id in self.matcher.fulfilled(&dependence.conditional, asked) {
            out.extend(id.to_le_bytes());
        }
        if let Some(origin) = self.matcher.origin(asked).filter(|_| dependence.origin) {
            out.extend((ORIGIN | origin).to_le_bytes());
        }
        let recipe = dependence.recipes.as_ref().zip(asked.request).and_then(|(chain, request)| {
            let lines = |name: &'static str| request.lines_named(name.as_bytes()).collect();
            chain.recipe(asked.query.unwrap_or_default(), &lines)
        });
        if let Some(recipe) = recipe
            && let Ok(length) = u16::try_from(recipe.len())
        {
            out.extend(RECIPE.to_le_bytes());
            out.extend(length.to_le_bytes());
            out.extend(recipe.as_bytes());
            out.extend((length % 2 == 1).then_some(b'&'));
        }
        if let Some(host) = asked.host.filter(|_| dependence.host) {
            out.extend(HOST.to_le_bytes());
            out.extend(host.iter().map(u8::to_ascii_lowercase));
        }
    }

    /// The host that [`Routes::push_outcome`] wrote; empty if none was asked, or does not matter.
    pub fn host_of(outcome: &[u8]) -> &[u8] {
        // A recipe is text: it has no such bytes, and its length is less.
        let at = outcome.chunks_exact(2).position(|pair| *pair == HOST.to_le_bytes());
        at.map_or(&[], |at| &outcome[2 * at + 2..])
    }

    /// The recipe in the query, for a filter, as [`Routes::push_outcome`] wrote it.
    pub fn recipe_of(outcome: &[u8]) -> Option<&str> {
        let marks = [RECIPE.to_le_bytes(), HOST.to_le_bytes()];
        let at = 2 * outcome.chunks_exact(2).position(|pair| marks.iter().any(|mark| pair == mark))?;
        let rest = outcome[at..].strip_prefix(&RECIPE.to_le_bytes())?;
        let (length, rest) = rest.split_first_chunk()?;
        std::str::from_utf8(rest.get(..usize::from(u16::from_le_bytes(*length)))?).ok()
    }

    /// The rules for `path`, which is normalised, if the request fulfils the conditions that [`Routes::push_outcome`]
    /// wrote.
    pub fn effective(&self, path: &[u8], outcome: &[u8]) -> Arc<Effective> {
        if self.is_empty() && outcome.is_empty() || path.is_empty() {
            return self.plain.clone();
        }
        let marks = [RECIPE.to_le_bytes(), HOST.to_le_bytes()];
        let pairs = outcome.chunks_exact(2).take_while(|pair| !marks.iter().any(|mark| pair == mark));
        let outcome: Vec<u16> = pairs.map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        let by_path = self.matcher.by_path(path);
        let asks = |id: &RouteId| !self.matcher.route(*id).conditions.is_empty();
        // Those that were not fulfilled count as well: what they look at decided.
        let (matched, failed): (Vec<u16>, Vec<u16>) =
            by_path.into_iter().partition(|id| !asks(id) || outcome.contains(id));
        let origin = outcome.iter().find(|one| **one & CLEARED == ORIGIN).map(|one| one & !ORIGIN);
        self.of_matched(matched, failed, origin, Clearance::of(&outcome))
    }

    fn of_matched(
        &self,
        matched: Vec<RouteId>,
        failed: Vec<RouteId>,
        origin: Option<u16>,
        clearance: Clearance,
    ) -> Arc<Effective> {
        if matched.is_empty() && failed.is_empty() && clearance.is_empty() {
            return self.plain.clone();
        }
        let key = [&matched[..], &[u16::MAX], &failed, &[origin.map_or(u16::MAX, |origin| origin)]].concat();
        self.of_key(clearance.before(key), || {
            let (rules, vary) = self.rules(&matched, &failed, origin);
            let access = rules.access.clone().or(&self.access);
            (rules, vary, access, (matched.clone(), failed.clone(), origin), clearance.clone())
        })
    }

    /// The rules for a request with the rules `asked` that has come to a script of another path, with the rules `own`:
    /// the routes of both, the most specific first. An answer is private if one of both restricts access. Answers are
    /// not cached where conditions of the script's own routes decide about them: the lookup of the target does not know
    /// these.
    pub fn joined(&self, asked: &Arc<Effective>, own: &Arc<Effective>) -> Arc<Effective> {
        if Arc::ptr_eq(asked, own) || asked.matched == own.matched && asked.failed == own.failed {
            return asked.clone();
        }
        let origin = own.origin.or(asked.origin);
        let bound = &[u16::MAX];
        let parts = [&asked.matched, &bound[..], &asked.failed, bound, &own.matched, bound, &own.failed];
        let key = [&parts.concat()[..], bound, &[origin.unwrap_or(u16::MAX)]].concat();
        self.of_key(key, || {
            let both = |one: &[RouteId], other: &[RouteId]| {
                let mut both = [one, other].concat();
                both.sort_unstable();
                both.dedup();
                both
            };
            let matched = both(&asked.matched, &own.matched);
            let failed = both(&asked.failed, &own.failed);
            let (mut rules, vary) = self.rules(&matched, &failed, origin);
            let mut access = own.access.clone();
            for (own, other) in access.0.iter_mut().zip(&asked.access.0) {
                if !matches!(own, Some(Allowed::Only(_))) && other.is_some() {
                    own.clone_from(other);
                }
            }
            keep_private(&mut rules, &access);
            let is_conditional = |id: &RouteId| !self.matcher.route(*id).conditions.is_empty();
            let depends =
                |own: &[RouteId], asked: &[RouteId]| own.iter().any(|id| is_conditional(id) && !asked.contains(id));
            if depends(&own.matched, &asked.matched) || depends(&own.failed, &asked.failed) {
                rules.answer_cache = None;
            }
            (rules, vary, access, (matched, failed, origin), Clearance::default())
        })
    }

    /// The cached rules for `key`, which has the numbers of routes; `make` makes them if there are none.
    fn of_key(&self, key: Vec<u16>, make: impl FnOnce() -> Outcome) -> Arc<Effective> {
        // Before the services are looked at: if they change meanwhile, this is made again.
        let epoch = self.registry.epoch();
        let lock = || self.made_since(epoch);
        if let Some(made) = lock().by_routes.get(&key) {
            return made.clone();
        }
        let (rules, vary, access, (matched, failed, origin), clearance) = make();
        let mut made = lock();
        if made.by_routes.len() >= KEPT_MAX {
            made.by_routes.clear();
            made.errors.clear();
        }
        made.last_number = made.last_number.wrapping_add(1).max(1);
        let number = made.last_number;
        let error_pages = self.error_pages.clone().with(&rules.error_pages);
        let errors = self.errors(&rules, &error_pages, vary.as_deref(), &mut made);
        let fields = headers::fields(&rules.headers, 200);
        let gateway = rules.gateway.as_ref();
        let gateway =
            gateway.and_then(|settings| self.groups.iter().find(|group| group.settings == *settings).cloned());
        let is_withheld = self.withhold_by(&rules);
        let changes = if is_withheld { Changes::default() } else { rules.changes_over(self.changes) };
        let steps = steps(rules.filters.as_deref(), self.live_reload && gateway.is_none());
        let (filters, unavailable, has_services) = self.filters_of(&steps);
        let mut asked = [&matched[..], &failed].concat();
        asked.sort_unstable();
        let is_for_anybody = self.are_for_anybody(asked);
        let request_fields = RequestFields::new(&rules.request_headers);
        let mut effective = Effective {
            number,
            rules,
            changes,
            is_withheld,
            errors,
            vary,
            gateway,
            request_fields,
            filters,
            unavailable,
            has_services,
            epoch,
            error_pages,
            files: self.files.clone(),
            respond: None,
            fields,
            access,
            is_for_anybody,
            matched,
            failed,
            origin,
            clearance,
        };
        effective.respond = effective.rules.respond.as_ref().map(|respond| {
            // What several routes come to may be too long for a head, though each of them is not.
            let failed = &self.plain.errors.failed;
            let made = |conditional| fixed(respond, &effective, conditional).map_or_else(|_| failed.clone(), Arc::new);
            FixedAnswer { to_reads: made(true), to_others: made(false) }
        });
        let effective = Arc::new(effective);
        if made.epoch == epoch || !effective.has_services {
            made.by_routes.insert(key, effective.clone());
        }
        effective
    }

    fn rules(&self, matched: &[RouteId], failed: &[RouteId], origin: Option<u16>) -> (Rules, Option<String>) {
        let mut rules = merge(matched.iter().map(|id| (usize::from(*id), self.matcher.route(*id))));
        rules.headers.splice(0..0, self.base.iter().cloned());
        headers::settle(&mut rules.headers);
        let access = rules.access.clone().or(&self.access);
        keep_private(&mut rules, &access);
        let mut names: Vec<String> = Vec::new();
        let looked_at = self.matcher.headers_of(matched).chain(self.matcher.headers_of(failed));
        let has_origins = rules.cors.as_ref().is_some_and(|cors| !cors.is_for_any());
        // What cannot be made was refused with the settings.
        let filters = Chain::new(rules.filters.as_deref().unwrap_or_default()).unwrap_or_default();
        let varied: Vec<&str> = filters.varies_by().collect();
        for name in looked_at.chain(has_origins.then_some("Origin")).chain(varied) {
            if !names.iter().any(|other| other.eq_ignore_ascii_case(name)) {
                names.push(name.to_owned());
            }
        }
        if let Some(cors) = &rules.cors {
            let origin = origin.and_then(|origin| self.matcher.origins().get(usize::from(origin)));
            rules.headers.extend(shared_with(cors, origin.map(String::as_str)));
        }
        (rules, (!names.is_empty()).then(|| names.join(", ")))
    }

    fn errors(&self, rules: &Rules, pages: &ErrorPages, vary: Option<&str>, made: &mut Made) -> Arc<Errors> {
        let mut key: Vec<_> = Errors::STATUSES.iter().map(|status| headers::fields(&rules.headers, *status)).collect();
        key.push(vec![(String::new(), vary.unwrap_or_default().to_owned())]);
        key.push(pages.iter().map(|(statuses, page)| (statuses.text(), page.to_owned())).collect());
        if let Some(errors) = made.errors.get(&key) {
            return errors.clone();
        }
        let page = |status| self.files.get(pages.get(status)?).map(|page| &**page);
        let fields = |status| headers::fields(&rules.headers, status);
        let extras = |status| Extras { fields: fields(status).into(), vary, page: page(status) };
        // What several routes come to may be too long for a head, though each of them is not.
        let errors = Errors::new(extras).map_or_else(|_| self.plain.errors.clone(), Arc::new);
        made.errors.insert(key, errors.clone());
        errors
    }

    /// The captures of the route `id` in `path`.
    pub fn captures(&self, id: usize, path: &[u8]) -> Captures {
        self.matcher.captures(id as RouteId, path) // It is from `merge`, which was given one.
    }

    /// The rules for `path`, which is normalised, and a request with these facts.
    pub fn applying(&self, path: &[u8], asked: &Asked<'_>) -> Arc<Effective> {
        self.applying_to(path, Some(asked), &Clearance::default())
    }

    /// The same for a client with this clearance. Without facts, if the routes look at none.
    pub fn applying_to(&self, path: &[u8], asked: Option<&Asked<'_>>, clearance: &Clearance) -> Arc<Effective> {
        let mut outcome = Vec::new();
        clearance.push(&mut outcome);
        if let Some(asked) = asked.filter(|_| self.depends_on_requests) {
            self.push_outcome(&self.dependence(path), asked, &mut outcome);
        }
        self.effective(path, &outcome)
    }
}

/// The path of the file that has this variant beside it, if it is the path of one.
pub fn variant_of(path: &[u8]) -> Option<&[u8]> {
    SIBLINGS.iter().find_map(|(_, suffix)| path.strip_suffix(suffix.as_bytes()))
}

/// Where precompressed variants of a file are: beside it.
pub const SIBLINGS: [(Coding, &str); 3] = [(Coding::Brotli, ".br"), (Coding::Zstd, ".zst"), (Coding::Gzip, ".gz")];

/// Answers with restricted access are private to shared caches, unless a field says otherwise.
fn keep_private(rules: &mut Rules, access: &AccessRules) {
    if !matches!(access.0[Action::Read as usize], Some(Allowed::Only(_))) {
        return;
    }
    rules.immutable = None;
    if !rules.headers.iter().any(|rule| rule.names().any(|name| name.eq_ignore_ascii_case("Cache-Control"))) {
        let private = ("Cache-Control".to_owned(), "private".to_owned());
        rules.headers.push(HeaderRule::of_fields(&[private]));
    }
}

/// The fields of all answers of a site.
fn base(site: &SiteSettings) -> Vec<HeaderRule> {
    let mut fields = site.headers.clone();
    // Pages have to ask for what the requests of their pictures are to say.
    let chains = site.routes.iter().filter_map(|route| Chain::new(route.filters.as_deref()?).ok());
    let mut hints: Vec<&str> = chains.flat_map(|chain| chain.client_hints().collect::<Vec<_>>()).collect();
    hints.sort_unstable();
    hints.dedup();
    let is_said = fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("Accept-CH"));
    if !hints.is_empty() && !is_said {
        fields.push(("Accept-CH".to_owned(), hints.join(", ")));
    }
    let rule = HeaderRule::of_fields(&fields);
    if rule.is_empty() { Vec::new() } else { vec![rule] }
}

impl Effective {
    /// The rule about who may do an action; none if every client may.
    pub fn whom(&self, action: Action) -> Option<&AccessRule> {
        match &self.access.0[action as usize] {
            Some(Allowed::Only(rule)) => Some(rule),
            Some(Allowed::Anyone) | None => None,
        }
    }

    /// Whether a rule says who may do an action.
    pub fn says_whom(&self, action: Action) -> bool {
        self.access.0[action as usize].is_some()
    }

    /// Whether an application, or the program that the server is a part of, answers whatever is asked for.
    pub fn asks_an_application(&self) -> bool {
        self.gateway.as_ref().is_some_and(|group| !self.looks_for_files(group)) || self.rules.handler.is_some()
    }

    /// Whether a file is looked for before `application`, which is of these rules, is asked: one that it runs, or one
    /// that is sent in its place.
    pub fn looks_for_files(&self, application: &Group) -> bool {
        application.settings.scripts.is_some() || self.rules.try_files_first()
    }

    /// Whether one thing answers whatever the method is: an application, or a fixed answer. Whatever is asked of it,
    /// its answer is read.
    pub fn answers_every_method(&self) -> bool {
        self.asks_an_application() || self.respond.is_some()
    }

    /// The access rules, in sentences.
    pub fn access_in_words(&self) -> Vec<String> {
        self.access.sentences()
    }

    /// Whether the file at `path` never changes.
    pub fn is_immutable(&self, path: &[u8]) -> bool {
        match self.rules.immutable {
            Some(Immutable::All) => true,
            Some(Immutable::Hashed) => has_hash(path),
            Some(Immutable::None) | None => false,
        }
    }
}
