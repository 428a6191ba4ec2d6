//! Searching the pages of a folder (`search`): `GET /docs/?q=(performance AND (NOT symphonic))`.
//!
//! ```text
//!   request ── begin ──> Search: folder by folder, 64 files or 20 ms a step ──> page or JSON with what was found
//!                          └─ text of a file: kept with its state, read again when that has changed ── Texts
//! ```
//!
//! Owns: which pages are looked at, the bounds of one search, the texts that are kept, and the result. Guarantees:
//! nothing is found that the same client would not get by asking for it ([`Tree`]); memory, time, files and bytes are
//! bounded, and a result says so when it is not all. What a query means is `lamna_filter::search`'s. Steps read from
//! the disk, so they are carried out where the engine may wait.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use lamna_config::compression::Compression;
use lamna_config::route::Rules;
use lamna_config::route::condition::decoded;
use lamna_filter::search::{QUERY_BYTES_MAX, Query, Text};
use lamna_io::file_state::{self, Stamps};
use lamna_io::{Wait, open};
use lamna_proto::exchange::program::{Holds, Input, Next, Program, StepResult};
use lamna_proto::parse::path;
use lamna_proto::resource::Resource;

use super::answers::{self, Extras};
use super::at_once::ClientNetwork;
use super::escape::push_html;
use super::listing::{Kind, plural, push_breadcrumb, push_formatted};
use super::media_type;
use super::responder::{Client, Incoming};
use super::texts::{Texts, Turn};
use super::tree::Tree;
use super::walk::{self, Entry, Level};
use crate::cache::two_generation_map::Key;

/// Files that one search looks at, bytes that it reads, and how long it takes at most.
const FILES_MAX: usize = 20_000;
const READ_BYTES_MAX: u64 = 128 << 20;
const TIME_MAX_MS: u64 = 5_000;
/// The largest file whose text is searched.
const FILE_BYTES_MAX: u64 = 2 << 20;
/// Folders within each other.
const DEPTH_MAX: usize = 32;
/// Entries and milliseconds of one step.
const STEP_ENTRIES: usize = 64;
const STEP_MS: u64 = 20;
/// Results that are shown, and pages that may match.
const SHOWN_MAX: usize = 50;
const FOUND_MAX: usize = 2_000;
/// Approximate bytes of one hit: its path, title and excerpt.
const FOUND_BYTES: usize = 512;

/// The program that answers a request for a search; none if it is not one, or folders are not searched here.
pub(super) fn begin(&Incoming { site, requested, resources, client }: &Incoming<'_>) -> Option<Box<dyn Program>> {
    let (query, texts) = (requested.query?, site.texts.as_ref()?);
    let request = requested.request.filter(|request| request.head.method.reads())?;
    let (query, wants_json) = asked(query)?;
    let mut path = Vec::new();
    path::normalise(requested.path, &mut path).ok()?;
    let is_of_user = site.in_user_directory(&path).is_some();
    if is_of_user || !path.ends_with(b"/") {
        return None;
    }
    let Client { address, network, clearance } = client();
    let tree = Tree::of(site, &path, (requested, request, address), clearance, resources);
    let is_on = tree.entered().rules.search == Some(true) && tree.shows(&path, leads_to_pages);
    let is_json = wants_json || requested.prefers_json();
    let state = State { texts: texts.clone(), turn: None, walk: None, begun_ms: 0, read_bytes: 0, sum: Sum::default() };
    is_on.then(|| Box::new(Search { tree, path, query, is_json, network, state }) as Box<dyn Program>)
}

/// The search in a query, if it is one: its text, and whether the answer is to be JSON.
fn asked(query: &[u8]) -> Option<(String, bool)> {
    let parts = || query.split(|byte| *byte == b'&');
    let sought = parts().find_map(|part| part.strip_prefix(b"q="))?;
    let sought = String::from_utf8_lossy(&decoded(sought)).into_owned();
    Some((sought, parts().any(|part| part == b"format=json")))
}

/// Whether rules answer with what is in files. A filter that shows what is there in another form does; one that takes
/// words out of it does not.
fn leads_to_pages(rules: &Rules) -> bool {
    let is_itself =
        rules.try_files.as_ref().is_none_or(|(tried, _)| tried.first().is_none_or(|first| first.text() == "$path"));
    let is_shown = rules.filters.as_ref().is_none_or(|steps| lamna_filter::keep_words(steps, None));
    !rules.replace_files() && is_itself && is_shown
}

/// Searches a folder.
#[derive(Debug)]
struct Search {
    tree: Tree,
    /// The requested path, which ends with a slash.
    path: Vec<u8>,
    query: String,
    is_json: bool,
    /// The client network that it counts for.
    network: Option<ClientNetwork>,
    state: State,
}

/// How far a search has come.
#[derive(Debug)]
struct State {
    texts: Arc<Texts>,
    turn: Option<Turn>,
    walk: Option<Walk>,
    begun_ms: u64,
    read_bytes: u64,
    sum: Sum,
}

/// The results so far.
#[derive(Debug, Default)]
struct Sum {
    found: Vec<Found>,
    /// Pages that were looked at.
    pages: usize,
    /// A bound was met, so there may be more.
    is_cut: bool,
}

#[derive(Debug)]
struct Found {
    /// How often.
    count: usize,
    path: Vec<u8>,
    title: String,
    excerpt: String,
}

/// On the way through a folder: the folders on the way, the innermost last.
#[derive(Debug)]
struct Walk {
    root: Arc<OwnedFd>,
    levels: Vec<Level>,
}

impl Program for Search {
    fn content_bytes_max(&self) -> u64 {
        0
    }

    fn begins_with(&self) -> Next {
        Next::ROOM
    }

    fn holds(&self) -> Holds {
        let State { walk, sum, .. } = &self.state;
        let walk = walk.iter().flat_map(|walk| &walk.levels).map(Level::memory_bytes).sum::<usize>();
        Holds { bytes: walk + sum.found.capacity() * FOUND_BYTES, descriptors: 1 }
    }

    fn run(&mut self, input: Input<'_>) -> StepResult {
        if !input.room {
            return StepResult::Waits(Next::ROOM);
        }
        let answered = self.step();
        match answered {
            Ok(None) => StepResult::Waits(Next::ROOM),
            Ok(Some(answer)) | Err(answer) => StepResult::Answer(answer),
        }
    }
}

impl Search {
    /// Goes on for a while. The answer, once it is known; as an error if something is in its way.
    fn step(&mut self) -> Result<Option<Arc<Resource>>, Arc<Resource>> {
        if self.query.trim().is_empty() {
            return Ok(Some(self.answer(None)));
        }
        let query = match Query::parse(&self.query) {
            Ok(query) => query,
            Err(why) => {
                let extras = self.tree.entered().extras(400);
                let page = answers::error(400, &format!("This cannot be searched for: {why}."), &extras);
                let failed = self.tree.entered().errors.failed.clone();
                return Err(page.map_or(failed, Arc::new));
            }
        };
        if self.state.walk.is_none() {
            self.begin()?;
        }
        let step_until_ms = self.tree.clock.now().ms() + STEP_MS;
        for _ in 0..STEP_ENTRIES {
            let now_ms = self.tree.clock.now().ms();
            if now_ms >= step_until_ms {
                break;
            }
            let State { begun_ms, read_bytes, sum, .. } = &mut self.state;
            sum.is_cut |= now_ms > *begun_ms + TIME_MAX_MS
                || *read_bytes > READ_BYTES_MAX
                || sum.pages >= FILES_MAX
                || sum.found.len() >= FOUND_MAX;
            if sum.is_cut || !self.next(&query) {
                let order = |found: &Found| (std::cmp::Reverse(found.count), found.path.clone());
                self.state.sum.found.sort_by_cached_key(order);
                return Ok(Some(self.answer(Some(&query))));
            }
        }
        Ok(None)
    }

    /// Opens the folder; or what is answered if that cannot be.
    fn begin(&mut self) -> Result<(), Arc<Resource>> {
        let overloaded = &self.tree.entered().errors.overloaded;
        let turn = Turn::take(&self.state.texts, self.network).ok_or_else(|| overloaded.clone())?;
        let begun_ms = self.tree.clock.now().ms();
        let (root, level) = walk::begin(&self.tree, &self.path)?;
        (self.state.turn, self.state.begun_ms) = (Some(turn), begun_ms);
        self.state.walk = Some(Walk { root, levels: vec![level] });
        Ok(())
    }

    /// Looks at the next entry. False if there is none left.
    fn next(&mut self, query: &Query) -> bool {
        let Some(walk) = &mut self.state.walk else { return false };
        let Some(level) = walk.levels.last_mut() else { return false };
        let Some(Entry { path, name, kind, .. }) = level.next() else {
            walk.levels.pop();
            return true;
        };
        if self.tree.is_elsewhere(&level.path, &path) || !self.tree.shows(&path, leads_to_pages) {
            return true;
        }
        let is_folder = kind == Kind::Directory;
        if is_folder && walk.levels.len() < DEPTH_MAX {
            // One that cannot be read has nothing that is shown.
            walk.levels.extend(Level::open(&self.tree, &walk.root, path, name).ok().flatten());
        } else if is_folder {
            self.state.sum.is_cut = true;
        } else {
            let root = walk.root.clone();
            if let Some(text) = self.text_of(&root, &path, &name) {
                self.state.sum.pages += 1;
                if let Some(count) = query.matches(&text) {
                    let (title, excerpt) = (text.title().to_owned(), query.excerpt(&text));
                    self.state.sum.found.push(Found { count, path, title, excerpt });
                }
            }
        }
        true
    }

    /// The text of a file, if it is a page.
    fn text_of(&mut self, root: &OwnedFd, path: &[u8], name: &[u8]) -> Option<Arc<Text>> {
        let media_type = media_type::by_name(name).essence;
        if !media_type.starts_with("text/") && !media_type.starts_with("application/xhtml") {
            return None;
        }
        let file = open::open_beneath(root.as_fd(), name, Wait::Yes, &self.tree.abilities).ok()?;
        let (kind, stamp) = file_state::inspect(file.as_fd()).ok()?;
        if kind != file_state::Kind::Regular {
            return None;
        }
        self.tree.permit(path, &file)?;
        let key = Key { site: self.tree.site().index, path };
        if let Some(text) = self.state.texts.kept.lookup(key, &stamp) {
            return Some(text);
        }
        if stamp.size > FILE_BYTES_MAX {
            return None;
        }
        // It is no more than the bound.
        let mut content = vec![0; stamp.size as usize];
        let is_whole = file_state::read_whole(&file, &stamp, &mut content, Wait::Yes, &self.tree.abilities).ok()?;
        self.state.read_bytes += stamp.size;
        // What says itself what of it is shown is not searched, and is not kept: other rules may show all of it.
        let filters = &self.tree.rules_of(path).rules.filters;
        if filters.as_ref().is_some_and(|steps| !lamna_filter::keep_words(steps, Some(&content))) {
            return None;
        }
        let has_choices = lamna_filter::has_choices(&content);
        let text = Arc::new(Text::of(media_type, &content)?);
        // One that has just changed may change again without a trace.
        if is_whole && !has_choices && Stamps::new(vec![stamp]).settled {
            self.state.texts.kept.keep(key, stamp, &text, text.bytes());
        }
        Some(text)
    }

    /// The results in the requested form; without a query the search form alone.
    fn answer(&self, query: Option<&Query>) -> Arc<Resource> {
        let entered = self.tree.entered();
        let Sum { found, pages, is_cut } = &self.state.sum;
        let shown = &found[..found.len().min(SHOWN_MAX)];
        let folder = &String::from_utf8_lossy(&self.path);
        let page = Page {
            folder,
            query: &self.query,
            understood: query,
            shown,
            found: found.len(),
            pages: *pages,
            is_cut: *is_cut,
        };
        let content = if self.is_json { page.json() } else { page.html() };
        let mut extras = entered.extras_for_one(200);
        if !extras.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("cache-control")) {
            extras.fields.to_mut().push(("Cache-Control".to_owned(), "no-cache".to_owned()));
        }
        let compression: &Compression = &self.tree.site().compression;
        let made = answers::listing(&content, self.is_json, compression, &Extras { ..extras });
        made.map_or_else(|_| entered.errors.failed.clone(), Arc::new)
    }
}

/// The parts of a result page.
struct Page<'a> {
    /// The path of the folder.
    folder: &'a str,
    query: &'a str,
    understood: Option<&'a Query>,
    shown: &'a [Found],
    found: usize,
    pages: usize,
    is_cut: bool,
}

impl Page<'_> {
    fn json(&self) -> Vec<u8> {
        let results: Vec<_> = self.shown.iter().map(Found::json).collect();
        let page = serde_json::json!({
            "query": self.query,
            "understood": self.understood.map(ToString::to_string),
            "results": results,
            "found": self.found,
            "pages": self.pages,
            "complete": !self.is_cut,
        });
        page.to_string().into_bytes()
    }

    fn html(&self) -> Vec<u8> {
        let mut page =
            String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Search");
        if !self.query.is_empty() {
            page.push_str(": ");
            push_html(&mut page, self.query);
        }
        page.push_str(HEAD_AFTER_TITLE);
        push_breadcrumb(&mut page, self.folder, false);
        push_formatted(
            &mut page,
            format_args!(
                "<form role=\"search\"><input type=\"search\" name=\"q\" aria-label=\"Search this folder\" maxlength=\"{QUERY_BYTES_MAX}\" value=\""
            ),
        );
        push_html(&mut page, self.query);
        page.push_str("\"> <button>Search</button></form>\n</header>\n<main>\n");
        match self.understood {
            Some(_) => {
                let (found, pages) = (self.found, self.pages);
                let (found_word, pages_word) = (plural(found, "result"), plural(pages, "page"));
                let more = if found > self.shown.len() { ", of which the best are shown" } else { "" };
                let cut =
                    if self.is_cut { " Not all pages were searched: ask for something more special." } else { "" };
                push_formatted(
                    &mut page,
                    format_args!(
                        "<p role=\"status\">{found} {found_word} in {pages} {pages_word}{more}.{cut}</p>\n<ol>\n"
                    ),
                );
                self.shown.iter().for_each(|found| found.push_html(&mut page));
                page.push_str("</ol>\n");
            }
            None => page.push_str(HELP),
        }
        page.push_str("</main>\n</body>\n</html>\n");
        page.into_bytes()
    }
}

/// The words about queries on the page without one.
const HELP: &str = "<p>Words that a page has to have. <kbd>one OR two</kbd> is one of them, <kbd>NOT one</kbd> leaves pages out, \
    <kbd>\"one two\"</kbd> is words that follow each other, <kbd>perform*</kbd> the beginning of a word.</p>\n";

const HEAD_AFTER_TITLE: &str = concat!(
    "</title>\n<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<meta name=\"robots\" content=\"noindex\">\n<style>\n",
    include_str!("assets/page.css"),
    include_str!("assets/search.css"),
    "</style>\n</head>\n<body>\n<header>\n",
);

impl Found {
    /// The address, from the root of the site on.
    fn address(&self) -> String {
        let mut address = String::new();
        for (at, segment) in self.path.split(|byte| *byte == b'/').enumerate() {
            address.push_str(if at > 0 { "/" } else { "" });
            path::push_segment(&mut address, segment);
        }
        address
    }

    fn json(&self) -> serde_json::Value {
        serde_json::json!({ "href": self.address(), "title": self.title, "excerpt": self.excerpt, "count": self.count })
    }

    fn push_html(&self, page: &mut String) {
        let shown = String::from_utf8_lossy(&self.path);
        page.push_str("<li><a href=\"");
        page.push_str(&self.address());
        page.push_str("\">");
        push_html(page, if self.title.is_empty() { &shown } else { &self.title });
        page.push_str("</a><small>");
        push_html(page, &shown);
        page.push_str("</small><div>");
        push_html(page, &self.excerpt);
        page.push_str("</div></li>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_for_a_search_if_it_says_what_is_sought() {
        assert_eq!(asked(b"q=a+%22b%2Bc%22&format=json"), Some(("a \"b+c\"".to_owned(), true)));
        assert_eq!(asked(b"sort=name&q="), Some((String::new(), false)));
        assert_eq!(asked(b"sq=a"), None);
        assert_eq!(asked(b"q=%ff").unwrap().0, "\u{fffd}");
    }

    #[test]
    fn what_a_handler_answers_is_not_found_in_the_files_beneath_it() {
        assert!(leads_to_pages(&Rules::default()));
        assert!(!leads_to_pages(&Rules { handler: Some("reports".to_owned()), ..Rules::default() }));
    }

    #[test]
    fn nothing_that_was_found_breaks_out_of_the_page() {
        let bad = "\"><script>alert(1)</script>";
        let found = Found { count: 1, path: format!("/a/{bad}.html").into(), title: bad.into(), excerpt: bad.into() };
        let query = Query::parse("alert").unwrap();
        let page = Page {
            folder: bad,
            query: bad,
            understood: Some(&query),
            shown: &[found],
            found: 1,
            pages: 2,
            is_cut: true,
        };
        let html = String::from_utf8(page.html()).unwrap();
        assert!(!html.contains("<script>") && html.contains("1 result in 2 pages. Not all"), "{html}");
        let json: serde_json::Value = serde_json::from_slice(&page.json()).unwrap();
        assert_eq!((json["results"][0]["title"].as_str(), json["complete"].as_bool()), (Some(bad), Some(false)));
    }
}
