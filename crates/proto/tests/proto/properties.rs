//! The shared checks on seeded inputs, a few thousand of them.
//!
//! Owns: how inputs are made.

use proptest::prelude::*;

use crate::checks::{self, Operation, PHRASES};
use crate::peer::{Cycle, Habits};

fn phrase() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        12 => (0..PHRASES.len()).prop_map(|index| PHRASES[index].as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
        1 => "[ -~]{0,12}".prop_map(String::into_bytes),
        1 => (0..3_000_usize).prop_map(|length| [b"GET /".to_vec(), vec![b'a'; length]].concat()),
    ]
}

fn cycle<T: Copy + std::fmt::Debug>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Cycle<T>> {
    prop::collection::vec(value, 1..5).prop_map(Cycle::new)
}

fn bytes() -> impl Strategy<Value = usize> {
    prop_oneof![1..4_usize, 1..200_usize, 1..20_000_usize, Just(usize::MAX)]
}

pub(crate) fn habits() -> impl Strategy<Value = Habits> {
    let ready = (cycle(bytes().prop_map(|bytes| bytes as u64)), cycle(any::<bool>()));
    let read = (cycle(any::<bool>()), cycle(0..8_usize), ready);
    let moves = prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(0..3_000_usize, 1..6)];
    let hops = prop_oneof![Just(0), 1..30_usize];
    let steps = (cycle(any::<bool>()), cycle(any::<bool>()), moves, cycle(any::<bool>()), hops);
    (cycle(bytes()), cycle(bytes()), read, steps).prop_map(|(receive_bytes, send_bytes, read, steps)| {
        let (defers, order, (ready_bytes, copies)) = read;
        let (parks, batches, moves, travels, hops) = steps;
        let fails = Cycle::new(vec![false]);
        Habits {
            receive_bytes,
            send_bytes,
            defers,
            order,
            ready_bytes,
            copies,
            parks,
            batches,
            fails,
            moves,
            travels,
            hops,
        }
    })
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        2 => prop::collection::vec(any::<u8>(), 0..20).prop_map(Operation::Send),
        12 => any::<u8>().prop_map(Operation::Phrase),
        2 => Just(Operation::Send(vec![b'a'; 1_500])),
        1 => Just(Operation::End),
        1 => Just(Operation::TimeOut),
        1 => Just(Operation::BreakOff),
        1 => Just(Operation::Drain),
        1 => Just(Operation::DrainWorker),
        4 => any::<u8>().prop_map(Operation::Meet),
        1 => prop_oneof![0..20_u32, 20_000..20_010_u32].prop_map(Operation::MeetUnknown),
        2 => any::<bool>().prop_map(Operation::ReadsAnswers),
        1 => any::<u16>().prop_map(Operation::WaitMs),
    ]
}

fn near_heads() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"GET / HTTP/1.1\r\n".to_vec()),
        Just(b"Host: a\r\n".to_vec()),
        Just(b"Range:bytes=0-1\r\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"HEAD /x HTTP/1.0\r\n".to_vec()),
        prop::collection::vec(any::<u8>(), 0..4),
        "[ -~]{0,12}".prop_map(String::into_bytes),
        (8_000..9_000_usize).prop_map(|length| vec![b'a'; length]),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

/// Connections have many ways to go, and each run is short.
fn many() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig { cases: default.cases.max(1_000), ..default }
}

proptest! {
    #![proptest_config(many())]

    #[test]
    fn any_split_deferral_and_parking_gives_the_same_bytes_and_reports(
        habits in habits(), phrases in prop::collection::vec(phrase(), 1..10),
    ) {
        checks::independence(habits, &phrases.concat());
    }

    #[test]
    fn any_operations_in_any_order_are_survived(
        habits in habits(), fails in cycle(any::<bool>()), operations in prop::collection::vec(operation(), 0..25),
    ) {
        checks::operations(Habits { fails, ..habits }, &operations);
    }

    #[test]
    fn a_connection_that_was_damaged_on_its_way_is_refused_or_can_be_driven(
        habits in habits(), phrases in prop::collection::vec(phrase(), 1..6), reads_answers in any::<bool>(),
        damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        operations in prop::collection::vec(operation(), 0..6),
    ) {
        checks::damaged(habits, &phrases.concat(), reads_answers, |bytes| {
            for (at, byte) in &damages {
                bytes[at.index(bytes.len())] = *byte;
            }
        }, &operations);
    }

    #[test]
    fn any_bytes_are_a_connection_or_none(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        checks::any_bytes(&bytes);
    }

    #[test]
    fn an_accepted_head_reads_the_same_to_httparse(input in near_heads()) {
        checks::head_agrees(&input);
    }

    #[test]
    fn a_prefix_of_a_head_never_has_another_reading(input in near_heads(), cut in 0..18_000_usize) {
        checks::head_prefix_decides(&input, cut % (input.len() + 1));
    }

    #[test]
    fn a_target_path_names_one_thing_beneath_the_root(
        input in prop_oneof!["/[ -~]{0,20}", "/((\\.|\\.\\.|%2e|%2F|%25|a|%00|%c3)/?){0,8}", "http://a(/[a-z.%2]{0,9}){0,4}"],
    ) {
        checks::target_path(input.as_bytes());
    }

    #[test]
    fn a_header_of_a_proxy_is_bounded_and_decided_once(
        kind in 0..3_usize, rest in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..1_200),
            "(TCP4|TCP6|UNKNOWN)( [0-9a-f.:]{1,15}){0,5}\r\n".prop_map(String::into_bytes),
        ], cut in 0..1_300_usize,
    ) {
        let start: [&[u8]; 3] = [b"", b"PROXY ", b"\r\n\r\n\0\r\nQUIT\n\x21"];
        checks::proxy_header(&[start[kind], &rest].concat(), cut);
    }
}
