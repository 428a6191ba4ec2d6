//! Which page each connection shows, when pages were asked for last, and which pairs have been counted.
//!
//! Owns: three tables of fixed size, each place of which holds what came there last. Guarantees: memory is bounded
//! whatever clients do; what is overwritten costs an observation and nothing else. Holds numbers that mean nothing once
//! a connection has ended, and no addresses.

use lamna_policy::hints::UrlId;
use lamna_policy::random::spread;

/// How long after a page what its connection asks for belongs to it.
pub(super) const ORDER_MS: u32 = 10_000;

/// A page that was asked for over a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct View {
    connection: u64,
    page: u64,
    at_ms: u32,
    /// Which of all views it is.
    number: u32,
}

/// When a page was asked for last, by any client.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    page: u64,
    at_ms: u32,
    number: u32,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Views {
    views: Box<[View]>,
    recent: Box<[Recent]>,
    counted: Box<[u32]>,
    /// How many pages were asked for.
    pages: u32,
}

/// Bytes for each place of the three tables.
const PLACE_BYTES: usize = size_of::<View>() + size_of::<Recent>() + 2 * size_of::<u32>();

impl Views {
    /// Tables of at most `bytes` bytes, and at least one place each.
    pub(super) fn new(bytes: usize) -> Views {
        let places = (bytes / PLACE_BYTES).max(1);
        Views {
            views: vec![View::default(); places].into(),
            recent: vec![Recent::default(); places].into(),
            counted: vec![0; 2 * places].into(),
            pages: 0,
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.views) + size_of_val(&*self.recent) + size_of_val(&*self.counted)
    }

    /// `page` was asked for over `connection`.
    pub(super) fn handle_page(&mut self, connection: u64, page: UrlId, at_ms: u32) {
        self.pages = self.pages.wrapping_add(1);
        let (number, place) = (self.pages, place(page.hash(), self.recent.len()));
        self.recent[place] = Recent { page: page.hash(), at_ms, number };
        if connection != 0 {
            let place = place_of_connection(connection, self.views.len());
            self.views[place] = View { connection, page: page.hash(), at_ms, number };
        }
    }

    /// The page that `connection` shows, and when it was asked for, unless that is long ago.
    pub(super) fn page_of(&self, connection: u64, now_ms: u32) -> Option<(UrlId, u32)> {
        let view = self.views[place_of_connection(connection, self.views.len())];
        let is_it = connection != 0 && view.connection == connection && now_ms.wrapping_sub(view.at_ms) <= ORDER_MS;
        is_it.then(|| (UrlId::of_hash(view.page), view.at_ms))
    }

    /// When `page` was asked for last, over `connection` or by anybody, and which of all views that was.
    pub(super) fn begun(&self, connection: u64, page: UrlId) -> Option<(u32, u32)> {
        let view = self.views[place_of_connection(connection, self.views.len())];
        if connection != 0 && view.connection == connection && view.page == page.hash() {
            return Some((view.at_ms, view.number));
        }
        let recent = self.recent[place(page.hash(), self.recent.len())];
        (recent.page == page.hash()).then_some((recent.at_ms, recent.number))
    }

    /// Whether `url` is a page that was asked for lately.
    pub(super) fn is_page(&self, url: UrlId) -> bool {
        self.recent[place(url.hash(), self.recent.len())].page == url.hash()
    }

    /// Whether `next` is to be counted for the `page` of this view: once for each view.
    pub(super) fn count_once(&mut self, connection: u64, (page, next): (UrlId, UrlId), number: u32) -> bool {
        let which = spread(connection ^ page.hash().rotate_left(23) ^ next.hash().rotate_left(41));
        let place = place(which, self.counted.len());
        // Zero is where nothing was counted.
        let mark = spread(which ^ u64::from(number)) as u32 | 1;
        std::mem::replace(&mut self.counted[place], mark) != mark
    }
}

fn place_of_connection(connection: u64, places: usize) -> usize {
    place(spread(connection), places)
}

/// Multiplied, not divided: the upper bits choose.
fn place(hash: u64, places: usize) -> usize {
    ((u128::from(hash) * places as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(number: u64) -> UrlId {
        UrlId::of_hash(spread(number))
    }

    #[test]
    fn a_page_is_shown_until_another_is_or_some_seconds_have_passed() {
        let mut views = Views::new(1 << 16);
        views.handle_page(5, url(1), 100);
        assert_eq!(views.page_of(5, 100 + ORDER_MS), Some((url(1), 100)));
        assert_eq!(views.page_of(5, 101 + ORDER_MS), None);
        assert_eq!(views.page_of(6, 100), None);
        views.handle_page(5, url(2), 200);
        assert_eq!(views.page_of(5, 200), Some((url(2), 200)));
    }

    #[test]
    fn connections_whose_order_says_nothing_show_nothing() {
        let mut views = Views::new(1 << 16);
        views.handle_page(0, url(1), 100);
        assert_eq!(views.page_of(0, 100), None);
        assert_eq!(views.begun(0, url(1)), Some((100, 1)));
    }

    #[test]
    fn a_page_that_was_asked_for_over_another_connection_is_known() {
        let mut views = Views::new(1 << 16);
        views.handle_page(5, url(1), 100);
        assert_eq!((views.begun(6, url(1)), views.begun(6, url(2))), (Some((100, 1)), None));
    }

    #[test]
    fn a_pair_counts_once_for_each_time_that_the_page_is_shown() {
        let mut views = Views::new(1 << 16);
        let pair = (url(1), url(2));
        assert!(views.count_once(5, pair, 100) && !views.count_once(5, pair, 100));
        assert!(views.count_once(6, pair, 100) && views.count_once(5, pair, 200));
    }

    #[test]
    fn memory_is_what_was_given() {
        for bytes in [0, 100, 4_096, 1 << 20] {
            assert!(Views::new(bytes).memory_bytes() <= bytes.max(PLACE_BYTES));
        }
    }
}
