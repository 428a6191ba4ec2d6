//! Which connections make room where descriptors have run out.
//!
//! Owns: their order. Guarantees: one client network that holds much never keeps others from being served, whatever it
//! does with its connections: those of the network that holds most go first, and nothing else that is under way is
//! lost. Does not close them: engines do.

use std::cmp::Reverse;
use std::collections::HashMap;

use lamna_io::wait::Token;

/// Descriptors of a network that are not many, however few there are in all: a browser with as many connections as it
/// opens, and their files.
const NETWORK_FEW: usize = 16;
/// The share of all descriptors that is not much for one network, as a divisor.
const NETWORK_SHARE: usize = 32;
/// Descriptors of one connection that are many.
const CONNECTION_MANY: usize = 8;
/// Answers that are given up at once.
const ANSWERS_MAX: usize = 4;

/// A connection that may make room.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// By which it is found.
    pub token: Token,
    /// The network that it counts for; none if it counts for none.
    pub network: Option<u32>,
    /// The stage that would be lost.
    pub stage: Stage,
    /// Descriptors that it holds beside its socket.
    pub descriptors: usize,
    /// In whatever unit: of those in one stage the one with the least has been there longest.
    pub until: u64,
}

/// The work that a connection has under way, in the order in which it is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Nothing.
    Idle,
    /// A part of a handshake or a head.
    Asking,
    /// An answer that its peer does not take.
    Slow,
    /// Anything else.
    Working,
}

/// Connections that make room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// The connections.
    pub tokens: Vec<Token>,
    /// They are between requests.
    pub are_idle: bool,
}

/// Those of `candidates` that make room, at most `most`: of the network that holds most, if that is much, the idle ones
/// and those that have asked for nothing yet; else whichever have been idle longest; else answers of that network; else
/// the connection that holds most, if that is much.
pub fn choose(candidates: impl IntoIterator<Item = Candidate>, most: usize) -> Chosen {
    let all: Vec<Candidate> = candidates.into_iter().collect();
    let greedy = greedy_network(&all);
    let of = |stages: &[Stage], network: Option<u32>, most: usize| {
        let fits = |one: &&Candidate| stages.contains(&one.stage) && (network.is_none() || one.network == network);
        let mut fitting: Vec<&Candidate> = all.iter().filter(fits).collect();
        fitting.sort_unstable_by_key(|one| (one.stage, Reverse(one.descriptors), one.until, one.token.generation));
        let tokens: Vec<Token> = fitting.into_iter().take(most).map(|one| one.token).collect();
        (!tokens.is_empty()).then_some(Chosen { tokens, are_idle: stages == [Stage::Idle] })
    };
    let of_greedy = |stages: &[Stage], most: usize| greedy.and_then(|network| of(stages, Some(network), most));
    let largest = || {
        let many = all.iter().filter(|one| one.descriptors >= CONNECTION_MANY);
        many.max_by_key(|one| one.descriptors).map(|one| Chosen { tokens: vec![one.token], are_idle: false })
    };
    of_greedy(&[Stage::Idle], most)
        .or_else(|| of_greedy(&[Stage::Asking], most))
        .or_else(|| of(&[Stage::Idle], None, most))
        .or_else(|| of_greedy(&[Stage::Slow, Stage::Working], most.min(ANSWERS_MAX)))
        .or_else(largest)
        .unwrap_or_default()
}

/// The network that holds most descriptors, if those are many.
fn greedy_network(all: &[Candidate]) -> Option<u32> {
    let mut held: HashMap<u32, usize> = HashMap::new();
    let mut together = 0;
    for one in all {
        together += 1 + one.descriptors;
        if let Some(network) = one.network {
            *held.entry(network).or_default() += 1 + one.descriptors;
        }
    }
    let (network, most) = held.into_iter().max_by_key(|(_, held)| *held)?;
    (most >= NETWORK_FEW.max(together / NETWORK_SHARE)).then_some(network)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(index: u32, network: impl Into<Option<u32>>, stage: Stage, descriptors: usize) -> Candidate {
        let (network, token) = (network.into(), Token { index, generation: 1 });
        Candidate { token, network, stage, descriptors, until: u64::from(100 - index) }
    }

    /// Indices of those that are chosen.
    fn chosen(candidates: &[Candidate], most: usize) -> Vec<u32> {
        choose(candidates.iter().copied(), most).tokens.iter().map(|token| token.index).collect()
    }

    fn many(from: u32, count: u32, network: u32, stage: Stage) -> Vec<Candidate> {
        (from..from + count).map(|index| one(index, network, stage, 0)).collect()
    }

    #[test]
    fn the_network_that_holds_most_goes_first_idle_ones_then_heads_then_answers() {
        let of_greedy = [
            many(0, 10, 1, Stage::Slow),
            many(10, 10, 1, Stage::Asking),
            many(20, 2, 1, Stage::Idle),
            vec![one(30, 1, Stage::Slow, 3), one(31, 1, Stage::Working, 5)],
        ]
        .concat();
        let others = [many(40, 5, 2, Stage::Asking), many(50, 5, 3, Stage::Slow)].concat();
        let mut all = [of_greedy, others].concat();
        let mut take = |most: usize| {
            let taken = chosen(&all, most);
            all.retain(|one| !taken.contains(&one.token.index));
            taken
        };
        assert_eq!(take(16), [21, 20]);
        assert_eq!(take(2), [19, 18], "those that have been there longest");
        assert_eq!(take(16).len(), 8);
        assert_eq!(take(16), [30, 9, 8, 7], "few answers, those that hold most first");
    }

    #[test]
    fn idle_connections_of_anybody_go_before_answers_of_anybody() {
        let all =
            [many(0, 20, 1, Stage::Slow), many(30, 2, 2, Stage::Idle), vec![one(40, None, Stage::Idle, 0)]].concat();
        assert_eq!(chosen(&all, 2), [40, 31]);
        assert!(choose(all, 2).are_idle);
    }

    #[test]
    fn who_holds_little_or_counts_for_nobody_loses_nothing_that_is_under_way() {
        let few = many(0, NETWORK_FEW as u32 - 1, 1, Stage::Slow);
        assert!(chosen(&few, 16).is_empty());
        let of_a_proxy: Vec<Candidate> = (0..50).map(|index| one(index, None, Stage::Asking, 0)).collect();
        assert!(chosen(&of_a_proxy, 16).is_empty());
        let of_many: Vec<Candidate> = (0..50).map(|index| one(index, index / 8, Stage::Slow, 0)).collect();
        assert!(chosen(&of_many, 16).is_empty(), "these are busy, and nobody's fault");
    }

    #[test]
    fn one_connection_that_holds_many_goes_last_of_all() {
        let mut all = vec![one(1, None, Stage::Working, CONNECTION_MANY), one(2, None, Stage::Working, 9)];
        assert_eq!(chosen(&all, 16), [2]);
        all.push(one(3, None, Stage::Idle, 0));
        assert_eq!(chosen(&all, 16), [3]);
    }
}
