//! The table of hints against exact counts, its memory against its bound, and its bytes against damage.

use std::collections::HashMap;

use lamna_policy::hints::{Malformed, Probability, SUCCESSORS_MAX, Table, UrlId};
use proptest::prelude::*;

use crate::hint_table_checks::hint_table;

fn url(number: u64) -> UrlId {
    // Odd multiplier: different numbers are different URLs.
    UrlId::of_hash((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// What a table says of a page, by URL.
fn said(table: &Table, page: UrlId) -> HashMap<UrlId, (u16, u32)> {
    table.successors(page).map(|s| (s.url, (s.probability.thousandths(), s.after_ms))).collect()
}

fn table_of(visits: &[(u64, Vec<u64>)], bytes: usize) -> Table {
    let mut table = Table::new(bytes, 4);
    for (page, nexts) in visits {
        table.visit(url(*page));
        let mut nexts = nexts.clone();
        nexts.sort_unstable();
        nexts.dedup();
        nexts.into_iter().for_each(|next| table.follow(url(*page), url(next), 100));
    }
    table
}

fn visits(pages: u64, nexts: u64) -> impl Strategy<Value = Vec<(u64, Vec<u64>)>> {
    prop::collection::vec((0..pages, prop::collection::vec(100..100 + nexts, 0..5)), 0..200)
}

proptest! {
    #[test]
    fn few_successors_are_counted_exactly(visits in visits(5, SUCCESSORS_MAX as u64)) {
        let table = table_of(&visits, 1 << 20);
        let (mut views, mut pairs) = (HashMap::<u64, u16>::new(), HashMap::<(u64, u64), u16>::new());
        for (page, nexts) in &visits {
            *views.entry(*page).or_default() += 1;
            let nexts: std::collections::BTreeSet<_> = nexts.iter().collect();
            nexts.into_iter().for_each(|&next| *pairs.entry((*page, next)).or_default() += 1);
        }
        for page in 0..5 {
            let seen = views.get(&page).copied().unwrap_or(0);
            prop_assert_eq!(table.visits(url(page)), seen);
            let expected: HashMap<_, _> = pairs.iter().filter(|((of, _), _)| *of == page)
                .map(|((_, next), &count)| (url(*next), (Probability::of_counts(count, seen).thousandths(), 96)))
                .collect();
            prop_assert_eq!(said(&table, url(page)), expected);
        }
    }

    #[test]
    fn the_memory_is_bounded_whatever_is_learned(
        bytes in 2_000..40_000_usize, shards in 1..5_usize, visits in visits(400, 4_000),
    ) {
        let mut table = Table::new(bytes, shards);
        let before = table.memory_bytes();
        prop_assert!(before <= bytes, "{before} of {bytes}");
        for (page, nexts) in visits {
            table.visit(url(page));
            nexts.into_iter().for_each(|next| table.follow(url(page), url(next), 1));
            prop_assert!(table.successors(url(page)).count() <= SUCCESSORS_MAX);
        }
        prop_assert_eq!(table.memory_bytes(), before, "nothing was allocated");
        prop_assert!(table.len() * 56 <= bytes);
    }

    #[test]
    fn what_is_saved_is_known_again(visits in visits(20, 40), decays in 0..3_u8, other_bytes in 60_000..1_000_000_usize) {
        let mut table = table_of(&visits, 1 << 20);
        (0..decays).for_each(|_| table.decay());
        let bytes = table.to_bytes();
        for (bytes_max, shards) in [(1 << 20, 4), (other_bytes, 3)] {
            let again = Table::from_bytes(&bytes, bytes_max, shards).expect("it was just made");
            prop_assert_eq!(again.len(), table.len());
            for page in 0..20 {
                prop_assert_eq!(again.visits(url(page)), table.visits(url(page)));
                prop_assert_eq!(said(&again, url(page)), said(&table, url(page)));
            }
            prop_assert_eq!(&again.to_bytes(), &bytes);
        }
    }

    #[test]
    fn damage_is_found(visits in visits(10, 20), at: prop::sample::Index, bit in 0..8_u8, cut: prop::sample::Index) {
        let bytes = table_of(&visits, 100_000).to_bytes();
        let mut damaged = bytes.clone();
        damaged[at.index(bytes.len())] ^= 1 << bit;
        prop_assert!(Table::from_bytes(&damaged, 100_000, 4).is_err());
        prop_assert!(Table::from_bytes(&bytes[..cut.index(bytes.len())], 100_000, 4).is_err());
    }

    /// With the check made right, so that what is behind it is reached.
    #[test]
    fn what_is_nearly_a_table_is_one_or_an_error(
        visits in visits(10, 20), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        tail in prop::collection::vec(any::<u8>(), 0..20),
        room: u8,
    ) {
        let bytes = table_of(&visits, 100_000).to_bytes();
        let mut input = vec![room];
        input.extend(&bytes[6..bytes.len() - 8]);
        input.extend(tail);
        for (at, value) in changes {
            let at = 1 + at.index(input.len() - 1);
            input[at] = value;
        }
        hint_table(&input);
    }
}

#[test]
fn the_most_probable_comes_first_and_what_is_seen_more_often_than_the_least_takes_its_place() {
    let mut table = Table::new(100_000, 2);
    for round in 0..20 {
        table.visit(url(0));
        for next in 1..=SUCCESSORS_MAX as u64 {
            if round < 3 || next == 4 {
                table.follow(url(0), url(next), 10);
            }
        }
        if round >= 3 {
            table.follow(url(0), url(99), 2_000);
        }
    }
    let successors: Vec<_> = table.successors(url(0)).collect();
    assert_eq!(successors.len(), SUCCESSORS_MAX);
    assert_eq!((successors[0].url, successors[0].probability), (url(4), Probability::per_mille(952)));
    assert_eq!((successors[1].url, successors[1].probability.thousandths()), (url(99), 809));
    assert!((1_750..=2_000).contains(&successors[1].after_ms));
}

#[test]
fn what_no_longer_follows_fades() {
    let mut table = table_of(&[(1, vec![100]), (1, vec![100]), (1, vec![]), (1, vec![])], 100_000);
    assert_eq!(said(&table, url(1))[&url(100)].0, 400);
    table.decay();
    assert_eq!(said(&table, url(1))[&url(100)].0, 333);
    table.decay();
    assert!(said(&table, url(1)).is_empty());
    (0..40).for_each(|_| table.decay());
    assert_eq!(table.visits(url(1)), 0);
}

#[test]
fn of_a_million_urls_99_of_100_find_room_in_64_mib() {
    let mut table = Table::new(64 << 20, 16);
    (0..1_000_000).for_each(|number| table.visit(url(number)));
    assert!(table.memory_bytes() <= 64 << 20);
    assert!(table.len() >= 990_000, "{} are known", table.len());
}

#[test]
fn what_is_asked_for_often_stays_when_there_is_no_room_for_all() {
    let mut table = Table::new(64 << 10, 2);
    for number in 0..200 {
        (0..10).for_each(|_| table.visit(url(number)));
    }
    (1_000..20_000).for_each(|number| table.visit(url(number)));
    let kept = (0..200).filter(|&number| table.visits(url(number)) > 0).count();
    assert_eq!(kept, 200);
}

#[test]
fn what_took_the_row_of_a_successor_is_no_successor() {
    let mut table = Table::new(2_000, 1);
    // Often enough to stay; what follows it is not.
    (0..20).for_each(|_| table.visit(url(0)));
    table.follow(url(0), url(1), 10);
    assert_eq!(table.successors(url(0)).count(), 1);
    for number in 1_000..1_200 {
        table.visit(url(number));
        assert!(table.successors(url(0)).all(|successor| successor.url == url(1)), "{number} never followed");
    }
    assert_eq!(table.successors(url(0)).count(), 0, "its row was taken");
}

#[test]
fn what_is_no_table_is_named() {
    let bytes = Table::new(1_000, 1).to_bytes();
    assert_eq!(Table::from_bytes(b"", 1_000, 1).err(), Some(Malformed::NoTable));
    assert_eq!(Table::from_bytes(b"GIF89a", 1_000, 1).err(), Some(Malformed::NoTable));
    let mut newer = bytes.clone();
    newer[4] = 2;
    assert_eq!(Table::from_bytes(&newer, 1_000, 1).err(), Some(Malformed::Version(2)));
    assert_eq!(Table::from_bytes(&bytes[..9], 1_000, 1).err(), Some(Malformed::Damaged));
}

#[test]
fn shards_are_used_one_by_one_as_the_table_uses_them() {
    let whole = table_of(&[(1, vec![100, 101]), (2, vec![101])], 100_000);
    let parts = Table::new(100_000, 4);
    let layout = parts.layout();
    let of = |number| layout.shard_of(url(number));
    let homes: HashMap<u64, usize> = [1, 2, 100, 101].map(|number| (number, of(number))).into();
    let mut shards = parts.into_shards();
    assert!(Table::from_shards(layout, shards[1..].to_vec()).is_none(), "one is missing");
    for (page, nexts) in [(1, vec![100, 101]), (2, vec![101])] {
        shards[homes[&page]].visit(url(page));
        for next in nexts {
            let name = shards[homes[&next]].enter(url(next));
            shards[homes[&page]].follow(url(page), (url(next), name), 100);
        }
    }
    let parts = Table::from_shards(layout, shards).expect("they are all there");
    assert_eq!(parts.to_bytes(), whole.to_bytes());
}
