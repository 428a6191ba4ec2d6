//! Resources that pages name are likely to be asked for after them, whether they have ever been asked for or not.
//!
//! Owns: [`Pages`], the resources that some pages name: style sheets, scripts, pictures, and preloads. Guarantees: a
//! page is read once for each state of it, and looked up at most once a second; bounded: [`PAGES_MAX`] pages with
//! [`NAMED_MAX`] paths each. Does not read the named resources.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use lamna_policy::hints::Probability;
use lamna_proto::parse::path;
use lamna_proto::resource::Resource;
use lamna_site::cache::Store;
use lamna_site::cache::two_generation_map::Key;
use lamna_site::early_hints::{links_of, resolve};
use lamna_site::hints::{Hints, Likely};

/// Pages that are known at the same time.
const PAGES_MAX: usize = 256;

/// Resources of one page that are read ahead: the first that it names are needed first.
const NAMED_MAX: usize = 32;

/// The least time between two looks at the resources that one page names.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How likely it is to be asked for, as far as nothing is learned: clients may have it, and programs do not want it.
const PROBABILITY: Probability = Probability::per_mille(800);

/// See the module.
#[derive(Default)]
pub(super) struct Pages(Vec<Page>);

struct Page {
    site: u32,
    path: Box<[u8]>,
    /// The state of it that was read.
    read: Weak<Resource>,
    names: Vec<Arc<str>>,
    looked: Instant,
}

impl Pages {
    /// The page at `path` was asked for: what it names and `store` does not hold. `hints` learn what it names when it
    /// is read.
    pub(super) fn look(&mut self, hints: &Hints, store: &Store, site: u32, path: &[u8]) -> Vec<Likely> {
        let now = Instant::now();
        let at = self.0.iter().position(|page| page.site == site && *page.path == *path);
        if at.is_some_and(|at| now.duration_since(self.0[at].looked) < LOOK_INTERVAL) {
            return Vec::new();
        }
        let Some(entry) = store.lookup(Key { site, path }, 0) else { return Vec::new() };
        let at = at.unwrap_or_else(|| self.add(site, path, now));
        let page = &mut self.0[at];
        page.looked = now;
        if page.read.upgrade().is_none_or(|read| !Arc::ptr_eq(&read, &entry.resource)) {
            page.read = Arc::downgrade(&entry.resource);
            page.names = links_of(&entry).map(|links| names(path, links)).unwrap_or_default();
            hints.handle_links(site, path, page.names.iter().map(|name| &**name));
        }
        let is_absent = |name: &&Arc<str>| store.lookup(Key { site, path: name.as_bytes() }, 0).is_none();
        let likely = |name: &Arc<str>| Likely { site, path: name.clone(), probability: PROBABILITY };
        page.names.iter().filter(is_absent).map(likely).collect()
    }

    /// One more page, in the place of the one that was not looked at for longest if there is no room.
    fn add(&mut self, site: u32, path: &[u8], now: Instant) -> usize {
        let page = Page { site, path: path.into(), read: Weak::new(), names: Vec::new(), looked: now };
        let oldest = (0..self.0.len()).min_by_key(|at| self.0[*at].looked).filter(|_| self.0.len() >= PAGES_MAX);
        match oldest {
            Some(at) => {
                self.0[at] = page;
                at
            }
            None => {
                self.0.push(page);
                self.0.len() - 1
            }
        }
    }
}

/// The paths that the page at `path` names, normalised, each once. What has a query may be one client's.
fn names(path: &[u8], links: lamna_filter::subresources::Links) -> Vec<Arc<str>> {
    let page = path::encode(path);
    let base = links.base.map_or_else(|| Some(page.clone()), |base| resolve(&page, &base));
    let Some(base) = base else { return Vec::new() };
    let mut names: Vec<Arc<str>> = Vec::new();
    let urls = links.subresources.into_iter().map(|one| one.url).chain(links.pictures);
    for url in urls.filter_map(|url| resolve(&base, &url)).filter(|url| !url.contains('?')) {
        let mut normal = Vec::new();
        let is_normal = path::normalise(url.as_bytes(), &mut normal).is_ok();
        if let (true, Ok(name)) = (is_normal, str::from_utf8(&normal))
            && names.len() < NAMED_MAX
            && names.iter().all(|known| **known != *name)
        {
            names.push(name.into());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_filter::subresources::links;

    #[test]
    fn a_page_names_what_it_needs_and_shows_of_the_same_site() {
        let page = b"<link rel=stylesheet href=a.css><script src='/a%20b.js'></script><img src=../p.png><img src=../p.png>\
            <img src=//other.example/p.png><img src=/p.png?for=me><img src=late.png loading=lazy><a href=/next.html>next</a>";
        let found: Vec<String> = names(b"/docs/page.html", links(page)).iter().map(|name| name.to_string()).collect();
        assert_eq!(found, ["/docs/a.css", "/a b.js", "/p.png"]);
        let based: Vec<_> = names(b"/", links(b"<base href=/x/><img src=a.png>"));
        assert_eq!(&*based[0], "/x/a.png");
        let many: String = (0..100).map(|at| format!("<img src={at}.png>")).collect();
        assert_eq!(names(b"/", links(many.as_bytes())).len(), NAMED_MAX);
    }

    #[test]
    fn no_more_pages_are_known_than_there_is_room_for() {
        let (mut pages, begun) = (Pages::default(), Instant::now());
        for at in 0..PAGES_MAX + 10 {
            pages.add(0, at.to_string().as_bytes(), begun + Duration::from_millis(at as u64));
        }
        assert_eq!(pages.0.len(), PAGES_MAX);
        assert!(pages.0.iter().all(|page| &*page.path != b"0") && pages.0.iter().any(|page| *page.path == *b"265"));
    }
}
