//! XML of WebDAV: bodies of requests as small trees, and text of answers.
//!
//! Owns: [`parse`], which reads a body, and [`Element`], which can be written again wherever it is put: each carries
//! the namespaces that it needs. Guarantees: nothing outside of the body is read, because document types and with them
//! entities of their own are refused; the tree is bounded in depth and in elements, and has each namespace once; what
//! is written of names that a client chose has a bound (`*_within`). Knows no property.

use std::collections::HashSet;
use std::sync::Arc;

use quick_xml::events::{BytesStart, Event};
use quick_xml::name::{NamespaceResolver, ResolveResult};
use quick_xml::{NsReader, XmlVersion};

/// The namespace of WebDAV.
pub(super) const DAV: &str = "DAV:";
/// The namespace of the attributes that XML itself has, as `xml:lang`.
const XML: &str = "http://www.w3.org/XML/1998/namespace";
/// Bytes of a body.
pub(super) const BODY_BYTES_MAX: u64 = 64 * 1024;
/// Elements within each other.
const DEPTH_MAX: usize = 32;
/// Elements and attributes of a body.
const NAMES_MAX: usize = 2048;
/// Bytes of a namespace: said once, it is that of many names.
const NAMESPACE_BYTES_MAX: usize = 256;

/// A name with its namespace, which is empty if there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Name {
    /// All names of a body that have it share it.
    pub(super) namespace: Arc<str>,
    pub(super) local: String,
}

/// An element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) name: Name,
    attributes: Vec<(Name, String)>,
    content: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Element(Element),
    Text(String),
}

/// It is no XML that is understood here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl<E: std::error::Error> From<E> for Malformed {
    fn from(_: E) -> Malformed {
        Malformed
    }
}

/// The tree of `bytes`.
///
/// # Errors
/// It is not well-formed, has a document type, or is too deep.
pub(super) fn parse(bytes: &[u8]) -> Result<Element, Malformed> {
    let text = std::str::from_utf8(bytes)?;
    let mut reader = NsReader::from_str(text.strip_prefix('\u{feff}').unwrap_or(text));
    let mut open: Vec<Element> = Vec::new();
    let (mut root, mut names) = (None, Names::default());
    loop {
        let event = reader.read_event()?;
        match event {
            Event::Start(_) | Event::Empty(_) if root.is_some() => return Err(Malformed),
            Event::Start(start) => {
                if open.len() >= DEPTH_MAX {
                    return Err(Malformed);
                }
                open.push(element(&start, reader.resolver(), &mut names)?);
            }
            Event::Empty(start) => close(element(&start, reader.resolver(), &mut names)?, &mut open, &mut root),
            Event::End(_) => close(open.pop().ok_or(Malformed)?, &mut open, &mut root),
            Event::Text(text) => add(&text.xml10_content(), &mut open)?,
            Event::CData(text) => add(&text.xml10_content(), &mut open)?,
            Event::GeneralRef(reference) => {
                let mut bytes = [0; 4];
                let reference = reference.into_inner();
                let text = match quick_xml::escape::resolve_xml_entity(&reference) {
                    Some(text) => text,
                    None => &*character(&reference).ok_or(Malformed)?.encode_utf8(&mut bytes),
                };
                // Outside of the root a reference is no white space.
                if open.is_empty() {
                    return Err(Malformed);
                }
                add(text, &mut open)?;
            }
            Event::DocType(_) => return Err(Malformed),
            Event::Decl(declaration) => {
                // What is not UTF-8 would have been refused, and what says that it is not is.
                if let Some(encoding) = declaration.encoding() {
                    let encoding = encoding?.to_ascii_lowercase();
                    if encoding != "utf-8" && encoding != "us-ascii" {
                        return Err(Malformed);
                    }
                }
            }
            Event::Comment(_) | Event::PI(_) => {}
            Event::Eof => return root.filter(|_| open.is_empty()).ok_or(Malformed),
        }
    }
}

/// The character of a reference by number, as `#x41`.
fn character(reference: &str) -> Option<char> {
    let number = reference.strip_prefix('#')?;
    let code = match number.strip_prefix('x') {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => number.parse(),
    };
    char::from_u32(code.ok()?).filter(|character| is_allowed(*character))
}

/// Whether text of XML 1.0 may have it.
fn is_allowed(character: char) -> bool {
    !matches!(character, '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' | '\u{fffe}' | '\u{ffff}')
}

/// The names of a body.
#[derive(Default)]
struct Names {
    count: usize,
    namespaces: HashSet<Arc<str>>,
}

impl Names {
    /// Counts one more.
    fn count(&mut self) -> Result<(), Malformed> {
        self.count += 1;
        if self.count > NAMES_MAX { Err(Malformed) } else { Ok(()) }
    }

    fn name(&mut self, namespace: ResolveResult<'_>, local: &str) -> Result<Name, Malformed> {
        let namespace = match namespace {
            ResolveResult::Unbound => "",
            ResolveResult::Bound(namespace) => namespace.into_inner(),
            ResolveResult::Unknown(_) => return Err(Malformed),
        };
        // It is the value of an attribute, and given as it is written.
        let namespace = &*quick_xml::escape::unescape(namespace)?;
        let is_name = !local.is_empty()
            && !local.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '-' | '.'))
            && local
                .chars()
                .all(|one| one.is_alphanumeric() || matches!(one, '-' | '.' | '_' | '\u{b7}') || !one.is_ascii());
        if !is_name || namespace.len() > NAMESPACE_BYTES_MAX || !namespace.chars().all(is_allowed) {
            return Err(Malformed);
        }
        let shared = match self.namespaces.get(namespace) {
            Some(known) => known.clone(),
            None => {
                let new: Arc<str> = namespace.into();
                self.namespaces.insert(new.clone());
                new
            }
        };
        Ok(Name { namespace: shared, local: local.to_owned() })
    }
}

/// The element that begins so.
fn element(start: &BytesStart<'_>, resolver: &NamespaceResolver, names: &mut Names) -> Result<Element, Malformed> {
    names.count()?;
    let (namespace, local) = resolver.resolve_element(start.name());
    let mut element = Element { name: names.name(namespace, local.into_inner())?, ..Element::default() };
    for attribute in start.attributes() {
        names.count()?;
        let attribute = attribute?;
        let value = attribute.normalized_value(XmlVersion::Implicit1_0)?.into_owned();
        let key: &str = attribute.key.into_inner();
        if key == "xmlns" {
            continue;
        }
        if key.starts_with("xmlns:") {
            // A prefix cannot be taken back (Namespaces in XML 1.0).
            if value.is_empty() {
                return Err(Malformed);
            }
            continue;
        }
        let (namespace, local) = resolver.resolve_attribute(attribute.key);
        element.attributes.push((names.name(namespace, local.into_inner())?, value));
    }
    Ok(element)
}

fn close(element: Element, open: &mut [Element], root: &mut Option<Element>) {
    match open.last_mut() {
        Some(outer) => outer.content.push(Node::Element(element)),
        None => *root = Some(element),
    }
}

fn add(text: &str, open: &mut [Element]) -> Result<(), Malformed> {
    let Some(inner) = open.last_mut() else {
        return if text.trim_ascii().is_empty() { Ok(()) } else { Err(Malformed) };
    };
    if !text.chars().all(is_allowed) {
        return Err(Malformed);
    }
    match inner.content.last_mut() {
        Some(Node::Text(before)) => before.push_str(text),
        _ => inner.content.push(Node::Text(text.to_owned())),
    }
    Ok(())
}

impl Name {
    /// One of WebDAV.
    pub(super) fn dav(local: &str) -> Name {
        Name { namespace: DAV.into(), local: local.to_owned() }
    }

    /// Whether it is this one of WebDAV.
    pub(super) fn is_dav(&self, local: &str) -> bool {
        &*self.namespace == DAV && self.local == local
    }

    /// Writes an empty element of this name.
    pub(super) fn write_empty(&self, out: &mut String) {
        Element { name: self.clone(), ..Element::default() }.write(out);
    }

    /// Bytes of memory that it takes beside its namespace.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Name>() + self.local.capacity()
    }
}

/// Whether empty elements of all of `names` have at most `most` bytes.
pub(super) fn are_within<'n>(names: impl IntoIterator<Item = &'n Name>, most: usize) -> bool {
    let mut text = String::new();
    let mut left = Some(most);
    for name in names {
        text.clear();
        name.write_empty(&mut text);
        left = left.and_then(|left| left.checked_sub(text.len()));
        if left.is_none() {
            return false;
        }
    }
    true
}

impl Element {
    /// An element of WebDAV with these in it.
    pub(super) fn of(local: &str, children: Vec<Element>) -> Element {
        let content = children.into_iter().map(Node::Element).collect();
        Element { name: Name::dav(local), attributes: Vec::new(), content }
    }

    /// The elements in it.
    pub(super) fn children(&self) -> impl Iterator<Item = &Element> {
        self.content.iter().filter_map(|node| match node {
            Node::Element(element) => Some(element),
            Node::Text(_) => None,
        })
    }

    /// The same, taken out of it.
    pub(super) fn into_children(self) -> impl Iterator<Item = Element> {
        self.content.into_iter().filter_map(|node| match node {
            Node::Element(element) => Some(element),
            Node::Text(_) => None,
        })
    }

    /// The first element of WebDAV of this name in it.
    pub(super) fn child(&self, local: &str) -> Option<&Element> {
        self.children().find(|child| child.name.is_dav(local))
    }

    /// Writes it so that it means the same wherever it stands.
    pub(super) fn write(&self, out: &mut String) {
        self.write_in(None, (out, usize::MAX));
    }

    /// The same, in at most `most` bytes; none if it has more.
    pub(super) fn text_within(&self, most: usize) -> Option<String> {
        let mut out = String::new();
        self.write_in(None, (&mut out, most));
        (out.len() <= most).then_some(out)
    }

    /// Writes it, or so much of it that `out` has more than `most` bytes.
    fn write_in(&self, default: Option<&str>, (out, most): (&mut String, usize)) {
        if out.len() > most {
            return;
        }
        out.push('<');
        out.push_str(&self.name.local);
        if default != Some(&*self.name.namespace) {
            out.push_str(" xmlns=\"");
            push_text(&self.name.namespace, out);
            out.push('"');
        }
        for (number, (name, value)) in self.attributes.iter().enumerate() {
            if out.len() > most {
                return;
            }
            let prefix = match &*name.namespace {
                "" => String::new(),
                XML => "xml:".to_owned(),
                namespace => {
                    out.push_str(&format!(" xmlns:a{number}=\""));
                    push_text(namespace, out);
                    out.push('"');
                    format!("a{number}:")
                }
            };
            out.push_str(&format!(" {prefix}{}=\"", name.local));
            push_text(value, out);
            out.push('"');
        }
        if self.content.is_empty() {
            out.push_str("/>");
            return;
        }
        out.push('>');
        self.write_content_in(Some(&self.name.namespace), (out, most));
        out.push_str("</");
        out.push_str(&self.name.local);
        out.push('>');
    }

    /// Writes what is in it, as [`Element::write`] does.
    pub(super) fn write_content(&self, out: &mut String) {
        self.write_content_in(None, (out, usize::MAX));
    }

    /// Its content, in at most `most` bytes; none if it has more.
    pub(super) fn content_within(&self, most: usize) -> Option<String> {
        let mut out = String::new();
        self.write_content_in(None, (&mut out, most));
        (out.len() <= most).then_some(out)
    }

    fn write_content_in(&self, default: Option<&str>, (out, most): (&mut String, usize)) {
        for node in &self.content {
            match node {
                Node::Element(element) => element.write_in(default, (out, most)),
                Node::Text(text) => push_text(text, out),
            }
        }
    }
}

/// Writes `text` as content, or as a value of an attribute. Characters that XML cannot say are replaced.
pub(super) fn push_text(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\r' => out.push_str("&#13;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            character if is_allowed(character) => out.push(character),
            _ => out.push('\u{fffd}'),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(text: &str) -> Result<String, Malformed> {
        let mut out = String::new();
        parse(text.as_bytes())?.write(&mut out);
        Ok(out)
    }

    #[test]
    fn an_element_takes_its_namespaces_along() {
        for (given, expected) in [
            ("<a/>", "<a xmlns=\"\"/>"),
            ("<D:a xmlns:D=\"DAV:\"><D:b> x </D:b></D:a>", "<a xmlns=\"DAV:\"><b> x </b></a>"),
            ("<a xmlns=\"u\"><b xmlns=\"\"/></a>", "<a xmlns=\"u\"><b xmlns=\"\"/></a>"),
            ("<a xmlns=\"u?b=1&amp;c&#61;2\"/>", "<a xmlns=\"u?b=1&amp;c=2\"/>"),
            ("<D:a xmlns:D=\"DAV&#58;\"/>", "<a xmlns=\"DAV:\"/>"),
            (
                "<a xmlns:p=\"q\" p:c=\"1&amp;2\" xml:lang=\"de\"/>",
                "<a xmlns=\"\" xmlns:a0=\"q\" a0:c=\"1&amp;2\" xml:lang=\"de\"/>",
            ),
            (
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<a>&lt;&#65;&#x42;<![CDATA[<]]></a>\n",
                "<a xmlns=\"\">&lt;AB&lt;</a>",
            ),
        ] {
            assert_eq!(written(given).as_deref(), Ok(expected), "{given}");
            assert_eq!(written(expected).as_deref(), Ok(expected), "{given}");
        }
    }

    #[test]
    fn what_is_no_xml_and_what_reaches_beyond_it_is_refused() {
        let deep = "<a>".repeat(40) + &"</a>".repeat(40);
        let many = format!("<a>{}</a>", "<b/>".repeat(3000));
        let many_attributes = format!("<a>{}</a>", "<b c='' d=''/>".repeat(1000));
        let long = format!("<a xmlns='{}'/>", "u".repeat(300));
        for text in [
            "",
            "x",
            "<a>",
            "<a></b>",
            "<a/><b/>",
            "<a/>x",
            "<p:a/>",
            "<a p:b=\"\"/>",
            "<a b=\"1\" b=\"2\"/>",
            "<a>&x;</a>",
            "<a>&#0;</a>",
            "<b:a xmlns:b=\"\"/>",
            "<!DOCTYPE a [<!ENTITY x \"y\">]><a>&x;</a>",
            "<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>",
            "<?xml version=\"1.0\" encoding=\"utf-16\"?><a/>",
            &deep,
            &many,
            &many_attributes,
            &long,
        ] {
            assert_eq!(written(text), Err(Malformed), "{text}");
        }
    }

    #[test]
    fn a_namespace_is_there_once_and_what_is_written_of_it_is_bounded() {
        let body = format!("<q:p xmlns:q='{}'>{}</q:p>", "\"".repeat(256), "<q:a q:b=''/>".repeat(1000));
        let root = parse(body.as_bytes()).unwrap();
        let all = root.children().all(|child| Arc::ptr_eq(&child.name.namespace, &root.name.namespace));
        assert!(all && root.children().count() == 1000);
        assert_eq!((root.text_within(4096), root.content_within(4096)), (None, None));
        // What is given up was not written whole before.
        let mut out = String::new();
        root.write_in(None, (&mut out, 4096));
        assert!(out.len() < 8192, "{}", out.len());
        let names = || root.children().map(|child| &child.name);
        assert!(!are_within(names(), 64 * 1024) && are_within(names().take(10), 64 * 1024));
        let small = parse(b"<a>b<c/></a>").unwrap();
        assert_eq!(small.text_within(100).as_deref(), Some("<a xmlns=\"\">b<c/></a>"));
        assert_eq!(small.content_within(100).as_deref(), Some("b<c xmlns=\"\"/>"));
    }

    proptest! {
        #[test]
        fn whatever_is_read_is_written_so_that_it_is_read_as_the_same(text in "[<>/a-c:=\"' &;x!\\[\\]#0-9?-]{0,60}") {
            if let Ok(element) = parse(text.as_bytes()) {
                let mut out = String::new();
                element.write(&mut out);
                prop_assert_eq!(parse(out.as_bytes()), Ok(element), "{}", out);
            }
        }
    }
}
