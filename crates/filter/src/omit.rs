//! The filter `omit`: removes kinds of content from pages on request.
//!
//! ```text
//! ?omit=pictures,media, Save-Data: on ── recipe ──> omit=media,pictures ── start ──> elements are left out, a picture's text stays
//! ```
//!
//! Owns: which elements are of which kind. Guarantees: without being asked it leaves pages alone; equal requests have
//! one spelling. What style sheets and scripts load is none of the page's elements: it is left out with them only. For
//! files only.

use std::collections::BTreeSet;
use std::sync::Arc;

use lol_html::element;
use lol_html::html_content::ContentType;
use lol_html::send::Settings;

use crate::client_hints::is_on;
use crate::html::rewriting;
use crate::{Content, Effect, Fault, Filter, Kind, Lines, Make, Parameters};

/// The row of the table.
pub(crate) const KIND: Kind = Kind {
    name: "omit",
    about: "Leaves pictures, media, frames, scripts or styles out of pages on request.",
    version: 1,
    effect: Effect::None,
    required: &[],
    optional: &[(
        "save_data",
        "Kinds that are left out for clients that save data (Save-Data: on), as \"media,pictures\"",
    )],
    make,
};

/// A kind of content, and the elements that are left out with it.
struct Omitted {
    name: &'static str,
    elements: &'static [&'static str],
}

/// All of them, by name. `img` and `noscript` are treated on their own.
const KINDS: [Omitted; 5] = [
    Omitted { name: "frames", elements: &["iframe", "frame"] },
    Omitted {
        name: "media",
        elements: &[
            "audio",
            "video",
            "object",
            "embed",
            "link[rel=\"preload\" i][as=\"video\" i]",
            "link[rel=\"preload\" i][as=\"audio\" i]",
        ],
    },
    Omitted { name: "pictures", elements: &["picture > source", "link[rel=\"preload\" i][as=\"image\" i]"] },
    Omitted {
        name: "scripts",
        elements: &["script", "link[rel=\"modulepreload\" i]", "link[rel=\"preload\" i][as=\"script\" i]"],
    },
    Omitted {
        name: "styles",
        elements: &[
            "style",
            "link[rel~=\"stylesheet\" i]",
            "link[rel=\"preload\" i][as=\"style\" i]",
            "link[rel=\"preload\" i][as=\"font\" i]",
        ],
    },
];

/// Kinds by name.
type Kinds = BTreeSet<&'static str>;

#[derive(Debug)]
struct Omit {
    to_save: Kinds,
}

fn make(parameters: &Parameters) -> Result<Arc<dyn Make>, String> {
    let to_save = parameters.get("save_data").map_or(Some(Kinds::new()), |names| kinds(names));
    let to_save = to_save.ok_or_else(|| format!("`save_data` names kinds of content: {}", known()))?;
    Ok(Arc::new(Omit { to_save }))
}

/// All of [`KINDS`], for people.
fn known() -> String {
    KINDS.map(|kind| kind.name).join(", ")
}

/// The kinds that `names` names, as `media,pictures`; none if it names another one.
fn kinds(names: &str) -> Option<Kinds> {
    let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(|name| KINDS.iter().map(|kind| kind.name).find(|kind| *kind == name)).collect()
}

const ASKED: &str = "omit=";
const TO_SAVE: &str = "omit:to-save=";

impl Make for Omit {
    fn start(&self, content: &mut Content) -> Option<Box<dyn Filter>> {
        let recipe = content.query.as_deref()?;
        let names = recipe.strip_prefix(ASKED).or_else(|| recipe.strip_prefix(TO_SAVE))?;
        if !content.is_plain() || !content.is_of(&["text/html", "application/xhtml+xml"]) {
            return None;
        }
        Some(match kinds(names) {
            Some(kinds) => rewriting(settings(&kinds)),
            None => Box::new(Unknown),
        })
    }

    fn recipe(&self, query: &[u8], lines: Lines<'_>) -> Option<String> {
        let spelled = |kinds: Kinds| kinds.into_iter().collect::<Vec<_>>().join(",");
        let asked = query.split(|byte| *byte == b'&').find_map(|part| part.strip_prefix(ASKED.as_bytes()));
        match asked {
            Some(names) => {
                let names = String::from_utf8_lossy(names).replace("%2C", ",").replace("%2c", ",");
                // A name that there is not is the same whichever it is.
                let names = kinds(&names).map_or_else(|| "?".to_owned(), spelled);
                (!names.is_empty()).then(|| ASKED.to_owned() + &names)
            }
            None if self.to_save.is_empty() => None,
            None => {
                let saves = lines("save-data").into_iter().any(is_on);
                saves.then(|| TO_SAVE.to_owned() + &spelled(self.to_save.clone()))
            }
        }
    }

    fn is_preference(&self, recipe: &str) -> bool {
        recipe.starts_with(TO_SAVE)
    }

    fn varies_by(&self) -> &'static [&'static str] {
        if self.to_save.is_empty() { &[] } else { &["Save-Data"] }
    }

    fn has_recipes(&self) -> bool {
        true
    }
}

/// The rewriter's handlers for pages from which `kinds` are left out.
fn settings(kinds: &Kinds) -> Settings<'static, 'static> {
    let mut settings = Settings::new_send();
    for selector in KINDS.iter().filter(|kind| kinds.contains(kind.name)).flat_map(|kind| kind.elements) {
        settings = settings.append_element_content_handler(element!(*selector, |element| {
            element.remove();
            Ok(())
        }));
    }
    if kinds.contains("pictures") {
        settings = settings.append_element_content_handler(element!("img", |element| {
            // The attribute is HTML, but for signs that begin and end tags.
            let text = element.get_attribute("alt").unwrap_or_default().replace('<', "&lt;").replace('>', "&gt;");
            element.replace(&text, ContentType::Html);
            Ok(())
        }));
    }
    if kinds.contains("scripts") {
        settings = settings.append_element_content_handler(element!("noscript", |element| {
            element.remove_and_keep_content();
            Ok(())
        }));
    }
    settings
}

/// The filter of a request that names an unknown kind.
struct Unknown;

impl Filter for Unknown {
    fn take(&mut self, _: &[u8], _: &mut Vec<u8>) -> Result<(), Fault> {
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), Fault> {
        Err(Fault::Request(format!("What can be left out is: {}", known())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn omitted(recipe: &str, page: &str) -> Result<String, Fault> {
        let make = make(&Parameters::new()).unwrap();
        let mut content = Content { query: Some(recipe.to_owned()), ..Content::new("text/html") };
        let mut filter = make.start(&mut content).unwrap();
        let mut out = Vec::new();
        filter.take(page.as_bytes(), &mut out)?;
        filter.finish(&mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    fn recipe(save_data: &str, query: &str, line: Option<&str>) -> Option<String> {
        let make = make(&[("save_data".to_owned(), save_data.to_owned())].into()).unwrap();
        let lines = |name: &'static str| line.filter(|_| name == "save-data").map(str::as_bytes).into_iter().collect();
        make.recipe(query.as_bytes(), &lines)
    }

    #[test]
    fn elements_of_a_kind_are_left_out_and_the_text_of_pictures_stays() {
        for (kinds, page, expected) in [
            ("pictures", "a<img src=b alt='c &amp; <d>'>e<IMG>f", "ac &amp; &lt;d&gt;ef"),
            ("pictures", "<picture><source srcset=a><img src=b alt=c></picture>", "<picture>c</picture>"),
            ("pictures", "<video><source src=a></video>", "<video><source src=a></video>"),
            ("media", "<video><source src=a>no video</video>b<audio src=c></audio><embed src=d>", "b"),
            ("frames", "a<iframe src=b>c</iframe>d", "ad"),
            ("scripts", "<script>'<p>'</script><noscript><p>a</noscript><link rel=modulepreload href=b>", "<p>a"),
            (
                "styles",
                "<style>a</style><link rel='icon'><link REL='alternate StyleSheet' href=b>c",
                "<link rel='icon'>c",
            ),
            (
                "styles",
                "<link rel=preload as=font href=a><link rel=preload as=image href=b>",
                "<link rel=preload as=image href=b>",
            ),
            ("frames,scripts", "<script></script>a<style></style>", "a<style></style>"),
        ] {
            assert_eq!(omitted(&format!("omit={kinds}"), page).unwrap(), expected, "{kinds}");
        }
        assert!(matches!(omitted("omit=?", "a"), Err(Fault::Request(why)) if why.contains("frames, media, pictures")));
    }

    #[test]
    fn a_wish_has_one_spelling_and_a_query_decides_before_fields_do() {
        for (query, line, expected) in [
            ("", None, None),
            ("omit=styles,media,styles", None, Some("omit=media,styles")),
            ("a=b&omit=media%2Cframes", None, Some("omit=frames,media")),
            ("omit=everything", None, Some("omit=?")),
            ("omit=nothing,media", None, Some("omit=?")),
            ("", Some("on"), Some("omit:to-save=media,pictures")),
            ("omit=", Some("on"), None),
            ("omit=frames", Some("on"), Some("omit=frames")),
            ("", Some("off"), None),
        ] {
            assert_eq!(recipe("pictures, media", query, line).as_deref(), expected, "{query} {line:?}");
        }
        assert_eq!(recipe("", "", Some("on")), None);
        let wrong = make(&[("save_data".to_owned(), "words".to_owned())].into()).unwrap_err();
        assert_eq!(wrong, "`save_data` names kinds of content: frames, media, pictures, scripts, styles");
    }

    proptest! {
        #[test]
        fn any_page_is_no_larger_and_a_page_without_such_elements_is_the_same(
            page in "(<(img|p|video|script|link rel=stylesheet|iframe)( alt=[a-c]{0,3})?>|</(video|p|script|iframe)>|[a-c &]{0,4}){0,12}"
        ) {
            let made = omitted("omit=frames,media,pictures,scripts,styles", &page).unwrap();
            prop_assert!(made.len() <= page.len());
            for tag in ["<img", "<video", "<link"] {
                prop_assert!(!made.contains(tag) || page.contains("<script") || page.contains("<iframe"), "{}", made);
            }
            let plain = page.replace('<', "");
            prop_assert_eq!(omitted("omit=frames,media,pictures,scripts,styles", &plain).unwrap(), plain);
        }
    }
}
