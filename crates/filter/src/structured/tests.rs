//! Tests: which sections are found, what requests for them get, and that pages made of them are balanced.

use proptest::prelude::*;

use super::scan::{Kind as Part, Tokens};
use super::*;

fn recipe(query: &str, prefer: &[&str], save_data: &[&str]) -> Option<String> {
    let make = make(&[("save_data".to_owned(), "true".to_owned())].into()).unwrap();
    let lines = |name: &'static str| {
        let lines = if name == "prefer" { prefer } else { save_data };
        lines.iter().map(|line| line.as_bytes()).collect()
    };
    make.recipe(query.as_bytes(), &lines)
}

const PAGE: &str = "<!doctype html><html lang=en><head><meta charset=utf-8><title>A &amp; B</title>\
    <link rel=stylesheet href=/s.css><style>p{color:red}</style></head><body><div class=x><p>Before\
    <h1 id=one>One</h1><p>first<img src=a.png><h2>Two <b>bold</b></h2><ul><li>a<li>b</ul></div>\
    <table><tr><td><h2 id=one>Again</h2>cell</td><td>c</table><h1>Last</h1>1 < 2<!-- <h1>no</h1> --><script>'<h1>'</script></body></html>";

/// The overview of a page or one of its sections.
fn page_of(html: &[u8], section: Option<&str>) -> Result<Vec<u8>, Fault> {
    let structure = Structure::of(html);
    let asked = section.map_or(Asked::Outline, |id| Asked::Section(id.to_owned()));
    Ok(structure.excerpt_of(&asked)?.map_or_else(|| html.to_vec(), |excerpt| excerpt.page_of(html)))
}

fn text(made: Result<Vec<u8>, Fault>) -> String {
    String::from_utf8(made.unwrap()).unwrap()
}

/// Whether every element that is no void one begins and ends.
fn is_balanced(html: &str) -> bool {
    let mut open = Vec::new();
    for token in Tokens::new(html.as_bytes(), 0..html.len()) {
        match token.kind {
            Part::Start(name) if !page::is_void(&name) && !matches!(&*name, "meta" | "link") => open.push(name),
            Part::End(name) if open.pop().as_ref() != Some(&name) => return false,
            _ => {}
        }
    }
    open.is_empty()
}

#[test]
fn a_request_asks_by_its_query_and_then_by_its_fields() {
    for (query, prefer, save_data, expected) in [
        ("", &[][..], &[][..], None),
        ("view=outline", &[], &[], Some("outline")),
        ("a=b&section=caf%C3%A9&view=outline", &[], &[], Some("section=café")),
        ("section=%00", &[], &[], Some("section=")),
        ("section=%+1", &[], &[], Some("section=%+1")),
        ("view=whole", &["view=outline"], &["on"], None),
        ("", &["respond-async, View=\"outline\"; x=y"], &["on"], Some("outline:preferred")),
        ("", &["view=whole"], &["on"], Some("outline:to-save")),
        ("view=other", &["xview=outline"], &["off"], None),
    ] {
        assert_eq!(recipe(query, prefer, save_data).as_deref(), expected, "{query} {prefer:?} {save_data:?}");
    }
    assert_eq!(recipe(&format!("section={}", "a".repeat(129)), &[], &[]).as_deref(), Some("section="));
}

#[test]
fn sections_are_found_with_their_ids_and_ranges() {
    let found = Structure::of(PAGE.as_bytes());
    assert_eq!(
        (&*found.title, found.lang.as_deref(), found.charset.as_deref()),
        ("A &amp; B", Some("en"), Some("utf-8"))
    );
    let shown: Vec<_> = found.sections.iter().map(|one| (one.level, &*one.id, &*one.text, one.parent)).collect();
    let expected = [
        (0, "start", "", None),
        (1, "one", "One", None),
        (2, "two-bold", "Two bold", Some(1)),
        (2, "one-2", "Again", Some(1)),
        (1, "last", "Last", None),
    ];
    assert_eq!(shown, expected);
    assert!(PAGE[found.sections[2].range.clone()].starts_with("<h2>Two"));
    assert_eq!(found.sections[1].resources, 1);
    assert_eq!(found.shared.len(), 2);
}

#[test]
fn the_overview_has_links_to_the_sections() {
    let made = text(page_of(PAGE.as_bytes(), None));
    assert!(is_balanced(&made), "{made}");
    for part in [
        "<html lang=\"en\">",
        "<title>A &amp; B</title>",
        "<a href=\"?section=two-bold\">Two bold</a>",
        "?section=start",
    ] {
        assert!(made.contains(part), "{part}: {made}");
    }
}

#[test]
fn a_section_is_a_page_of_its_own() {
    let made = text(page_of(PAGE.as_bytes(), Some("two-bold")));
    assert!(is_balanced(&made), "{made}");
    for part in [
        "<link rel=stylesheet href=/s.css>",
        "<li>a</li><li>b</li></ul>",
        "← <a href=\"?section=one\">",
        "→ <a href=\"?section=one-2\">",
    ] {
        assert!(made.contains(part), "{part}: {made}");
    }
    assert!(!made.contains("first") && !made.contains("cell"), "{made}");
    assert!(text(page_of(PAGE.as_bytes(), Some("last"))).contains("1 &lt; 2"));
    assert!(text(page_of(PAGE.as_bytes(), Some("start"))).contains("<p>Before</p></div>"));
    assert!(matches!(page_of(PAGE.as_bytes(), Some("none")), Err(Fault::Absent(_))));
}

#[test]
fn an_excerpt_takes_its_parts_of_the_page_and_no_others() {
    let structure = Structure::of(PAGE.as_bytes());
    let excerpt = structure.excerpt("section=two-bold").unwrap().unwrap();
    let parts: Vec<&str> = excerpt.ranges().iter().map(|range| &PAGE[range.clone()]).collect();
    assert_eq!(parts[..2], ["<link rel=stylesheet href=/s.css>", "<style>p{color:red}</style>"]);
    assert!(parts.len() == 3 && parts[2].starts_with("<h2>Two"), "{parts:?}");
    let pieces: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
    assert_eq!(excerpt.page(&pieces), page_of(PAGE.as_bytes(), Some("two-bold")).unwrap());
    assert!(structure.excerpt("outline").unwrap().unwrap().ranges().is_empty(), "an overview is made of the structure");
    assert!(structure.excerpt("outline:to-save").unwrap().is_none(), "it is not smaller than the page");
    assert!(matches!(structure.excerpt("section=none"), Err(Fault::Absent(_))));
}

#[test]
fn a_page_with_a_base_has_an_overview_only() {
    let page = b"<base href=/x/><h1 id=a>A</h1><h1>B</h1>";
    assert!(matches!(page_of(page, Some("a")), Err(Fault::Unreadable(_))));
    let made = text(page_of(page, None));
    assert!(made.contains("<a href=\"?view=whole#a\">A</a>") && made.contains("<li>B "), "{made}");
}

#[test]
fn many_headings_take_no_more_than_their_share() {
    for page in ["<h1>a</h1>".repeat(100_000), "<h1>".repeat(10_000), "<div>".repeat(100_000) + "<h6>a</h6>"] {
        let found = Structure::of(page.as_bytes());
        let held: usize = found.sections.iter().map(Section::bytes).sum();
        assert!(held <= page.len() / 20, "{held}");
        assert_eq!(found.sections.last().map(|last| last.range.end), Some(page.len()));
    }
    let found = Structure::of("<h1>a</h1>".repeat(1000).as_bytes());
    assert!(found.left_out > 0 && found.sections.len() > 10);
}

#[test]
fn who_saves_data_is_given_no_more_than_the_page() {
    let made = |page: &str| {
        let mut filter =
            Making { asked: Asked::OutlineToSave, source: Source::HTML, content: page.as_bytes().to_vec() };
        let mut out = Vec::new();
        filter.finish(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_eq!(made("<h1>a</h1>"), "<h1>a</h1>");
    assert!(made(&format!("<h1>a</h1>{}", "text ".repeat(1000))).contains("?section=a"));
}

#[test]
fn what_fields_prefer_is_a_wish_and_what_a_query_says_is_none() {
    let filter = make(&[].into()).unwrap();
    for (asked, expected) in [
        (Asked::OutlinePreferred, true),
        (Asked::OutlineToSave, true),
        (Asked::Outline, false),
        (Asked::Section("outline:preferred".into()), false),
    ] {
        assert_eq!(filter.is_preference(&asked.recipe().unwrap()), expected, "{asked:?}");
    }
}

proptest! {
    #[test]
    fn sections_cover_any_page_and_are_pages(
        parts in prop::collection::vec(prop::sample::select(vec![
            "<h1>", "</h1>", "<h2 id=a>", "</h2>", "<h3 id='b c'>", "</h3>", "text", "<", "&", ">", "<p>", "</p>", "<li>", "<ul>",
            "</ul>", "<table>", "<tr>", "<td>", "</table>", "<script>", "</script>", "<!--", "-->", "<body>", "<a href='", "'",
            "<br>", "<svg>", "<g/>", "</svg>", "</div>", "<div>", "<title>", "</title>", "é", "<head>", "</head>", "<html>",
        ]), 0..60),
    ) {
        let page = parts.concat();
        let found = Structure::of(page.as_bytes());
        let mut at = 0;
        for (index, section) in found.sections.iter().enumerate() {
            prop_assert!(section.range.start == at && section.range.end >= at);
            prop_assert!(section.parent.is_none_or(|parent| parent < index && found.sections[parent].level < section.level));
            prop_assert_eq!(found.find(&section.id), Some(index));
            let made = text(page_of(page.as_bytes(), Some(&section.id)));
            prop_assert!(made.contains("<svg>") || is_balanced(&made), "{}", made);
            at = section.range.end;
        }
        prop_assert_eq!(at, page.len());
        prop_assert!(is_balanced(&text(page_of(page.as_bytes(), None))));
    }

    #[test]
    fn any_bytes_have_a_structure(page: Vec<u8>) {
        let found = Structure::of(&page);
        prop_assert!(page_of(&page, Some(&found.sections[0].id)).is_ok());
    }
}
