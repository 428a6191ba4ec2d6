//! The texts of the pages of a site that is searched, and how many searches are under way.
//!
//! Owns: [`Texts`]. Guarantees: searches at once are bounded. Reads nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use lamna_filter::search::Text;

use super::kept::Kept;

/// Bytes of memory that the texts of a site's pages may take in one process.
const TEXTS_BYTES_MAX: u64 = 64 << 20;
/// Searches of a site at once in one process. Who comes then is asked to come again.
const SEARCHES_MAX: usize = 4;

/// The texts of the pages of a site, and how many searches are under way.
#[derive(Debug)]
pub struct Texts {
    /// The text of each file.
    pub(super) kept: Kept<Text>,
    under_way: AtomicUsize,
}

impl Default for Texts {
    fn default() -> Texts {
        Texts { kept: Kept::new(TEXTS_BYTES_MAX), under_way: AtomicUsize::new(0) }
    }
}

/// One of the searches that are under way.
#[derive(Debug)]
pub(super) struct Turn(Arc<Texts>);

impl Turn {
    pub(super) fn take(texts: &Arc<Texts>) -> Option<Turn> {
        let turn = Turn(texts.clone());
        // Dropped where there are too many.
        (texts.under_way.fetch_add(1, Relaxed) < SEARCHES_MAX).then_some(turn)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_searches_are_under_way_and_no_more() {
        let texts = Arc::new(Texts::default());
        let mut turns: Vec<_> = (0..SEARCHES_MAX).map(|_| Turn::take(&texts).unwrap()).collect();
        assert!(Turn::take(&texts).is_none());
        turns.pop();
        assert!(Turn::take(&texts).is_some());
    }
}
