//! Tests of the maker's findings about pages, with a store that is filled as serving fills it.

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use lamna_config::access::{AccessRules, Allowed};
use lamna_config::cache_switches::CacheSwitches;
use lamna_config::early_hints::{EarlyHintSettings, LinkPrefetchSettings};
use lamna_config::route::RouteSettings;
use lamna_config::route::condition::{Condition, ValueTest};
use lamna_config::route::pattern::Pattern;
use lamna_config::settings::{Settings, SiteSettings};
use lamna_filter::subresources::{CrossOrigin, Destination};
use lamna_io::{KernelFeatures, Wait};
use lamna_proto::exchange::early_hints::LinkField;
use lamna_sys::clock::Clock;
use lamna_sys::shared_memory::SharedMemory;
use tempfile::TempDir;

use super::maker::{Maker, MakerTask, PAGES_MAX};
use super::{EarlyHints, Pages, Part};
use crate::cache::Store;
use crate::cache::two_generation_map::Key;
use crate::content::listing::View;
use crate::content::site::Sites;
use crate::content::translate::{Translation, translate};
use crate::hints::Hints;

/// A site whose pages are hinted for, and a maker that looks when it is told to.
struct Setup {
    sites: Arc<Sites>,
    store: Arc<Store>,
    abilities: KernelFeatures,
    clock: Clock,
    root: TempDir,
    early_hints: Arc<EarlyHints>,
    maker: Maker,
}

const STYLE: Part = Part { destination: Destination::Style, cross_origin: CrossOrigin::None };
const DATA: Part = Part { destination: Destination::Fetch, cross_origin: CrossOrigin::Anonymous };
const PAGE: &str = "<link rel=stylesheet href=main.css><script src=/app.js></script>";
const LINKS: [&str; 2] = ["</main.css>; rel=preload; as=style", "</app.js>; rel=preload; as=script"];

impl Setup {
    fn new(change: impl FnOnce(&mut SiteSettings)) -> Setup {
        let root = tempfile::tempdir().unwrap();
        let mut site = SiteSettings::new(root.path().to_owned());
        site.early_hints = EarlyHintSettings { is_on: true, ..EarlyHintSettings::default() };
        change(&mut site);
        let sites = Arc::new(Sites::open(&Settings { sites: vec![site], ..Settings::default() }).unwrap());
        let store = Arc::new(Store::new(1 << 20, 100));
        let (early_hints, maker) = EarlyHints::new(&sites, &store, &SharedMemory::default()).unwrap();
        Setup { sites, store, abilities: KernelFeatures::default(), clock: Clock::start(), root, early_hints, maker }
    }

    /// Writes a file, and has the store know it.
    fn file(&self, name: &str, content: &str) {
        std::fs::write(self.root.path().join(name), content).unwrap();
        // What has just been written is not kept: it may change again without its times telling.
        sleep(Duration::from_millis(40));
        let path = format!("/{name}");
        let path = path.as_bytes();
        let site = self.sites.at(0);
        let translation = Translation {
            site,
            rules: &site.routes.effective(path, &[]),
            host: &[],
            recipe: None,
            path,
            before_encoded_slash: None,
            view: View::default(),
            wait: Wait::Yes,
            makes_until: None,
            request: "",
            previous: None,
            now_ms: self.clock.now().ms(),
            abilities: &self.abilities,
            holder: None,
            store: Some(&self.store),
            content_bytes_max: self.store.content_bytes_max(),
            caches: CacheSwitches::default(),
        };
        let entry = translate(&translation).expect("it may wait");
        self.store.insert(Key { site: 0, path }, entry);
    }

    fn ask(&mut self, path: &str) {
        self.maker.look(vec![MakerTask::Page { site: 0, path: path.as_bytes().into(), key: path.as_bytes().into() }]);
    }

    fn find(&mut self, path: &str, url: &str, part: Part) {
        let page = self.early_hints.number(0, path.as_bytes());
        self.maker.look(vec![MakerTask::Found { page, url: url.as_bytes().into(), part, network: 1 }]);
    }

    /// Nine views have asked for all that a page is known to need, from so many networks.
    fn view(&mut self, path: &str, networks: u32) {
        let pages = self.pages();
        let page = &pages[&self.early_hints.number(0, path.as_bytes())];
        page.candidates.iter().for_each(|one| (0..9).for_each(|view| one.tally.count_asked(1 + view % networks)));
        page.handle_news();
        self.maker.look(Vec::new());
    }

    fn pages(&self) -> Arc<Pages> {
        let mut seen = u64::MAX;
        self.early_hints.changed_pages(&mut seen).unwrap()
    }

    /// The links that are hinted for a page.
    fn links(&self, path: &str) -> Vec<String> {
        let pages = self.pages();
        let page = &pages[&self.early_hints.number(0, path.as_bytes())];
        page.links(page.choose(None).0).map(LinkField::value).map(str::to_owned).collect()
    }
}

#[test]
fn a_page_is_hinted_what_its_html_says_as_long_as_it_says_so() {
    let mut setup = Setup::new(|_| {});
    setup.file("page.html", PAGE);
    setup.ask("/page.html");
    assert_eq!(setup.links("/page.html"), LINKS);
    let told = setup.early_hints.report(0, b"/page.html");
    let known = "hinted, 100.0 %, 16384 bytes; given 0 times, used 0; 0 views without it";
    assert_eq!(told, LINKS.map(|link| format!("{link}: {known}")));
    setup.file("page.html", "<script src=/app.js></script><link rel=stylesheet href=/other.css>");
    setup.pages()[&setup.early_hints.number(0, b"/page.html")].handle_news();
    setup.maker.look(Vec::new());
    assert_eq!(setup.links("/page.html"), [LINKS[1], "</other.css>; rel=preload; as=style"]);
}

#[test]
fn what_views_find_is_hinted_from_the_third_on() {
    let mut setup = Setup::new(|_| {});
    setup.file("page.html", PAGE);
    setup.file("late.css", "p{}");
    setup.ask("/page.html");
    setup.find("/page.html", "/late.css", STYLE);
    assert_eq!(setup.links("/page.html"), LINKS);
    // As two more views count it, of which the first began before the page was made anew.
    let pages = setup.pages();
    let page = &pages[&setup.early_hints.number(0, b"/page.html")];
    let late = page.place_of(setup.early_hints.number(0, b"/late.css")).unwrap();
    for network in [2, 3] {
        assert_eq!(setup.links("/page.html"), LINKS);
        page.candidates[late].tally.count_asked(network);
        page.handle_news();
        setup.maker.look(Vec::new());
    }
    assert_eq!(setup.links("/page.html")[2..], ["</late.css>; rel=preload; as=style"]);
}

#[test]
fn what_may_be_one_clients_is_not_hinted_however_often_it_is_found() {
    let mut setup = Setup::new(|_| {});
    setup.file("page.html", "<p>");
    setup.file("data.json", "{}");
    setup.ask("/page.html");
    for (url, part) in [("/late.css?user=1", STYLE), ("/api/me", DATA), ("/data.json", DATA)] {
        setup.find("/page.html", url, part);
    }
    setup.view("/page.html", 3);
    assert_eq!(setup.links("/page.html"), ["</data.json>; rel=preload; as=fetch; crossorigin"]);
}

#[test]
fn one_client_decides_nothing_of_what_others_are_told() {
    let mut setup = Setup::new(|_| {});
    for (name, content) in [("page.html", "<p>"), ("late.css", "p{}"), ("secret.txt", "x"), ("a.js", "1")] {
        setup.file(name, content);
    }
    setup.ask("/page.html");
    // An application's, one that is not there, one of another type than it is asked for as, and two files.
    let wanted =
        [("/app/logout", STYLE), ("/none.css", STYLE), ("/secret.txt", STYLE), ("/a.js", STYLE), ("/late.css", STYLE)];
    wanted.iter().for_each(|(url, part)| setup.find("/page.html", url, *part));
    for networks in [1, 2] {
        (0..5).for_each(|_| setup.view("/page.html", networks));
        assert_eq!(setup.links("/page.html"), [""; 0], "{networks} networks");
    }
    setup.view("/page.html", 3);
    assert_eq!(setup.links("/page.html"), ["</late.css>; rel=preload; as=style"]);
}

#[test]
fn nothing_beneath_a_rule_of_access_is_told_whoever_names_it() {
    let rule = |path: &str, conditions| RouteSettings {
        paths: Pattern::from_glob(path).unwrap(),
        conditions,
        access: AccessRules([Some(Allowed::Only(Arc::default())), None, None, None]),
        ..RouteSettings::default()
    };
    let asks = vec![Condition::Header("X-Out".into(), ValueTest::Present)];
    let mut setup = Setup::new(|site| site.routes = vec![rule("/kept.css", Vec::new()), rule("/asks.css", asks)]);
    let mut settings = Settings { sites: vec![SiteSettings::new(setup.root.path().to_owned())], ..Settings::default() };
    settings.hints.is_on = true;
    // As from a file that was saved before there were rules.
    let learned = Hints::begin(&settings, false, SharedMemory::default(), None).unwrap();
    setup.early_hints.attach(Some(&learned));
    learned.handle_links(0, b"/page.html", ["/kept.css", "/asks.css"].into_iter());
    for name in ["kept.css", "asks.css"] {
        setup.file(name, "p{}");
    }
    setup.file("page.html", "<link rel=stylesheet href=kept.css><link rel=stylesheet href=asks.css>");
    setup.file("other.html", "<p>");
    learned.handle_links(0, b"/other.html", ["/kept.css", "/asks.css"].into_iter());
    for page in ["/page.html", "/other.html"] {
        setup.ask(page);
        ["/kept.css", "/asks.css"].iter().for_each(|url| setup.find(page, url, STYLE));
        setup.view(page, 3);
        assert_eq!(setup.links(page), [""; 0], "{page}");
    }
}

#[test]
fn what_clients_may_not_keep_is_not_hinted() {
    let mut setup = Setup::new(|site| site.headers = vec![("Cache-Control".into(), "no-store".into())]);
    for name in ["main.css", "app.js"] {
        setup.file(name, "x");
    }
    setup.file("page.html", PAGE);
    setup.ask("/page.html");
    assert_eq!(setup.links("/page.html"), [""; 0]);
}

#[test]
fn a_route_says_for_which_pages_there_are_hints() {
    let off = RouteSettings {
        paths: Pattern::from_glob("/off.html").unwrap(),
        early_hints: Some(false),
        ..RouteSettings::default()
    };
    let mut setup = Setup::new(|site| site.routes = vec![off]);
    for name in ["on.html", "off.html"] {
        setup.file(name, PAGE);
        setup.ask(&format!("/{name}"));
    }
    assert_eq!((setup.links("/on.html"), setup.links("/off.html")), (LINKS.map(str::to_owned).to_vec(), vec![]));
}

#[test]
fn what_was_learned_of_what_a_page_needs_is_hinted_with_it() {
    let mut setup = Setup::new(|_| {});
    let mut settings = Settings { sites: vec![SiteSettings::new(setup.root.path().to_owned())], ..Settings::default() };
    settings.hints.is_on = true;
    let learned = Hints::begin(&settings, false, SharedMemory::default(), None).unwrap();
    setup.early_hints.attach(Some(&learned));
    learned.handle_links(0, b"/main.css", ["/base.css", "/picture.png"].into_iter());
    learned.handle_links(0, b"/base.css", ["/own.woff2"].into_iter());
    setup.file("base.css", "p{}");
    setup.file("own.woff2", "x");
    setup.file("page.html", PAGE);
    setup.ask("/page.html");
    assert_eq!(setup.links("/page.html"), LINKS, "nobody has asked for it");
    setup.view("/page.html", 3);
    let links = setup.links("/page.html");
    assert!(
        links.contains(&"</own.woff2>; rel=preload; as=font; crossorigin; type=\"font/woff2\"".to_owned()),
        "{links:?}"
    );
    assert!(links.contains(&"</base.css>; rel=preload; as=style".to_owned()) && links.len() == 4, "{links:?}");
}

#[test]
fn so_many_pages_are_known_and_no_more() {
    let mut setup = Setup::new(|_| {});
    let task = |number: usize| {
        let path: Box<[u8]> = format!("/{number}").into_bytes().into();
        MakerTask::Page { site: 0, key: path.clone(), path }
    };
    setup.maker.look((0..PAGES_MAX + 100).map(task).collect());
    assert_eq!(setup.pages().len(), PAGES_MAX);
}

/// A site whose pages may be fetched ahead, and that hints nothing else.
fn ahead(change: impl FnOnce(&mut SiteSettings)) -> Setup {
    Setup::new(|site| {
        site.early_hints.is_on = false;
        site.link_prefetch = LinkPrefetchSettings { is_on: true, ..LinkPrefetchSettings::default() };
        change(site);
    })
}

impl Setup {
    /// Ten views of a page were followed by one of the page at `next`.
    fn follow(&mut self, path: &str, next: &str) {
        self.ask(path);
        let number = self.early_hints.number(0, path.as_bytes());
        let (next_number, site) =
            (self.early_hints.number(0, next.as_bytes()), self.early_hints.site(0).cloned().unwrap());
        self.maker.look(vec![MakerTask::Next { page: number, path: next.as_bytes().into(), network: 1 }]);
        for view in 0..9 {
            let page = self.pages()[&number].clone();
            let link_prefetch = site.link_prefetch.as_ref().unwrap();
            page.next().handle_unseen_view(true, link_prefetch);
            page.next().handle_asked((next_number, 1 + view % 3), true, link_prefetch, site.link_counters());
        }
        self.look_again(path);
    }

    fn look_again(&mut self, path: &str) {
        self.pages()[&self.early_hints.number(0, path.as_bytes())].handle_news();
        self.maker.look(Vec::new());
    }

    /// The link that clients are to fetch ahead on a page.
    fn next_link(&self, path: &str) -> Option<String> {
        let pages = self.pages();
        let next = pages[&self.early_hints.number(0, path.as_bytes())].next().hinted()?;
        Some(next.link().value().to_owned())
    }
}

const NEXT: &str = "</next.html>; rel=prefetch";

#[test]
fn the_page_that_follows_is_hinted_as_long_as_the_cache_holds_it() {
    let mut setup = ahead(|_| {});
    setup.file("page.html", PAGE);
    setup.follow("/page.html", "/next.html");
    assert_eq!(setup.next_link("/page.html"), None, "nobody knows whether it is a page");
    setup.file("next.html", "<p>next");
    setup.look_again("/page.html");
    assert_eq!(setup.next_link("/page.html").as_deref(), Some(NEXT));
    assert_eq!(setup.links("/page.html"), [""; 0], "what it needs is not");
    let told = setup.early_hints.report(0, b"/page.html");
    assert_eq!(told, [format!("{NEXT}: hinted, 90.9 %, 7 bytes; given 0 times; 10 views without it")]);
}

#[test]
fn what_is_no_page_or_cannot_be_used_without_asking_again_is_not_fetched_ahead() {
    for (name, control) in [
        ("next.txt", "max-age=60"),
        ("next.html", "no-store"),
        ("next.html", "private, No-Cache"),
        ("next.html", "max-age=0"),
    ] {
        let mut setup = ahead(|site| site.headers = vec![("Cache-Control".into(), control.into())]);
        setup.file("page.html", PAGE);
        setup.file(name, "next");
        setup.follow("/page.html", &format!("/{name}"));
        assert_eq!(setup.next_link("/page.html"), None, "{name} {control}");
    }
}

#[test]
fn a_route_says_which_pages_may_be_fetched_ahead() {
    let route = |paths: &str, link_prefetch| RouteSettings {
        paths: Pattern::from_glob(paths).unwrap(),
        link_prefetch: Some(link_prefetch),
        ..RouteSettings::default()
    };
    for (is_on, routes, is_hinted) in [
        (true, vec![route("/next.html", false)], false),
        (true, vec![route("/page.html", false)], true),
        (false, vec![route("/next.html", true)], true),
        (false, vec![route("/page.html", true)], false),
    ] {
        let mut setup = ahead(|site| (site.link_prefetch.is_on, site.routes) = (is_on, routes.clone()));
        setup.file("page.html", PAGE);
        setup.file("next.html", "next");
        setup.follow("/page.html", "/next.html");
        assert_eq!(setup.next_link("/page.html").is_some(), is_hinted, "{is_on} {routes:?}");
    }
}
