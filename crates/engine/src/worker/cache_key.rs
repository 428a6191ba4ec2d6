//! Keys by which caches find a target: its site, its path, and the other parts of the request that decide about the
//! answer.
//!
//! Owns: [`CacheKeys`] of a worker and the layout of keys ([`CacheKeyParts`]). Guarantees: a target that is spelled as
//! usual is looked up as it was received; no lookup allocates once the buffers have grown.

use std::net::IpAddr;
use std::sync::Arc;

use lamna_config::route::condition::Asked;
use lamna_config::route::matcher::Dependence;
use lamna_proto::exchange::RequestedResource;
use lamna_proto::parse::path;
use lamna_site::cache::two_generation_map::{Generations, Key};
use lamna_site::content::listing::{Order, View};
use lamna_site::content::route::{Clearance, Effective};
use lamna_site::content::site::Site;

/// The parts of the key by which caches find a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheKeyParts<'k> {
    /// The path, normalised; empty if it cannot be.
    pub path: &'k [u8],
    /// The bytes of it that come before an encoded slash; none if it has none.
    pub before_encoded_slash: Option<usize>,
    /// The form of a listing.
    pub view: View,
    /// The outcome of the conditions of its routes for the request: see
    /// [`Routes::push_outcome`](lamna_site::content::route::Routes).
    pub outcome: &'k [u8],
}

impl<'k> CacheKeyParts<'k> {
    /// Those of a key. No path has a zero byte.
    pub fn of(key: &'k [u8]) -> CacheKeyParts<'k> {
        let end = memchr::memchr(0, key).unwrap_or(key.len());
        let (path, rest) = (&key[..end], key.get(end + 1..).unwrap_or_default());
        let (before_encoded_slash, view, outcome) = match rest {
            [ENCODED_SLASH, low, high, outcome @ ..] => {
                (Some(usize::from(u16::from_le_bytes([*low, *high]))), View::default(), outcome)
            }
            [number, outcome @ ..] => (None, View::of_number(*number), outcome),
            [] => (None, View::default(), &b""[..]),
        };
        CacheKeyParts { path, before_encoded_slash, view, outcome }
    }
}

/// Stands where other keys have the number of a view, of which there are few: the path has an encoded slash. How much
/// of it comes before that follows.
const ENCODED_SLASH: u8 = 0xfe;

/// The key by which caches find a target, the same for every spelling: so everything is looked for, read, compressed
/// and kept once. The path is normalised; if it cannot be it is empty, as all such targets are answered alike. More
/// follows for a listing that is not the default one, for a path with an encoded slash, and where more of the request
/// than its path decides about its routes. It is a zero byte, the number of the form of the listing or the place of
/// that slash, and the outcome of the conditions. Other queries change nothing. A path with an encoded slash is that of
/// no file: only where an application may answer it is it told from others that cannot be normalised.
#[derive(Debug)]
pub struct CacheKey<'t> {
    site: u32,
    name: Name<'t>,
}

#[derive(Debug)]
enum Name<'t> {
    /// As received.
    Given(&'t [u8]),
    /// Made here, in a buffer of the context.
    Made(Vec<u8>),
}

impl CacheKey<'_> {
    /// As caches have it.
    pub fn key(&self) -> Key<'_> {
        let path = match &self.name {
            Name::Given(path) => path,
            Name::Made(path) => &**path,
        };
        Key { site: self.site, path }
    }
}

/// Makes the cache keys of a worker. Has buffers, and remembers the effective rules of targets.
#[derive(Debug)]
pub struct CacheKeys {
    /// Room for the names of targets that are not spelled as caches find them.
    names: Vec<u8>,
    /// The dependence of paths on more of the request, for sites whose routes look at more than the path.
    dependences: Generations<Arc<Dependence>>,
    /// The effective rules of targets of sites that have gateways, by the keys by which caches would find the targets.
    rules: Generations<Arc<Effective>>,
}

/// Bytes that each of the two memories about paths may take, besides the caches.
const DEPENDENCES_BYTES_MAX: u64 = 1 << 20;

impl Default for CacheKeys {
    fn default() -> CacheKeys {
        CacheKeys {
            names: Vec::new(),
            dependences: Generations::new(DEPENDENCES_BYTES_MAX),
            rules: Generations::new(DEPENDENCES_BYTES_MAX),
        }
    }
}

impl CacheKeys {
    /// The key by which caches find the target. A target that is spelled as usual is taken as it is. `client` is asked
    /// for where a route goes by it, and what is found may go by its `clearance`.
    pub fn cache_key<'t>(
        &mut self,
        site: &Site,
        requested: &RequestedResource<'t>,
        client: impl FnOnce() -> Option<IpAddr>,
        clearance: &Clearance,
    ) -> CacheKey<'t> {
        let view = |path: &[u8]| match site.settings.browse && path.ends_with(b"/") {
            true => view_of(requested),
            false => View::default(),
        };
        let path = requested.path;
        let depends = site.routes.depends_on_requests();
        if !depends && path::is_normal(path) && view(path) == View::default() && clearance.is_empty() {
            return CacheKey { site: site.index, name: Name::Given(path) };
        }
        let mut name = std::mem::take(&mut self.names);
        let mut before = None;
        match path::is_normal(path) {
            true => {
                name.clear();
                name.extend_from_slice(path);
            }
            // What cannot be normalised leaves nothing.
            false if site.routes.groups().is_empty() => _ = path::normalise(path, &mut name),
            false => before = path::normalise_for_rules(path, &mut name).ok().flatten(),
        }
        let (path_length, view) = (name.len(), view(&name));
        if let Some(before) = before {
            // A target is not as long as that.
            let before = u16::try_from(before).unwrap_or(0).to_le_bytes();
            name.extend([0, ENCODED_SLASH]);
            name.extend(before);
        } else if view != View::default() || !clearance.is_empty() {
            name.extend([0, view.number()]);
            clearance.push(&mut name);
        }
        if depends {
            self.push_outcome(site, requested, client(), path_length, &mut name);
        }
        CacheKey { site: site.index, name: Name::Made(name) }
    }

    /// The effective rules of a target of a site that has gateways: where nothing is cached, nothing else remembers
    /// them.
    pub fn rules(
        &mut self,
        site: &Site,
        requested: &RequestedResource<'_>,
        client: impl FnOnce() -> Option<IpAddr>,
    ) -> Arc<Effective> {
        let cache_key = self.cache_key(site, requested, client, &Clearance::default());
        let key = cache_key.key();
        let routes = &site.routes;
        let known = self.rules.lookup(key).filter(|known| routes.is_current(known)).map(|known| known.clone());
        let rules = known.unwrap_or_else(|| {
            let parts = CacheKeyParts::of(key.path);
            let made = routes.effective(parts.path, parts.outcome);
            self.rules.insert(key, made.clone(), size_of::<Arc<Effective>>() as u64);
            made
        });
        self.take_back(cache_key);
        rules
    }

    /// Writes behind `name`, which begins with the path, what of the request decides about its routes besides the path.
    /// Only the conditions of routes are asked whose paths match: which these are is found out once for each path.
    fn push_outcome(
        &mut self,
        site: &Site,
        requested: &RequestedResource<'_>,
        client: Option<IpAddr>,
        path_length: usize,
        name: &mut Vec<u8>,
    ) {
        let key = Key { site: site.index, path: &name[..path_length] };
        let known = self.dependences.lookup(key).map(|known| known.clone());
        let dependence = known.unwrap_or_else(|| {
            let found = Arc::new(site.routes.dependence(key.path));
            let bytes = size_of::<Dependence>() + size_of_val(&*found.conditional);
            self.dependences.insert(key, found.clone(), bytes as u64);
            found
        });
        if dependence.is_of_path() {
            return;
        }
        let RequestedResource { host, query, request, .. } = *requested;
        let asked = Asked { host, query, method: None, request, client };
        let end = name.len();
        if end == path_length {
            name.extend([0, View::default().number()]);
        }
        let before = name.len();
        site.routes.push_outcome(&dependence, &asked, name);
        if name.len() == before {
            name.truncate(end);
        }
    }

    /// Keeps the buffer of a name for the next.
    pub fn take_back(&mut self, cache_key: CacheKey<'_>) {
        if let Name::Made(name) = cache_key.name {
            self.names = name;
        }
    }
}

/// The form of a listing that the request asks for.
fn view_of(requested: &RequestedResource<'_>) -> View {
    let order = requested.query.map_or_else(Order::default, |query| Order::from_query(&String::from_utf8_lossy(query)));
    View { order, is_json: requested.prefers_json() }
}
