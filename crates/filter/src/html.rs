//! Common parts of filters of pages: text as HTML, and `lol_html` as a filter.
//!
//! Owns: [`escaped`], and [`rewriting`]. HTML is understood by `lol_html`, in one pass and with bounded memory, as a
//! browser would.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lol_html::errors::RewritingError;
use lol_html::send::{HtmlRewriter, Settings};
use lol_html::{MemorySettings, OutputSink};

use crate::{Fault, Filter};

/// The most that one page may make the rewriter hold: the longest tag.
pub(crate) const MEMORY_BYTES_MAX: usize = 4 << 20;

/// `text` as HTML that shows it, between tags and in attributes in double quotes.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A filter that does what `settings` say, within [`MEMORY_BYTES_MAX`].
pub(crate) fn rewriting(settings: Settings<'static, 'static>) -> Box<dyn Filter> {
    let memory = MemorySettings::new().with_max_allowed_memory_usage(MEMORY_BYTES_MAX);
    let rewritten = Rewritten::default();
    let rewriter = HtmlRewriter::new(settings.with_strict(false).with_memory_settings(memory), rewritten.clone());
    Box::new(Rewriting { rewriter: Some(rewriter), rewritten })
}

struct Rewriting {
    /// None when the page has ended.
    rewriter: Option<HtmlRewriter<'static, Rewritten>>,
    rewritten: Rewritten,
}

/// The rewriter's output: both it and the filter have it, and they run one after the other.
#[derive(Clone, Default)]
struct Rewritten(Arc<Mutex<Vec<u8>>>);

impl Rewritten {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutputSink for Rewritten {
    fn handle_chunk(&mut self, chunk: &[u8]) {
        self.bytes().extend_from_slice(chunk);
    }
}

impl Filter for Rewriting {
    fn take(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        let Some(rewriter) = &mut self.rewriter else { return Ok(()) };
        rewriter.write(piece).map_err(fault)?;
        out.append(&mut self.rewritten.bytes());
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        if let Some(rewriter) = self.rewriter.take() {
            rewriter.end().map_err(fault)?;
        }
        out.append(&mut self.rewritten.bytes());
        Ok(())
    }
}

fn fault(error: RewritingError) -> Fault {
    Fault::Content(format!("the page cannot be read as HTML: {error}"))
}
