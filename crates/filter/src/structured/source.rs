//! The markup languages of pages that have sections.
//!
//! ```text
//!   content ── structure ──> sections and what they share, as ranges of the content
//!   a range ── section ────> HTML
//! ```
//!
//! Owns: the choice between HTML, Markdown and plain text. Guarantees: a section is made of its own part of the content
//! and of the parts that sections share, and of nothing else. Each form says itself what a heading is: [`super::html`],
//! [`super::markdown`], [`super::plain`].

use std::borrow::Cow;
use std::sync::Arc;

use super::structure::{Section, Structure};
use super::{html, markdown, plain};
use crate::markdown::Markdown;

/// The markup language of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source(Form);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Form {
    #[default]
    Html,
    /// With its charset.
    Text(String),
    Markdown(Arc<Markdown>),
}

impl Source {
    /// HTML.
    pub(crate) const HTML: Source = Source(Form::Html);

    /// Plain text in this charset.
    pub(crate) fn text(charset: String) -> Source {
        Source(Form::Text(charset))
    }

    /// Markdown that becomes such pages.
    pub(crate) fn markdown(pages: Markdown) -> Source {
        Source(Form::Markdown(Arc::new(pages)))
    }

    /// Whether it is HTML as it is.
    pub fn is_html(&self) -> bool {
        self.0 == Form::Html
    }

    /// The structure of `content`. None if it cannot be divided.
    pub fn structure(&self, content: &[u8]) -> Option<Structure> {
        match &self.0 {
            Form::Html => Some(html::structure(content)),
            Form::Text(charset) => Some(plain::structure(content, charset)),
            Form::Markdown(pages) => markdown::structure(pages, content),
        }
    }

    /// Style sheets for the head of a section.
    pub(super) fn styles<'a>(&self, shared: &[&'a [u8]]) -> Vec<Cow<'a, [u8]>> {
        match &self.0 {
            Form::Html => shared.iter().map(|style| Cow::Borrowed(*style)).collect(),
            Form::Text(_) => Vec::new(),
            Form::Markdown(pages) => pages.style_link().map(|link| Cow::Owned(link.into_bytes())).into_iter().collect(),
        }
    }

    /// A section as HTML, of its own part of the content and the `shared` ones.
    pub(super) fn section<'a>(&self, section: &Section, own: &'a [u8], shared: &[&[u8]]) -> Cow<'a, [u8]> {
        match &self.0 {
            Form::Html => Cow::Borrowed(own),
            Form::Text(_) => Cow::Owned(plain::html(own)),
            Form::Markdown(pages) => Cow::Owned(markdown::html(pages, section, own, shared).into_bytes()),
        }
    }
}
