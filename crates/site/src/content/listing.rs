//! Directory listings: the entries of a directory as an HTML page and as JSON.
//!
//! Owns: the order of entries, the cap on how many are shown, and the two renderings (`html` is a module of its own),
//! which are pure functions. Does not read directories, decide which entries may be seen, or choose between renderings.

mod html;

use std::cmp::Ordering;

use serde::Serialize;

pub use self::html::html;
pub(in crate::content) use self::html::{plural, push_breadcrumb, push_formatted};

use lamna_config::route::Changes;
use lamna_io::log::calendar::Calendar;
use lamna_proto::parse::path::push_segment;

/// The query by which a client of a folder that is for anybody says whose it is.
pub const SIGN_IN_QUERY: &str = "sign-in";

/// Entries that one listing shows. Bounds the page (3 MB with thumbnails, 7 MB with menus as well; 0.1 and 0.25 MB
/// compressed) and the work of laying it out; the rest is counted.
pub const ENTRIES_SHOWN_MAX: usize = 10_000;

/// A directory to list.
#[derive(Clone, Debug)]
pub struct Listing<'a> {
    /// The decoded path of the directory's URL, starting and ending with `/`.
    pub path: &'a str,
    /// Its entries, in any order, without `.` and `..`.
    pub entries: Vec<Item>,
    /// The controls of its page.
    pub controls: Controls,
}

/// The controls of the page of a listing: what its client may do there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Controls {
    /// Changes: the page has forms for them.
    pub changes: Changes,
    /// Whether the page has a link to the folder as an archive.
    pub downloads: bool,
    /// Whether pictures can be had small, by `scale` in their query.
    pub thumbnails: bool,
    /// Whether the pages of the folder are searched, by `q` in the query.
    pub searches: bool,
    /// Whether there is more for who gives a password.
    pub signs_in: bool,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The name as the file system has it: any bytes but `/` and NUL.
    pub name: Vec<u8>,
    /// Its kind, symbolic links followed.
    pub kind: Kind,
    /// Size in bytes; not shown for directories.
    pub size: u64,
    /// Last modification, in seconds since the epoch.
    pub modified_unix_seconds: u64,
}

/// The kind of an entry. Directories come before files in every order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A directory: its link ends with `/`.
    Directory,
    /// Anything that is served as a file.
    File,
}

/// The sort key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Key {
    /// By name: numbers in it by their value, ASCII letters without regard to case.
    #[default]
    Name,
    /// By size; directories by name.
    Size,
    /// By time of modification.
    Modified,
}

/// The order of a listing. The default is by name, ascending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The sort key. Equal entries are in ascending order of their names.
    pub key: Key,
    /// Whether the largest, latest or last comes first.
    pub descending: bool,
}

/// Which of the forms of a listing is asked for: they are resources of their own, in caches as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The order of entries.
    pub order: Order,
    /// As JSON, not as HTML.
    pub is_json: bool,
}

impl View {
    /// A number of its own, 0 for the default.
    pub fn number(self) -> u8 {
        self.order.key as u8 * 4 + u8::from(self.order.descending) * 2 + u8::from(self.is_json)
    }

    /// All numbers that there are.
    pub fn numbers() -> std::ops::Range<u8> {
        0..12
    }

    /// The one of this number.
    pub fn of_number(number: u8) -> View {
        let key = [Key::Name, Key::Size, Key::Modified][usize::from(number / 4).min(2)];
        View { order: Order { key, descending: number & 2 > 0 }, is_json: number & 1 > 0 }
    }
}

impl Order {
    /// The order that a query asks for: `sort=name|size|modified` and `order=asc|desc`, joined by `&`. What is unknown,
    /// missing or malformed leaves the default; the last of several counts.
    pub fn from_query(query: &str) -> Order {
        let mut order = Order::default();
        for parameter in query.split('&') {
            match parameter {
                "sort=name" => order.key = Key::Name,
                "sort=size" => order.key = Key::Size,
                "sort=modified" => order.key = Key::Modified,
                "order=asc" => order.descending = false,
                "order=desc" => order.descending = true,
                _ => {}
            }
        }
        order
    }

    fn compare(self, left: &Item, right: &Item) -> Ordering {
        let by_key = match self.key {
            Key::Name => compare_names(left, right),
            Key::Size if left.kind == Kind::Directory => Ordering::Equal,
            Key::Size => left.size.cmp(&right.size),
            Key::Modified => left.modified_unix_seconds.cmp(&right.modified_unix_seconds),
        };
        let directed = if self.descending { by_key.reverse() } else { by_key };
        left.kind.cmp(&right.kind).then(directed).then_with(|| compare_names(left, right))
    }
}

/// The listing as JSON: `path`, `entries` (each with `name`, `href` relative to the directory, `kind`, `size` of files
/// in bytes, `modified` after RFC 3339) and `omitted`, the number of entries beyond the cap. In names that are not
/// UTF-8 the offending bytes are U+FFFD; `href` has them exactly.
pub fn json(listing: &Listing<'_>, order: Order) -> Vec<u8> {
    let (shown, omitted) = arrange(listing, order);
    let entries = shown.into_iter().map(JsonItem::new).collect();
    serde_json::to_vec(&JsonListing { path: listing.path, entries, omitted })
        .expect("strings and numbers can always be written to memory")
}

#[derive(Serialize)]
struct JsonListing<'a> {
    path: &'a str,
    entries: Vec<JsonItem>,
    omitted: usize,
}

#[derive(Serialize)]
struct JsonItem {
    name: String,
    href: String,
    kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    modified: String,
}

impl JsonItem {
    fn new(item: &Item) -> JsonItem {
        let mut href = String::new();
        push_link(&mut href, item);
        JsonItem {
            name: String::from_utf8_lossy(&item.name).into_owned(),
            href,
            kind: item.kind,
            size: (item.kind == Kind::File).then_some(item.size),
            modified: rfc3339(item.modified_unix_seconds),
        }
    }
}

/// The entries that are shown, in order, and the number of those that are not.
fn arrange<'a>(listing: &'a Listing<'_>, order: Order) -> (Vec<&'a Item>, usize) {
    let mut items: Vec<&Item> = listing.entries.iter().collect();
    let compare = |left: &&Item, right: &&Item| order.compare(left, right);
    let omitted = items.len().saturating_sub(ENTRIES_SHOWN_MAX);
    if omitted > 0 {
        items.select_nth_unstable_by(ENTRIES_SHOWN_MAX, compare);
        items.truncate(ENTRIES_SHOWN_MAX);
    }
    items.sort_unstable_by(compare);
    (items, omitted)
}

fn compare_names(left: &Item, right: &Item) -> Ordering {
    compare_naturally(&left.name, &right.name).then_with(|| left.name.cmp(&right.name))
}

/// The order that people expect: ASCII letters without regard to case, and numbers by their value, however many digits
/// they have (`a2` before `a10`).
fn compare_naturally(mut left: &[u8], mut right: &[u8]) -> Ordering {
    loop {
        let order = match (left.first(), right.first()) {
            (Some(a), Some(b)) if a.is_ascii_digit() && b.is_ascii_digit() => {
                let (one, other) = (take_number(&mut left), take_number(&mut right));
                one.len().cmp(&other.len()).then_with(|| one.cmp(other))
            }
            (Some(a), Some(b)) => {
                (left, right) = (&left[1..], &right[1..]);
                a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
            }
            (one, other) => return one.cmp(&other),
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// Takes the digits that `text` begins with, and returns them without the zeros in front.
fn take_number<'a>(text: &mut &'a [u8]) -> &'a [u8] {
    let (digits, rest) = text.split_at(text.iter().take_while(|byte| byte.is_ascii_digit()).count());
    *text = rest;
    &digits[digits.iter().take_while(|digit| **digit == b'0').count()..]
}

fn rfc3339(unix_seconds: u64) -> String {
    Calendar::from_unix_seconds(unix_seconds).rfc3339().map(char::from).iter().collect()
}

/// A reference relative to the directory. The leading `./` keeps a colon from making a scheme of what precedes it, and
/// slashes are encoded, so that nothing is taken for a host.
fn push_link(link: &mut String, item: &Item) {
    link.push_str("./");
    push_segment(link, &item.name);
    if item.kind == Kind::Directory {
        link.push('/');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    pub(super) fn file(name: &[u8], size: u64, modified_unix_seconds: u64) -> Item {
        Item { name: name.to_vec(), kind: Kind::File, size, modified_unix_seconds }
    }

    fn directory(name: &[u8]) -> Item {
        Item { name: name.to_vec(), kind: Kind::Directory, size: 4096, modified_unix_seconds: 0 }
    }

    fn value(path: &str, entries: Vec<Item>, query: &str) -> serde_json::Value {
        serde_json::from_slice(&json(
            &Listing { path, entries, controls: Controls::default() },
            Order::from_query(query),
        ))
        .expect("JSON")
    }

    fn names_in_order(entries: Vec<Item>, query: &str) -> Vec<String> {
        let listing = value("/", entries, query);
        let entries = listing["entries"].as_array().expect("an array");
        entries.iter().map(|entry| entry["name"].as_str().expect("a string").to_owned()).collect()
    }

    #[test]
    fn directories_come_first_in_every_order() {
        let entries = || vec![file(b"b", 2, 9), directory(b"z"), file(b"A", 3, 8), file(b"c", 1, 7), directory(b"y")];
        assert_eq!(names_in_order(entries(), ""), ["y", "z", "A", "b", "c"]);
        assert_eq!(names_in_order(entries(), "order=desc"), ["z", "y", "c", "b", "A"]);
        assert_eq!(names_in_order(entries(), "sort=size&order=asc"), ["y", "z", "c", "b", "A"]);
        assert_eq!(names_in_order(entries(), "sort=size&order=desc"), ["y", "z", "A", "b", "c"]);
        assert_eq!(names_in_order(entries(), "sort=modified&order=asc"), ["y", "z", "c", "A", "b"]);
    }

    #[test]
    fn numbers_in_names_are_ordered_by_their_value() {
        let names =
            ["IMG_10.jpg", "img_9.jpg", "img_1.jpg", "img_09.jpg", "img_.jpg", "v1.10", "v1.9", "v1.9a", "7", "10"];
        let entries = names.iter().map(|name| file(name.as_bytes(), 1, 0)).collect();
        let sorted =
            ["7", "10", "img_.jpg", "img_1.jpg", "img_09.jpg", "img_9.jpg", "IMG_10.jpg", "v1.9", "v1.9a", "v1.10"];
        assert_eq!(names_in_order(entries, ""), sorted);
        // Longer than any number that a machine counts with.
        let (less, more) = ("9".repeat(40), format!("1{}", "0".repeat(40)));
        let entries = [&more, &less].map(|name| file(name.as_bytes(), 1, 0)).to_vec();
        assert_eq!(names_in_order(entries, ""), [less, more]);
    }

    #[test]
    fn an_unknown_order_is_the_default() {
        for query in ["", "sort=colour", "sort", "order=down&x", "&&=&%", "SORT=size"] {
            assert_eq!(Order::from_query(query), Order::default(), "{query}");
        }
        assert_eq!(Order::from_query("a=b&order=desc&sort=size"), Order { key: Key::Size, descending: true });
    }

    #[test]
    fn entries_beyond_the_cap_are_counted() {
        let entries = |count: usize| (0..count).map(|i| file(format!("{i:05}").as_bytes(), i as u64, 0)).collect();
        let listing = value("/", entries(ENTRIES_SHOWN_MAX + 3), "sort=size&order=desc");
        assert_eq!(listing["omitted"], 3);
        assert_eq!(listing["entries"].as_array().map(Vec::len), Some(ENTRIES_SHOWN_MAX));
        assert_eq!(listing["entries"][0]["name"], "10002");
    }

    #[test]
    fn json_has_exact_sizes_and_dates() {
        let listing = value("/a/", vec![file(b"\xff.txt", 1_234_567, 1_795_233_600), directory(b"d")], "");
        assert_eq!(listing["path"], "/a/");
        assert_eq!(listing["entries"][0]["href"], "./d/");
        assert_eq!(listing["entries"][0]["kind"], "directory");
        assert!(listing["entries"][0].get("size").is_none());
        assert_eq!(listing["entries"][1]["href"], "./%FF.txt");
        assert_eq!(listing["entries"][1]["name"], "\u{fffd}.txt");
        assert_eq!(listing["entries"][1]["size"], 1_234_567);
        assert_eq!(listing["entries"][1]["modified"], "2026-11-21T04:00:00Z");
    }

    #[test]
    fn every_view_has_a_number_of_its_own() {
        for number in 0..12 {
            assert_eq!(View::of_number(number).number(), number);
        }
        assert_eq!(View::of_number(0), View::default());
    }

    pub(super) fn any_name() -> impl Strategy<Value = Vec<u8>> {
        let syntax = proptest::sample::select(b"<>\"'&;/:?#%. \n\0\x7f\xff\xe2x".to_vec());
        vec(prop_oneof![syntax, any::<u8>()], 1..24)
    }

    proptest! {
        #[test]
        fn json_is_always_valid(names in vec(any_name(), 0..8), path in any::<String>()) {
            let count = names.len();
            let entries = names.iter().map(|name| file(name, 1, 0)).collect();
            prop_assert_eq!(value(&path, entries, "")["entries"].as_array().map(Vec::len), Some(count));
        }

        #[test]
        fn names_have_one_order(names in vec("[aB019 ]{0,6}", 3..=3)) {
            let items: Vec<Item> = names.iter().map(|name| file(name.as_bytes(), 1, 0)).collect();
            let [a, b, c] = &items[..] else { unreachable!("three were made") };
            prop_assert_eq!(compare_names(a, b), compare_names(b, a).reverse());
            prop_assert_eq!(compare_names(a, b).is_eq(), a.name == b.name);
            if compare_names(a, b).is_le() && compare_names(b, c).is_le() {
                prop_assert!(compare_names(a, c).is_le());
            }
        }

        #[test]
        fn any_query_gives_an_order(query in any::<String>()) {
            Order::from_query(&query);
        }
    }
}
