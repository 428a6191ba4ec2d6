//! Subresources and links of a page, found in its HTML.
//!
//! Owns: [`links`], which understands pages by `lol_html`, as browsers do: in one pass, with bounded memory.
//! Guarantees: what it gives is what a browser would ask for early: style sheets that apply to screens, scripts that
//! the parser waits for or that run in order, and what the page itself preloads. URLs are as written, but for character
//! references. Does not resolve URLs, and does not follow them.

use std::cell::RefCell;

use lol_html::html_content::Element;
use lol_html::{HtmlRewriter, MemorySettings, Settings, element};

use crate::html::MEMORY_BYTES_MAX;

/// The fetch destination of a resource (Fetch, request destination), as `as` of a preload says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// A style sheet.
    Style,
    /// A script that is no module.
    Script,
    /// A script that is one.
    Module,
    /// A font.
    Font,
    /// A request of a script.
    Fetch,
    /// A picture.
    Image,
}

impl Destination {
    /// As `as` says it.
    pub fn name(self) -> &'static str {
        match self {
            Destination::Style => "style",
            Destination::Script | Destination::Module => "script",
            Destination::Font => "font",
            Destination::Fetch => "fetch",
            Destination::Image => "image",
        }
    }

    /// The fetch destination (`as`, `Sec-Fetch-Dest`); none if it is unknown or not worth a preload.
    pub fn from_name(name: &str) -> Option<Destination> {
        Some(match name {
            "style" => Destination::Style,
            "script" => Destination::Script,
            "font" => Destination::Font,
            "fetch" => Destination::Fetch,
            "image" => Destination::Image,
            _ => return None,
        })
    }
}

/// Whose credentials go with a request, and whether its answer is for scripts (HTML, CORS settings attributes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CrossOrigin {
    /// The attribute is not there.
    #[default]
    None,
    /// `anonymous`, or no value.
    Anonymous,
    /// `use-credentials`.
    WithCredentials,
}

/// A resource that a page needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// As written, without a fragment.
    pub url: String,
    /// The fetch destination.
    pub destination: Destination,
    /// How it is asked for.
    pub cross_origin: CrossOrigin,
    /// Its media type, if the page says it.
    pub media_type: Option<String>,
}

/// The references of a page, each kind in the order of the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// The URL that others are relative to, if the page says so.
    pub base: Option<String>,
    /// Resources that it needs early.
    pub subresources: Vec<Subresource>,
    /// Pictures that it shows, but for those that may wait until they are looked at (`loading=lazy`). As written,
    /// without a fragment.
    pub pictures: Vec<String>,
    /// Where it leads.
    pub pages: Vec<String>,
}

/// Most references of each kind. The first ones are those that are needed first.
pub const LINKS_MAX: usize = 64;

/// The references of the page `html`, as far as it can be read.
pub fn links(html: &[u8]) -> Links {
    let links = RefCell::new(Links::default());
    let settings = Settings::new()
        .with_strict(false)
        .with_memory_settings(MemorySettings::new().with_max_allowed_memory_usage(MEMORY_BYTES_MAX))
        .append_element_content_handler(element!(
            "base[href], link[href], script[src], img[src], a[href]",
            |element| {
                links.borrow_mut().add(element);
                Ok(())
            }
        ));
    let mut rewriter = HtmlRewriter::new(settings, |_: &[u8]| {});
    // What has been read of a page that cannot be read to its end holds.
    let _ = rewriter.write(html).and_then(|()| rewriter.end());
    links.into_inner()
}

impl Links {
    fn add(&mut self, element: &Element<'_, '_>) {
        match &*element.tag_name() {
            "base" if self.base.is_none() => self.base = url(element, "href"),
            "link" => self.subresources.extend(of_link(element)),
            "script" => self.subresources.extend(of_script(element)),
            "img" if self.pictures.len() < LINKS_MAX => self.pictures.extend(of_picture(element)),
            "a" if self.pages.len() < LINKS_MAX => self.pages.extend(url(element, "href")),
            _ => {}
        }
        self.subresources.truncate(LINKS_MAX);
    }
}

/// HTML 4.6: `rel` is a set of keywords.
fn of_link(element: &Element<'_, '_>) -> Option<Subresource> {
    let rel = element.get_attribute("rel")?.to_ascii_lowercase();
    let is = |keyword: &str| rel.split_ascii_whitespace().any(|one| one == keyword);
    let media = element.get_attribute("media").unwrap_or_default();
    if !matches!(media.trim(), "" | "all" | "screen") || element.has_attribute("disabled") {
        return None;
    }
    let destination = if is("stylesheet") && !is("alternate") {
        Destination::Style
    } else if is("modulepreload") {
        Destination::Module
    } else if is("preload") && !element.has_attribute("imagesrcset") {
        Destination::from_name(&element.get_attribute("as")?.to_ascii_lowercase())?
    } else {
        return None;
    };
    subresource(element, "href", destination)
}

/// HTML 4.12.1: a script that is `async`, or a module, waits for nothing and nothing waits for it.
fn of_script(element: &Element<'_, '_>) -> Option<Subresource> {
    let media_type = element.get_attribute("type").unwrap_or_default().trim().to_ascii_lowercase();
    let is_classic = media_type.is_empty() || media_type.ends_with("javascript") || media_type.ends_with("ecmascript");
    let is_late = element.has_attribute("async") || element.has_attribute("nomodule");
    if !is_classic || is_late {
        return None;
    }
    let script = subresource(element, "src", Destination::Script)?;
    Some(Subresource { media_type: None, ..script })
}

/// HTML 4.8.3.
fn of_picture(element: &Element<'_, '_>) -> Option<String> {
    let is_lazy = element.get_attribute("loading").is_some_and(|value| value.trim().eq_ignore_ascii_case("lazy"));
    url(element, "src").filter(|_| !is_lazy)
}

fn subresource(element: &Element<'_, '_>, attribute: &str, destination: Destination) -> Option<Subresource> {
    let cross_origin = match element.get_attribute("crossorigin") {
        None => CrossOrigin::None,
        Some(value) if value.trim().eq_ignore_ascii_case("use-credentials") => CrossOrigin::WithCredentials,
        Some(_) => CrossOrigin::Anonymous,
    };
    let is_type = |text: &String| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/+-.".contains(&byte))
    };
    let media_type = element.get_attribute("type").map(|text| text.trim().to_ascii_lowercase()).filter(is_type);
    Some(Subresource { url: url(element, attribute)?, destination, cross_origin, media_type })
}

/// A URL without its fragment; none if there is nothing but that, or what it says is not clear.
fn url(element: &Element<'_, '_>, attribute: &str) -> Option<String> {
    let text = element.get_attribute(attribute)?.replace("&amp;", "&");
    let url = text.trim().split('#').next()?;
    // Any other character reference would have to be decoded.
    let has_reference = text.contains("&#") || url.contains('&') && url.contains(';');
    (!url.is_empty() && !has_reference).then(|| url.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(html: &str) -> Vec<(String, Destination, CrossOrigin)> {
        let links = links(html.as_bytes());
        links.subresources.into_iter().map(|one| (one.url, one.destination, one.cross_origin)).collect()
    }

    #[test]
    fn a_page_needs_its_style_sheets_its_scripts_and_what_it_preloads() {
        let page = r##"<!doctype html><title>t</title>
            <link rel=stylesheet href="/a.css?v=1&amp;w=2#x">
            <link rel="Preload" as=font type=font/woff2 crossorigin href=f.woff2>
            <script src=/a.js></script><script src=b.js defer crossorigin=use-credentials></script>
            <link rel=modulepreload href=m.mjs><img src=/i.png>"##;
        let (none, anonymous) = (CrossOrigin::None, CrossOrigin::Anonymous);
        assert_eq!(
            found(page),
            [
                ("/a.css?v=1&w=2".to_owned(), Destination::Style, none),
                ("f.woff2".to_owned(), Destination::Font, anonymous),
                ("/a.js".to_owned(), Destination::Script, none),
                ("b.js".to_owned(), Destination::Script, CrossOrigin::WithCredentials),
                ("m.mjs".to_owned(), Destination::Module, none),
            ]
        );
        assert_eq!(links(page.as_bytes()).subresources[1].media_type.as_deref(), Some("font/woff2"));
    }

    #[test]
    fn what_nothing_waits_for_is_not_needed_early() {
        for html in [
            "<script src=a.js async></script>",
            "<script src=a.mjs type=module></script>",
            "<script src=a.js nomodule></script>",
            "<script src=a.json type=application/json></script>",
            "<script>let a = '<link rel=stylesheet href=a.css>'</script>",
            "<!-- <link rel=stylesheet href=a.css> -->",
            "<link rel=stylesheet media=print href=a.css>",
            "<link rel='alternate stylesheet' href=a.css>",
            "<link rel=stylesheet disabled href=a.css>",
            "<link rel=preload as=video href=a.mp4>",
            "<link rel=preload as=image imagesrcset='a 2x' href=a>",
            "<link rel=icon href=a.png>",
            "<link rel=stylesheet href='#'>",
            "<link rel=stylesheet href='/&eacute;.css'>",
        ] {
            assert_eq!(found(html), [], "{html}");
        }
    }

    #[test]
    fn a_page_leads_to_others_and_says_what_its_urls_are_relative_to() {
        let links = links(
            b"<base href=/b/><base href=/c/><a href=one>1</a><a name=x>x</a><a href='#x'>x</a><a href=two#y>2</a>",
        );
        assert_eq!((links.base.as_deref(), links.pages), (Some("/b/"), vec!["one".to_owned(), "two".to_owned()]));
    }

    proptest! {
        #[test]
        fn any_page_can_be_read(html in "(<(link|a|script|base) (rel|href|src|as)=[a-z&;'\"#/]{0,8}>?|[ -~]){0,30}") {
            let links = links(html.as_bytes());
            prop_assert!(links.subresources.iter().all(|one| !one.url.is_empty() && !one.url.contains('#')));
        }
    }

    #[test]
    fn pictures_are_those_that_are_shown_at_once() {
        let page = b"<img src=/a.png#x alt=a><img src=b.png loading=Lazy><picture><source srcset=c.webp><img src='c.png'></picture><img alt=d>";
        assert_eq!(links(page).pictures, ["/a.png", "c.png"]);
    }

    #[test]
    fn a_page_of_links_has_no_more_than_count() {
        let page = "<a href=a><link rel=stylesheet href=b>".repeat(1_000);
        let links = links(page.as_bytes());
        assert_eq!((links.pages.len(), links.subresources.len()), (LINKS_MAX, LINKS_MAX));
    }
}
