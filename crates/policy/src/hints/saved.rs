//! A table as bytes, to be kept over restarts and upgrades.
//!
//! Format, version 1, little endian: `LMHT`, version (2 bytes), number of URLs (4); for each URL, in ascending order of
//! hash: hash (8), visits (2), number of successors (1), and for each of those the place of its URL in this order (4),
//! count (2) and delay (1); at the end the FNV-1a hash of all before it (8). A table of any size reads what one of any
//! other size wrote: what does not fit is left out. The sketch is not kept: pairs that were too rare for a row begin
//! anew.
//!
//! Anything else is an error and never a panic. The check finds damage, not malice: a writer of the file can write any
//! hints.

use std::fmt;

use super::shard::Known;
use super::{SUCCESSORS_MAX, Table, UrlId};

const MAGIC: [u8; 4] = *b"LMHT";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 10;
const CHECK_BYTES: usize = 8;
/// A URL without successors.
const URL_BYTES_MIN: usize = 11;

/// Why bytes are no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// They do not begin as a table does.
    NoTable,
    /// The format is of another version than this program writes.
    Version(u16),
    /// They were damaged, or cut off.
    Damaged,
    /// They say what no table says.
    Nonsense,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::NoTable => f.write_str("not a table of hints"),
            Malformed::Version(version) => {
                write!(f, "a table of hints of version {version}; this program reads {VERSION}")
            }
            Malformed::Damaged => f.write_str("a table of hints that was damaged or cut off"),
            Malformed::Nonsense => f.write_str("a table of hints that contradicts itself"),
        }
    }
}

impl std::error::Error for Malformed {}

impl Table {
    /// The table, as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut urls: Vec<UrlId> = self.shards().iter().flat_map(|shard| shard.urls()).collect();
        urls.sort_unstable();
        // Names are 24 bits, so there are fewer URLs than 2^32.
        let mut bytes = Vec::with_capacity(HEADER_BYTES + urls.len() * 2 * URL_BYTES_MIN + CHECK_BYTES);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((urls.len() as u32).to_le_bytes());
        for &url in &urls {
            let (visits, known) = self.shards()[self.layout().shard_of(url)].known(url);
            bytes.extend(url.hash().to_le_bytes());
            bytes.extend(visits.to_le_bytes());
            let count_at = bytes.len();
            bytes.push(0);
            for known in known.into_iter().flatten() {
                let shard = self.shards().get(self.layout().shard_of_name(known.name));
                let Some(next) = shard.and_then(|shard| shard.url(known.name)) else { continue };
                let Ok(place) = urls.binary_search(&next) else { continue };
                bytes.extend((place as u32).to_le_bytes());
                bytes.extend(known.count.to_le_bytes());
                bytes.push(known.delay);
                bytes[count_at] += 1;
            }
        }
        let check = check_of(&bytes);
        bytes.extend(check.to_le_bytes());
        bytes
    }

    /// A table of at most `bytes_max` that knows what `bytes` say.
    ///
    /// # Errors
    /// If they are not what [`Table::to_bytes`] makes.
    pub fn from_bytes(bytes: &[u8], bytes_max: usize, shards: usize) -> Result<Table, Malformed> {
        let urls = parse(bytes)?;
        let mut table = Table::new(bytes_max, shards);
        // Those visited least first, so that they give way where there is not room for all.
        let mut order: Vec<usize> = (0..urls.len()).collect();
        order.sort_unstable_by_key(|&at| urls[at].visits);
        for &at in &order {
            let Saved { url, visits, .. } = urls[at];
            table.shard_mut(url).restore(url, visits, std::iter::empty());
        }
        for &at in &order {
            let Saved { url, visits, known } = urls[at];
            if !table.shard_mut(url).holds(url) {
                continue;
            }
            let mut successors = [None; SUCCESSORS_MAX];
            for (successor, (place, count, delay)) in successors.iter_mut().zip(known.into_iter().flatten()) {
                let next = urls[place as usize].url;
                let name = table.shard_mut(next).find_name(next);
                *successor = name.map(|name| Known { name, count, delay });
            }
            table.shard_mut(url).restore(url, visits, successors.into_iter().flatten());
        }
        Ok(table)
    }
}

/// A URL as it was read: successors as places in the list of URLs, which were checked.
#[derive(Clone, Copy)]
struct Saved {
    url: UrlId,
    visits: u16,
    known: [Option<(u32, u16, u8)>; SUCCESSORS_MAX],
}

fn parse(bytes: &[u8]) -> Result<Vec<Saved>, Malformed> {
    let mut rest = bytes;
    if take(&mut rest) != Some(MAGIC) {
        return Err(Malformed::NoTable);
    }
    let version = u16::from_le_bytes(take(&mut rest).ok_or(Malformed::Damaged)?);
    if version != VERSION {
        return Err(Malformed::Version(version));
    }
    let (body, check) = bytes.split_last_chunk::<CHECK_BYTES>().ok_or(Malformed::Damaged)?;
    if body.len() < HEADER_BYTES || check_of(body) != u64::from_le_bytes(*check) {
        return Err(Malformed::Damaged);
    }
    rest = &body[MAGIC.len() + size_of::<u16>()..];
    let count = u32::from_le_bytes(take(&mut rest).ok_or(Malformed::Damaged)?);
    // Nothing is allocated for what cannot be there.
    if count as usize > rest.len() / URL_BYTES_MIN {
        return Err(Malformed::Nonsense);
    }
    let mut urls: Vec<Saved> = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let saved = url(&mut rest, count).ok_or(Malformed::Nonsense)?;
        if saved.url.hash() <= urls.last().map_or(0, |last| last.url.hash()) {
            return Err(Malformed::Nonsense);
        }
        urls.push(saved);
    }
    if rest.is_empty() { Ok(urls) } else { Err(Malformed::Nonsense) }
}

fn url(rest: &mut &[u8], count: u32) -> Option<Saved> {
    let hash = u64::from_le_bytes(take(rest)?);
    let visits = u16::from_le_bytes(take(rest)?);
    let [successors] = take(rest)?;
    let mut known = [None; SUCCESSORS_MAX];
    if hash == 0 || usize::from(successors) > SUCCESSORS_MAX {
        return None;
    }
    for known in known.iter_mut().take(successors.into()) {
        let place = u32::from_le_bytes(take(rest)?);
        let times = u16::from_le_bytes(take(rest)?);
        let [delay] = take(rest)?;
        if place >= count || times == 0 {
            return None;
        }
        *known = Some((place, times, delay));
    }
    Some(Saved { url: UrlId::of_hash(hash), visits, known })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, left) = rest.split_first_chunk::<N>()?;
    *rest = left;
    Some(*taken)
}

/// FNV-1a, 64 bits.
fn check_of(bytes: &[u8]) -> u64 {
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}
