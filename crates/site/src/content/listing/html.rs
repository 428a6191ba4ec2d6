//! A directory listing as an HTML page.
//!
//! Owns: the page, with the controls for what its client may do there. It is self-contained, works without its
//! scripts, and no name or path can break out of the place where it is shown.

use std::fmt::Write as _;

use lamna_config::route::Changes;

use super::{Controls, Item, Key, Kind, Listing, Order, SIGN_IN_QUERY, arrange, push_link, rfc3339};
use crate::content::escape::push_html;
use crate::content::media_type;

/// The listing as a self-contained HTML page in UTF-8.
pub fn html(listing: &Listing<'_>, order: Order) -> Vec<u8> {
    let (shown, omitted) = arrange(listing, order);
    let Controls { changes, thumbnails, .. } = listing.controls;
    let pictures = shown.iter().filter(|item| kind_of(item).is_viewed()).count();
    let scaled = if thumbnails { shown.iter().filter(|item| is_scaled(item)).count() } else { 0 };
    let files = shown.iter().filter(|item| item.kind == Kind::File).count();
    // A folder of pictures is looked at, others are read.
    let tiles = scaled > 0 && 2 * scaled >= files;
    let mut page = String::with_capacity(8192 + 512 * shown.len());
    page.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>");
    push_html(&mut page, listing.path);
    page.push_str(HEAD_AFTER_TITLE);
    push_header(&mut page, listing.path, listing.controls);
    page.push_str("<main>\n");
    push_bar(&mut page, changes, scaled > 0);
    page.push_str(if tiles { "<table class=\"tiles\">\n<thead><tr>" } else { "<table>\n<thead><tr>" });
    push_column_head(&mut page, Column { key: Key::Name, title: "Name" }, order);
    push_column_head(&mut page, Column { key: Key::Size, title: "Size" }, order);
    push_column_head(&mut page, Column { key: Key::Modified, title: "Modified" }, order);
    page.push_str(if changes.delete { "<th></th></tr></thead>\n" } else { "</tr></thead>\n" });
    if listing.path != "/" {
        page.push_str(PARENT);
    }
    page.push_str("<tbody id=\"entries\">\n");
    for item in &shown {
        push_row(&mut page, item, listing, tiles);
    }
    page.push_str("</tbody>\n</table>\n<p id=\"found\" role=\"status\" hidden></p>\n");
    push_summary(&mut page, listing, omitted);
    page.push_str(concat!(
        "</main>\n",
        include_str!("../assets/icons.svg"),
        "<script>",
        include_str!("../assets/listing.js")
    ));
    for (_, script) in [(pictures > 0, GALLERY), (changes.upload, UPLOAD)].iter().filter(|(is_on, _)| *is_on) {
        page.push_str(script);
    }
    page.push_str("</script>\n</body>\n</html>\n");
    page.into_bytes()
}

const GALLERY: &str = include_str!("../assets/gallery.js");
const UPLOAD: &str = include_str!("../assets/upload.js");

const PARENT: &str = "<tbody id=\"up\"><tr><td><a href=\"../\" class=\"d\" rel=\"up\"><svg><use href=\"#d\"/></svg>Parent folder</a></td>\
    <td></td><td></td></tr></tbody>\n";

/// Works without the script, as the others do. Sent to the address of the listing.
const UPLOAD_FORM: &str = "<form class=\"upload\" method=\"post\" enctype=\"multipart/form-data\">\
    <label class=\"button\">Upload files <input type=\"file\" name=\"file\" multiple required></label><button>Upload</button></form>\n";

const MKDIR_FORM: &str = "<details><summary>New folder</summary><form method=\"post\" action=\"?mkdir\">\
    <input name=\"name\" aria-label=\"Name of the new folder\" maxlength=\"255\" autocomplete=\"off\" required>\
    <button>Create</button></form></details>\n";

/// Shown by the script.
const TILES: &str = "<button id=\"tiles\" class=\"push\" hidden>Tiles</button>\n";

/// The forms at the top of the page, and the files on their way.
fn push_bar(page: &mut String, changes: Changes, has_thumbnails: bool) {
    page.push_str("<div class=\"bar\">");
    let controls = [(changes.upload, UPLOAD_FORM), (changes.mkdir, MKDIR_FORM), (has_thumbnails, TILES)];
    controls.iter().filter(|(is_on, _)| *is_on).for_each(|(_, control)| page.push_str(control));
    page.push_str("</div>\n");
    if changes.upload {
        page.push_str("<ul id=\"queue\" aria-label=\"Uploads\"></ul>\n");
    }
}

/// Shown by the script, without which it would do nothing.
const FILTER: &str = "<input type=\"search\" placeholder=\"Search this folder\" aria-label=\"Search this folder\" aria-keyshortcuts=\"/\" \
    autocomplete=\"off\" spellcheck=\"false\" hidden>\n";

/// The same where pages are searched, which needs no script.
const SEARCH: &str = "<form role=\"search\"><input type=\"search\" name=\"q\" placeholder=\"Search this folder\" \
    aria-label=\"Search this folder\" aria-keyshortcuts=\"/\" autocomplete=\"off\" spellcheck=\"false\"></form>\n";

const HEAD_AFTER_TITLE: &str = concat!(
    "</title>\n<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<style>\n",
    include_str!("../assets/page.css"),
    include_str!("../assets/listing.css"),
    "</style>\n</head>\n<body>\n",
);

fn push_header(page: &mut String, path: &str, controls: Controls) {
    page.push_str("<header>\n");
    push_breadcrumb(page, path, true);
    page.push_str(if controls.searches { SEARCH } else { FILTER });
    if controls.signs_in {
        push_formatted(
            page,
            format_args!("<a class=\"button\" rel=\"nofollow\" href=\"?{SIGN_IN_QUERY}\">Sign in</a>\n"),
        );
    }
    page.push_str("</header>\n");
}

/// The path with a link to each directory above, and to the directory itself unless it `is_shown`. Links go up step by
/// step, so they hold whatever the path contains.
pub(in crate::content) fn push_breadcrumb(page: &mut String, path: &str, is_shown: bool) {
    let inner = path.strip_prefix('/').unwrap_or(path);
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    let segments: Vec<&str> = if inner.is_empty() { Vec::new() } else { inner.split('/').collect() };
    page.push_str("<nav aria-label=\"Path\">");
    push_crumb(page, "Home", segments.len(), is_shown);
    for (index, segment) in segments.iter().enumerate() {
        page.push_str("<i>/</i>");
        push_crumb(page, segment, segments.len() - 1 - index, is_shown);
    }
    page.push_str("</nav>\n");
}

/// One part of the breadcrumb, this many directories above the one listed.
fn push_crumb(page: &mut String, name: &str, levels_up: usize, is_shown: bool) {
    match levels_up {
        0 if is_shown => page.push_str("<bdi aria-current=\"page\">"),
        0 => page.push_str("<a href=\"./\"><bdi>"),
        levels_up => {
            page.push_str("<a href=\"");
            page.extend(std::iter::repeat_n("../", levels_up));
            page.push_str("\"><bdi>");
        }
    }
    push_html(page, name);
    page.push_str(if levels_up == 0 && is_shown { "</bdi>" } else { "</bdi></a>" });
}

struct Column {
    key: Key,
    title: &'static str,
}

/// A column's title: its link sorts by this column, or turns the order round if that is so already. Sizes and dates are
/// first sorted from the largest and the latest, which is what one looks for.
fn push_column_head(page: &mut String, column: Column, order: Order) {
    let active = column.key == order.key;
    let descending = if active { !order.descending } else { column.key != Key::Name };
    let state = match (active, order.descending) {
        (false, _) => "",
        (true, false) => " aria-sort=\"ascending\"",
        (true, true) => " aria-sort=\"descending\"",
    };
    let sort = match column.key {
        Key::Name => "name",
        Key::Size => "size",
        Key::Modified => "modified",
    };
    let direction = if descending { "desc" } else { "asc" };
    let title = column.title;
    push_formatted(
        page,
        format_args!("<th{state}><a rel=\"nofollow\" href=\"?sort={sort}&amp;order={direction}\">{title}</a></th>"),
    );
}

/// Kept short: there may be thousands.
fn push_row(page: &mut String, item: &Item, listing: &Listing<'_>, tiles: bool) {
    let Controls { changes, thumbnails, .. } = listing.controls;
    let kind = kind_of(item);
    page.push_str("<tr><td><a href=\"");
    push_link(page, item);
    page.push_str(match kind {
        EntryKind::Folder => "\" class=\"d\">",
        kind if kind.is_viewed() => "\" class=\"p\">",
        _ => "\">",
    });
    if thumbnails && is_scaled(item) {
        page.push_str("<img src=\"");
        push_link(page, item);
        page.push_str(if tiles { TILE } else { THUMBNAIL });
    } else {
        push_formatted(page, format_args!("<svg><use href=\"#{}\"/></svg>", kind.icon()));
    }
    page.push_str("<bdi>");
    push_html(page, &String::from_utf8_lossy(&item.name));
    page.push_str(if item.kind == Kind::Directory { "/</bdi></a></td>" } else { "</bdi></a></td>" });
    match item.kind {
        Kind::Directory => page.push_str("<td></td>"),
        Kind::File if item.size < 1024 => push_formatted(page, format_args!("<td>{} B</td>", item.size)),
        Kind::File => {
            push_formatted(page, format_args!("<td title=\"{} bytes\">{}</td>", item.size, human_size(item.size)));
        }
    }
    let modified = rfc3339(item.modified_unix_seconds);
    let (day, minute) = (&modified[..10], &modified[11..16]);
    push_formatted(page, format_args!("<td><time datetime=\"{modified}\">{day} {minute}</time></td>"));
    if changes.delete {
        let is_moved = changes.upload && (changes.mkdir || item.kind == Kind::File);
        push_menu(page, item, is_moved, listing.entries.len() > FORMS_MAX);
    }
    page.push_str("</tr>\n");
}

/// Menus whose forms are in the page. In a longer one the script makes each when it is opened: 10,000 forms with a
/// field took Chromium more than 30 s.
const FORMS_MAX: usize = 1000;

/// The changes of an entry, out of the way: the form of its menu moves it, or deletes it. A name that a field cannot
/// hold as it is is not written into one: sent back, it would be another.
fn push_menu(page: &mut String, item: &Item, is_moved: bool, is_made_later: bool) {
    let name = String::from_utf8_lossy(&item.name);
    page.push_str("<td><details><summary aria-label=\"Change ");
    push_html(page, &name);
    page.push_str("\">⋯</summary>");
    page.push_str(if is_made_later { "<noscript>" } else { "" });
    page.push_str("<form method=\"post\" action=\"");
    push_link(page, item);
    if is_moved {
        page.push_str(
            "?move\"><input name=\"to\" aria-label=\"New name or path\" autocomplete=\"off\" required value=\"",
        );
        let is_exact = item.name.as_slice() == name.as_bytes() && !name.contains(char::is_control);
        push_html(page, if is_exact { &name } else { "" });
        page.push_str("\"><button>Rename or move</button><button class=\"bad\" formnovalidate formaction=\"");
        push_link(page, item);
        page.push_str("?delete\">Delete</button></form>");
    } else {
        page.push_str("?delete\"><button class=\"bad\">Delete</button></form>");
    }
    page.push_str(if is_made_later { "</noscript></details></td>" } else { "</details></td>" });
}

/// Fetched when it comes into view, so that a folder of many pictures does not have all of them made.
const THUMBNAIL: &str =
    "?scale=96x96&amp;format=auto\" loading=\"lazy\" decoding=\"async\" width=\"48\" height=\"48\" alt=\"\">";
const TILE: &str =
    "?scale=384x384&amp;format=auto\" loading=\"lazy\" decoding=\"async\" width=\"48\" height=\"48\" alt=\"\">";

/// The kind of an entry, for those who look at a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryKind {
    Folder,
    File,
    Picture,
    Sound,
    Film,
    Archive,
    Text,
}

impl EntryKind {
    /// The symbol among those of the page.
    fn icon(self) -> char {
        match self {
            EntryKind::Folder => 'd',
            EntryKind::File => 'f',
            EntryKind::Picture => 'p',
            EntryKind::Sound => 'a',
            EntryKind::Film => 'v',
            EntryKind::Archive => 'z',
            EntryKind::Text => 't',
        }
    }

    /// Whether it is looked at in the page.
    fn is_viewed(self) -> bool {
        self == EntryKind::Picture
    }
}

/// By the name: what is in a file is not looked at.
fn kind_of(item: &Item) -> EntryKind {
    const VIEWED: [&str; 7] =
        ["image/jpeg", "image/png", "image/webp", "image/gif", "image/avif", "image/svg+xml", "image/bmp"];
    const ARCHIVES: [&str; 7] = [".zip", ".tar", ".gz", ".tgz", ".xz", ".zst", ".7z"];
    if item.kind == Kind::Directory {
        return EntryKind::Folder;
    }
    let essence = media_type::by_name(&item.name).essence;
    match essence.split_once('/').map_or(essence, |(group, _)| group) {
        _ if ends_with_one_of(&item.name, &ARCHIVES) => EntryKind::Archive,
        _ if VIEWED.contains(&essence) => EntryKind::Picture,
        "audio" => EntryKind::Sound,
        "video" => EntryKind::Film,
        "text" => EntryKind::Text,
        _ if essence == "application/pdf" => EntryKind::Text,
        _ => EntryKind::File,
    }
}

fn ends_with_one_of(name: &[u8], ends: &[&str]) -> bool {
    let is_of =
        |end: &&str| name.len() > end.len() && name[name.len() - end.len()..].eq_ignore_ascii_case(end.as_bytes());
    ends.iter().any(is_of)
}

/// Whether the filter for pictures makes others of this entry, by its name.
fn is_scaled(item: &Item) -> bool {
    item.kind == Kind::File && ends_with_one_of(&item.name, &[".jpg", ".jpeg", ".png", ".webp"])
}

fn push_summary(page: &mut String, listing: &Listing<'_>, omitted: usize) {
    let directories = listing.entries.iter().filter(|item| item.kind == Kind::Directory).count();
    let files = listing.entries.len() - directories;
    let bytes = listing.entries.iter().filter(|item| item.kind == Kind::File);
    let bytes = bytes.fold(0_u64, |sum, item| sum.saturating_add(item.size));
    let (folder_word, file_word) = (plural(directories, "folder"), plural(files, "file"));
    let total = human_size(bytes);
    push_formatted(
        page,
        format_args!(
            "<p id=\"summary\">{directories} {folder_word}, {files} {file_word}, {total}. Times are UTC.</p>\n"
        ),
    );
    if listing.controls.downloads {
        page.push_str(DOWNLOAD);
    }
    page.push_str(KEYS);
    if omitted > 0 {
        let shown = listing.entries.len() - omitted;
        push_formatted(page, format_args!("<p>The first {shown} entries are shown, {omitted} more are not.</p>\n"));
    }
}

const DOWNLOAD: &str = "<p>Download this folder: <a rel=\"nofollow\" href=\"?download=zip\" download>.zip</a>, \
    <a rel=\"nofollow\" href=\"?download=tar\" download>.tar</a></p>\n";

/// Shown where there is a pointer, and so probably a keyboard.
const KEYS: &str = "<p class=\"k\"><kbd>/</kbd> search, <kbd>↑</kbd> <kbd>↓</kbd> move, <kbd>Enter</kbd> open, <kbd>Backspace</kbd> parent folder</p>\n";

pub(in crate::content) fn plural(count: usize, singular: &str) -> String {
    format!("{singular}{}", if count == 1 { "" } else { "s" })
}

/// A size to three digits or so with a binary unit (IEC 80000-13).
fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 is where one decimal would show 1024.0.
    while size >= 1023.95 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

pub(in crate::content) fn push_formatted(page: &mut String, arguments: std::fmt::Arguments<'_>) {
    page.write_fmt(arguments).expect("writing to a string cannot fail");
}

#[cfg(test)]
mod tests {
    use super::super::ENTRIES_SHOWN_MAX;
    use super::super::tests::{any_name, file};
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn page(path: &str, entries: Vec<Item>, query: &str) -> String {
        String::from_utf8(html(&Listing { path, entries, controls: ALL }, Order::from_query(query))).expect("UTF-8")
    }

    const ALL: Controls = Controls {
        changes: Changes { upload: true, delete: true, mkdir: true, webdav: false },
        downloads: true,
        thumbnails: true,
        searches: false,
        signs_in: false,
    };

    /// The names that the links of the rows lead to.
    fn linked_names(page: &str) -> Vec<Vec<u8>> {
        let links = page.split("<tr><td><a href=\"./").skip(1);
        links.map(|rest| percent_decode(rest.split('"').next().expect("split gives one part"))).collect()
    }

    fn percent_decode(encoded: &str) -> Vec<u8> {
        let mut parts = encoded.split('%');
        let mut decoded = parts.next().expect("split gives one part").as_bytes().to_vec();
        for part in parts {
            decoded.push(u8::from_str_radix(&part[..2], 16).expect("two hexadecimal digits"));
            decoded.extend_from_slice(&part.as_bytes()[2..]);
        }
        decoded
    }

    #[test]
    fn the_links_of_the_columns_turn_the_order_round() {
        let page = page("/", Vec::new(), "sort=size&order=desc");
        assert!(page.contains("aria-sort=\"descending\"><a rel=\"nofollow\" href=\"?sort=size&amp;order=asc\""));
        assert!(
            page.contains("href=\"?sort=name&amp;order=asc\"")
                && page.contains("href=\"?sort=modified&amp;order=desc\"")
        );
    }

    #[test]
    fn awkward_names_are_shown_and_linked_as_what_they_are() {
        let names: [&[u8]; 5] = [b"a b?#%\"<>&'.txt", b"//evil.example", b"javascript:alert(1)", b"\xff\xfe", b"..."];
        for name in names {
            let page = page("/", vec![file(name, 1, 0)], "");
            assert_eq!(linked_names(&page), [name], "{}", name.escape_ascii());
        }
        let page = page("/", vec![file(b"a b?#%\"<>&'.txt", 1, 0)], "");
        assert!(page.contains(
            "<a href=\"./a%20b%3F%23%25%22%3C%3E%26%27.txt\"><svg><use href=\"#t\"/></svg><bdi>a b?#%&quot;&lt;&gt;&amp;&#39;.txt</bdi></a>"
        ));
    }

    #[test]
    fn all_but_the_root_lead_to_their_parents() {
        assert!(!page("/", Vec::new(), "").contains("href=\"../"));
        let page = page("/a/<b>/", Vec::new(), "");
        assert!(page.contains("<a href=\"../../\"><bdi>Home</bdi></a><i>/</i><a href=\"../\"><bdi>a</bdi></a>"));
        assert!(
            page.contains("<bdi aria-current=\"page\">&lt;b&gt;</bdi>")
                && page.contains("<title>/a/&lt;b&gt;/</title>")
        );
    }

    #[test]
    fn pictures_are_shown_small_where_they_can_be_had_so() {
        let entries = |texts: usize| {
            let texts = (0..texts).map(|_| file(b"b.txt", 1, 0));
            texts.chain([file(b"a \".JPG", 1, 0), file(b"c.gif", 1, 0)]).collect::<Vec<_>>()
        };
        let shown = page("/", entries(2), "");
        assert_eq!((shown.matches("<img src").count(), shown.matches("class=\"p\"").count()), (1, 2));
        assert!(shown.contains("<img src=\"./a%20%22.JPG?scale=96x96&amp;format=auto\" loading=\"lazy\""), "{shown}");
        assert!(!shown.contains("<table class=\"tiles\">"));
        let tiles = page("/", entries(0), "");
        assert!(tiles.contains("<table class=\"tiles\">") && tiles.contains("?scale=384x384&amp;format=auto\""));
        let controls = Controls { thumbnails: false, ..ALL };
        let listing = Listing { path: "/", entries: entries(0), controls };
        let plain = String::from_utf8(html(&listing, Order::default())).unwrap();
        assert!(!plain.contains("<img src") && !plain.contains("id=\"tiles\"") && plain.contains("class=\"p\""));
    }

    fn with(controls: Controls) -> String {
        let entries = vec![file(b"a b", 1, 0), Item { kind: Kind::Directory, ..file(b"d", 0, 0) }];
        String::from_utf8(html(&Listing { path: "/", entries, controls }, Order::default())).unwrap()
    }

    #[test]
    fn forms_are_there_for_what_clients_may_change() {
        let page = |changes| with(Controls { changes, ..Controls::default() });
        let nothing = Changes::default();
        assert!(!page(nothing).contains("<form") && !page(nothing).contains("<details"));
        let upload = page(Changes { upload: true, ..nothing });
        assert!(upload.contains("<form class=\"upload\" method=\"post\" enctype=\"multipart/form-data\">"));
        let mkdir = page(Changes { mkdir: true, ..nothing });
        assert!(mkdir.contains("method=\"post\" action=\"?mkdir\">") && mkdir.contains("<input name=\"name\""));
        let delete = page(Changes { delete: true, ..nothing });
        let form = "<form method=\"post\" action=\"./a%20b?delete\"><button class=\"bad\">Delete</button></form>";
        assert!(delete.contains(form) && !delete.contains("?move"), "{delete}");
        assert_eq!((upload.matches("<form").count(), mkdir.matches("<form").count()), (1, 1));
    }

    #[test]
    fn what_may_be_deleted_here_and_stored_elsewhere_may_be_moved() {
        let page = |mkdir| {
            let changes = Changes { upload: true, delete: true, mkdir, webdav: false };
            with(Controls { changes, ..Controls::default() })
        };
        let moves = |page: &str| ["./a%20b?move", "./d/?move"].map(|action| page.contains(action));
        assert_eq!(moves(&page(false)), [true, false]);
        assert_eq!(moves(&page(true)), [true, true]);
        let form = "<form method=\"post\" action=\"./a%20b?move\"><input name=\"to\" aria-label=\"New name or path\" \
                    autocomplete=\"off\" required value=\"a b\"><button>Rename or move</button>";
        assert!(page(true).contains(form));
    }

    #[test]
    fn the_forms_of_a_long_page_are_made_when_they_are_wanted() {
        let forms = |count: usize| {
            let page = page("/", (0..count).map(|_| file(b"x", 1, 0)).collect(), "");
            (page.matches("<noscript><form").count(), page.matches("</form></noscript>").count())
        };
        assert_eq!((forms(FORMS_MAX), forms(FORMS_MAX + 1)), ((0, 0), (FORMS_MAX + 1, FORMS_MAX + 1)));
    }

    #[test]
    fn a_page_leads_to_searches_and_to_a_password_where_there_are_such() {
        let plain = with(Controls::default());
        assert!(!plain.contains("name=\"q\"") && !plain.contains("?sign-in"));
        let both = with(Controls { searches: true, signs_in: true, ..Controls::default() });
        assert!(both.contains("<form role=\"search\"><input type=\"search\" name=\"q\""));
        assert!(both.contains("<a class=\"button\" rel=\"nofollow\" href=\"?sign-in\">Sign in</a>"));
    }

    #[test]
    fn a_listing_beyond_the_cap_says_what_is_missing() {
        let entries = |count: usize| (0..count).map(|_| file(b"x", 1, 0)).collect();
        assert!(page("/", entries(ENTRIES_SHOWN_MAX + 3), "").contains("10000 entries are shown, 3 more are not"));
        assert!(!page("/", entries(3), "").contains("more are not"));
    }

    #[test]
    fn sizes_are_readable() {
        let sizes = [0, 1023, 1024, 1_572_864, 1_048_575, u64::MAX].map(human_size);
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "1.5 MiB", "1.0 MiB", "16.0 EiB"]);
    }

    proptest! {
        #[test]
        fn no_name_adds_syntax_to_the_page(names in vec(any_name(), 0..8), path in any::<String>()) {
            let syntax = |page: &str| page.chars().filter(|c| "<>\"'".contains(*c)).count();
            let listed = names.iter().map(|name| file(name, 1, 0)).collect();
            let harmless = names.iter().map(|_| file(b"x", 1, 0)).collect();
            let slashes_only: String = path.chars().map(|c| if c == '/' { '/' } else { 'x' }).collect();
            let listed = page(&format!("/{path}/"), listed, "");
            prop_assert_eq!(syntax(&listed), syntax(&page(&format!("/{slashes_only}/"), harmless, "")));
            prop_assert!(!listed.contains(|c: char| c.is_control() && c != '\n'));
        }

        #[test]
        fn every_link_leads_to_its_name(names in vec(any_name(), 0..8)) {
            let entries = names.iter().map(|name| file(name, 1, 0)).collect();
            let mut expected = names.clone();
            let mut linked = linked_names(&page("/", entries, ""));
            expected.sort();
            linked.sort();
            prop_assert_eq!(linked, expected);
        }
    }
}
