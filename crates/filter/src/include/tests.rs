//! Tests of pages and the files that they include.

use super::*;
use proptest::prelude::*;

/// The result for `page`, at `/dir/page.html`, if there are these other files.
fn put_together(page: &str, files: &[(&str, &str)]) -> Result<String, Fault> {
    let make = make(&[("error".into(), "[wrong]".into())].into()).unwrap();
    let mut parts = Parts { path: "/dir/page.html".into(), modified_s: Some(784_111_777), ..Parts::default() };
    for _ in 0..=PARTS_MAX {
        let mut content = Content { parts: Some(Arc::new(parts.clone())), ..Content::new("text/html") };
        let mut filter = make.start(&mut content).unwrap();
        let mut out = Vec::new();
        filter.take(page.as_bytes(), &mut out)?;
        match filter.finish(&mut out) {
            Err(Fault::Wants(wanted)) => {
                for path in wanted {
                    let found = files.iter().find(|(name, _)| *name == path).map(|(_, text)| text.as_bytes().into());
                    assert!(parts.found.insert(path, found).is_none(), "nothing is wanted twice");
                }
            }
            done => return done.map(|()| String::from_utf8(out).unwrap()),
        }
    }
    panic!("it wants for ever");
}

fn page(page: &str, files: &[(&str, &str)]) -> String {
    put_together(page, files).unwrap()
}

#[test]
fn files_stand_where_they_are_included_and_include_others() {
    let files = [
        ("/head.html", "<h1>Head</h1>"),
        ("/dir/menu.html", "menu(<!--#include file=\"deep/one.html\" -->)"),
        ("/dir/deep/one.html", "one <!--#include virtual=\"../two%20.html\" -->"),
        ("/dir/two .html", "two"),
    ];
    let text = r#"<!--#include virtual="/head.html" -->|<!--#include virtual="menu.html?a=b" -->|"#;
    assert_eq!(page(text, &files), "<h1>Head</h1>|menu(one two)|");
    assert_eq!(page(r#"<!--#include file="two .html" -->"#, &files), "two");
}

#[test]
fn what_is_wrong_or_not_there_has_an_error_in_its_place() {
    for text in [
        r#"<!--#include virtual="/none.html" -->"#,
        r#"<!--#include virtual="" -->"#,
        r#"<!--#include virtual="../../up.html" -->"#,
        r#"<!--#include virtual="/%zz" -->"#,
        r#"<!--#include virtual="/a%00b" -->"#,
        r#"<!--#include file="../up.html" -->"#,
        r#"<!--#include file="/up.html" -->"#,
        r#"<!--#include virtual="page.html" -->"#,
        r#"<!--#include virtual="${open" -->"#,
        r#"<!--#exec cmd="ls" -->"#,
        r#"<!--#if expr="$a" -->"#,
        "<!--#endif -->",
        r#"<!--#if expr="$a ~ b" --><!--#endif -->"#,
        r#"<!--#set var="a b" value="" -->"#,
    ] {
        let expected = if text.contains("$a ~ b") { "a|b" } else { "a[wrong]|b" };
        let made = page(&format!("a{text}|b"), &[("/up.html", "up")]);
        match text {
            r#"<!--#if expr="$a" -->"# => assert_eq!(made, "a[wrong]"),
            _ => assert_eq!(made, expected, "{text}"),
        }
    }
}

#[test]
fn what_includes_itself_comes_to_an_end() {
    let files = [
        ("/dir/a.html", "a<!--#include virtual=\"b.html\" -->"),
        ("/dir/b.html", "b<!--#include virtual=\"a.html\" --><!--#include virtual=\"a.html\" -->"),
    ];
    assert_eq!(page("<!--#include virtual=\"a.html\" -->", &files), "ab[wrong][wrong]");
    let chain: Vec<(String, String)> =
        (0..12).map(|at| (format!("/dir/{at}"), format!("{at} <!--#include virtual=\"{}\" -->", at + 1))).collect();
    let chain: Vec<(&str, &str)> = chain.iter().map(|(name, text)| (&**name, &**text)).collect();
    assert_eq!(page("<!--#include virtual=\"0\" -->", &chain), "0 1 2 3 4 5 6 7 [wrong]");
}

#[test]
fn variables_are_set_shown_and_compared() {
    for (text, expected) in [
        (r#"<!--#echo var="DOCUMENT_NAME" --> <!--#echo var="DOCUMENT_URI" -->"#, "page.html /dir/page.html"),
        (r#"<!--#echo var="LAST_MODIFIED" -->"#, "Sun, 06 Nov 1994 08:49:37 GMT"),
        (r#"<!--#echo var="none" -->"#, "(none)"),
        (r#"<!--#set var="a" value='<&">' --><!--#echo var="a" -->"#, "&lt;&amp;&quot;&gt;"),
        (r#"<!--#set var="a" value="<b>" --><!--#echo var="a" encoding="none" -->"#, "<b>"),
        (r#"<!--#set var="a" value="b c" --><!--#echo encoding="url" var="a" -->"#, "b%20c"),
        (r#"<!--#set var="a" value="1" --><!--#set var="b" value="${a}2$a$" --><!--#echo var="b" -->"#, "121$"),
        (r#"<!--#set var="a" value="1" --><!--#if expr="$a = 1" -->x<!--#else -->y<!--#endif -->z"#, "xz"),
        (r#"<!--#if expr="$a" -->x<!--#elif expr="$a = ''" -->y<!--#else -->z<!--#endif -->"#, "y"),
        (r#"<!--#if expr="!$a" -->x<!--#if expr="$a" -->y<!--#endif -->z<!--#endif -->"#, "xz"),
        (
            r#"<!--#if expr="$a" --><!--#if expr="!$a" -->x<!--#else -->y<!--#endif --><!--#else -->z<!--#endif -->"#,
            "z",
        ),
        (
            r#"<!--#if expr="$a" --><!--#include virtual="/none" --><!--#set var="b" value="c" --><!--#endif --><!--#echo var="b" -->"#,
            "(none)",
        ),
        (r#"<!--#config errmsg="sorry" --><!--#include virtual="/none" -->"#, "sorry"),
        (r#"<!--#set var="name" value="menu" --><!--#include virtual="/$name.html" -->"#, "menu of page.html"),
    ] {
        assert_eq!(page(text, &[("/menu.html", r#"menu of <!--#echo var="DOCUMENT_NAME" -->"#)]), expected, "{text}");
    }
}

#[test]
fn a_page_is_bounded_whatever_it_says() {
    let mebibyte = "x".repeat(1 << 20);
    let text = "<!--#include virtual=\"/large\" -->".repeat(20);
    assert_eq!(put_together(&text, &[("/large", &mebibyte)]), Err(Fault::TooLarge(BYTES_MAX)));
    let many: String = (0..=PARTS_MAX).map(|at| format!("<!--#include virtual=\"/{at}\" -->")).collect();
    assert_eq!(put_together(&many, &[]), Err(Fault::Content("it includes more than 100 files".into())));
    let endless = "<!--#else -->".repeat(DIRECTIVES_MAX + 1);
    assert!(matches!(put_together(&endless, &[]), Err(Fault::Content(_))));
    let growing = "<!--#set var=\"a\" value=\"$a$a$a!\" -->".repeat(40) + "<!--#echo var=\"a\" -->";
    assert!(page(&growing, &[]).ends_with('!'));
    let variables: String = (0..200).map(|at| format!("<!--#set var=\"v{at}\" value=\"\" -->")).collect();
    assert!(page(&variables, &[]).contains("[wrong]"));
}

#[test]
fn what_is_no_text_or_comes_as_a_stream_is_left_alone() {
    let make = make(&Parameters::new()).unwrap();
    assert!(make.start(&mut Content::new("text/html")).is_none());
    let picture = Content { parts: Some(Arc::default()), ..Content::new("image/png") };
    assert!(make.start(&mut picture.clone()).is_none());
}

proptest! {
    #[test]
    fn any_texts_come_to_an_end(
        texts in prop::collection::vec(
            prop::collection::vec(prop::sample::select(vec![
                "<!--#include virtual=\"/0\" -->", "<!--#include virtual=\"/1\" -->", "<!--#include file=\"2\" -->", "<!--#if expr=\"$a\" -->",
                "<!--#set var=\"a\" value=\"b$a\" -->", "<!--#else -->", "<!--#endif -->", "<!--#echo var=\"a\" -->", "<!--#", "-->", "\"", "x",
            ]), 0..8),
            4,
        )
    ) {
        let texts: Vec<String> = texts.iter().map(|pieces| pieces.concat()).collect();
        let files = [("/0", &*texts[1]), ("/1", &*texts[2]), ("/dir/2", &*texts[3]), ("/2", "y")];
        let made = page(&texts[0], &files);
        prop_assert_eq!(&made, &page(&texts[0], &files));
    }
}
