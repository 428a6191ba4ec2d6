//! The texts of the pages of a site that is searched, and whose searches are under way.
//!
//! Owns: [`Texts`]. Guarantees: searches at once are bounded, and no client network has all of them. Reads nothing.

use std::sync::{Arc, Mutex, PoisonError};

use lamna_filter::search::Text;
use lamna_sys::memory;

use super::at_once::ClientNetwork;
use super::file_state_cache::FileStateCache;

/// Bytes of memory that the texts of a site's pages may take in one process.
const TEXTS_BYTES_MAX: u64 = 64 << 20;
/// Searches of a site at once in one process, and of one client network among them. Who comes then is asked to come
/// again.
const SEARCHES_MAX: usize = 4;
const SEARCHES_OF_NETWORK_MAX: usize = 2;

/// The texts of the pages of a site, and whose searches are under way.
#[derive(Debug)]
pub struct Texts {
    /// The text of each file.
    pub(super) kept: FileStateCache<Text>,
    under_way: Mutex<Vec<Option<ClientNetwork>>>,
}

impl Default for Texts {
    fn default() -> Texts {
        Texts {
            kept: FileStateCache::new(TEXTS_BYTES_MAX.min(memory::limit_bytes().map_or(u64::MAX, |bytes| bytes / 32))),
            under_way: Mutex::default(),
        }
    }
}

/// One of the searches that are under way.
#[derive(Debug)]
pub(super) struct Turn {
    texts: Arc<Texts>,
    network: Option<ClientNetwork>,
}

impl Turn {
    /// A turn for a client of this network, if one is free. Clients whose network is not known are held by the number
    /// of all.
    pub(super) fn take(texts: &Arc<Texts>, network: Option<ClientNetwork>) -> Option<Turn> {
        let mut under_way = texts.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let own = under_way.iter().filter(|other| network.is_some() && **other == network).count();
        if under_way.len() >= SEARCHES_MAX || own >= SEARCHES_OF_NETWORK_MAX {
            return None;
        }
        under_way.push(network);
        Some(Turn { texts: texts.clone(), network })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut under_way = self.texts.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = under_way.iter().position(|other| *other == self.network) {
            under_way.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_searches_are_under_way_and_no_client_has_them_all() {
        let texts = Arc::new(Texts::default());
        let client = |number: u8| Some(ClientNetwork::of([192, 0, 2, number].into()));
        let of_one: Vec<_> = (0..SEARCHES_MAX).filter_map(|_| Turn::take(&texts, client(1))).collect();
        assert_eq!(of_one.len(), SEARCHES_OF_NETWORK_MAX);
        let mut of_others: Vec<_> = (2..9).filter_map(|number| Turn::take(&texts, client(number))).collect();
        assert_eq!(of_one.len() + of_others.len(), SEARCHES_MAX);
        assert!(Turn::take(&texts, None).is_none());
        of_others.pop();
        assert!(Turn::take(&texts, client(1)).is_none() && Turn::take(&texts, None).is_some());
        drop(of_one);
        drop(of_others);
        let of_nobody: Vec<_> = (0..9).filter_map(|_| Turn::take(&texts, None)).collect();
        assert_eq!(of_nobody.len(), SEARCHES_MAX, "a proxy that does not say for whom it asks is no network");
        drop(of_nobody);
        assert!(Turn::take(&texts, client(1)).is_some());
    }
}
