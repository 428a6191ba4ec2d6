//! Filters one behind the other.
//!
//! Owns: the chain as it is configured, which of its filters content of a media type meets, and a run of them over one stream.
//! Guarantees: a run gives at most as many bytes as it was allowed. It passes content on in pieces, and stops as soon as a filter has made
//! more than that of one.

use std::borrow::Cow;
use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::{Fault, Filter, KINDS, Kind, Make, Parameters, essence};

/// A filter as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which kind.
    pub name: String,
    /// With what.
    pub parameters: Parameters,
}

/// Why a chain cannot be made: in which step, and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainError {
    /// The index of the step.
    pub step: usize,
    /// What is wrong with it.
    pub what: Wrong,
}

/// What is wrong with a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// There is no filter of this name.
    Unknown(String),
    /// The filter has no parameter of this name.
    UnknownParameter(&'static Kind, String),
    /// The filter needs this parameter.
    Missing(&'static Kind, &'static str),
    /// What the filter says of its parameters.
    Parameter(&'static Kind, String),
}

impl PartialEq for Kind {
    fn eq(&self, other: &Kind) -> bool {
        self.name == other.name
    }
}

impl Eq for Kind {}

impl fmt::Display for ChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            Wrong::Unknown(name) => {
                let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
                write!(f, "there is no filter `{}`: there are {}", name.escape_debug(), names.join(", "))
            }
            Wrong::UnknownParameter(kind, name) => {
                let names: Vec<&str> = kind.required.iter().chain(kind.optional).map(|(name, _)| *name).collect();
                let (filter, name) = (kind.name, name.escape_debug());
                write!(f, "the filter `{filter}` has no parameter `{name}`: it has {}", names.join(", "))
            }
            Wrong::Missing(kind, name) => write!(f, "the filter `{}` needs `{name}`", kind.name),
            Wrong::Parameter(kind, why) => write!(f, "the filter `{}`: {why}", kind.name),
        }
    }
}

impl std::error::Error for ChainError {}

/// Filters one behind the other. None at all leave content as it is.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    steps: Vec<Arc<dyn Make>>,
    name: String,
}

impl Chain {
    /// The chain of `steps`.
    ///
    /// # Errors
    /// The first step that is wrong.
    pub fn new(steps: &[Step]) -> Result<Chain, ChainError> {
        let mut chain = Chain::default();
        for (index, step) in steps.iter().enumerate() {
            let of_step = |what| ChainError { step: index, what };
            let kind = kind_of(step).map_err(of_step)?;
            chain.steps.push((kind.make)(&step.parameters).map_err(|why| of_step(Wrong::Parameter(kind, why)))?);
            chain.push_name(kind, &step.parameters);
        }
        Ok(chain)
    }

    /// What it is: the same for chains that do the same, another one for any other.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A number for its name, never zero: what tells what it makes from what another chain makes of the same content.
    pub fn number(&self) -> u64 {
        // FNV-1a, which stays the same from one build to the next.
        let mixed = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        self.name.bytes().fold(0xcbf2_9ce4_8422_2325, mixed).max(1)
    }

    /// Whether it leaves everything as it is.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    fn push_name(&mut self, kind: &Kind, parameters: &Parameters) {
        // Writing to a string does not fail.
        let _ = write!(self.name, "{}/{}", kind.name, kind.version);
        for (name, value) in parameters {
            let _ = write!(self.name, " {name}={value:?}");
        }
        self.name.push('|');
    }

    /// A run over content of `media_type`, which gives at most `bytes_max` bytes; none if no filter has anything to do with it.
    pub fn start<'m>(&self, media_type: &'m str, bytes_max: u64) -> Option<Run<'m>> {
        let mut media_type: Cow<'m, str> = media_type.into();
        let mut filters = Vec::new();
        for step in &self.steps {
            if step.takes(&essence(&media_type).to_ascii_lowercase()) {
                filters.push(Stage { filter: step.start(), given: Vec::new() });
                media_type = step.gives(&media_type).into_owned().into();
            }
        }
        (!filters.is_empty()).then_some(Run { filters, media_type, bytes_max, given: 0 })
    }
}

fn kind_of(step: &Step) -> Result<&'static Kind, Wrong> {
    static TABLE: [Kind; KINDS.len()] = KINDS;
    let kind = TABLE.iter().find(|kind| kind.name == step.name).ok_or_else(|| Wrong::Unknown(step.name.clone()))?;
    let mut known = kind.required.iter().chain(kind.optional);
    if let Some(other) = step.parameters.keys().find(|given| !known.clone().any(|(name, _)| name == given)) {
        return Err(Wrong::UnknownParameter(kind, other.clone()));
    }
    match known.find(|(name, _)| !step.parameters.contains_key(*name)) {
        Some(missing) if kind.required.contains(missing) => Err(Wrong::Missing(kind, missing.0)),
        _ => Ok(kind),
    }
}

/// A chain over one stream.
pub struct Run<'m> {
    filters: Vec<Stage>,
    media_type: Cow<'m, str>,
    bytes_max: u64,
    given: u64,
}

/// What a filter is given at a time: what it makes of so much is in memory before anybody looks at how much that is.
const PIECE_BYTES: usize = 16 << 10;

/// A filter of a run.
struct Stage {
    filter: Box<dyn Filter>,
    /// What it has given, until the next one has taken it.
    given: Vec<u8>,
}

impl Run<'_> {
    /// The media type of what it gives.
    pub fn media_type(&self) -> &str {
        &self.media_type
    }

    /// Takes the next piece, and writes what can be given already behind `out`.
    ///
    /// # Errors
    /// See [`Fault`]. The run is not used again then.
    pub fn take(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        piece.chunks(PIECE_BYTES).try_for_each(|piece| self.pass(0, piece, out))
    }

    /// There are no more pieces. Writes the rest behind `out`.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        for at in 0..self.filters.len() {
            let mut rest = std::mem::take(&mut self.filters[at].given);
            self.filters[at].filter.finish(&mut rest)?;
            self.bound(&rest)?;
            rest.chunks(PIECE_BYTES).try_for_each(|piece| self.pass(at + 1, piece, out))?;
        }
        Ok(())
    }

    /// Passes `piece` through the filters from `at` on.
    fn pass(&mut self, at: usize, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        let Some(stage) = self.filters.get_mut(at) else {
            self.given += piece.len() as u64;
            return match self.given > self.bytes_max {
                true => Err(Fault::TooLarge(self.bytes_max)),
                false => {
                    out.extend_from_slice(piece);
                    Ok(())
                }
            };
        };
        let mut given = std::mem::take(&mut stage.given);
        stage.filter.take(piece, &mut given)?;
        self.bound(&given)?;
        given.chunks(PIECE_BYTES).try_for_each(|piece| self.pass(at + 1, piece, out))?;
        given.clear();
        self.filters[at].given = given;
        Ok(())
    }

    /// What a filter has made of one piece is not more than all of it may be.
    fn bound(&self, given: &[u8]) -> Result<(), Fault> {
        if given.len() as u64 > self.bytes_max { Err(Fault::TooLarge(self.bytes_max)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;
    use proptest::prelude::*;

    fn step(name: &str, parameters: &[(&str, &str)]) -> Step {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Step { name: name.into(), parameters: parameters.iter().map(own).collect() }
    }

    fn replacing(from: &str, to: &str) -> Step {
        step("substitute", &[("from", from), ("to", to)])
    }

    fn filtered(steps: &[Step], media_type: &str, content: &str, piece_bytes: usize) -> Result<String, Fault> {
        let chain = Chain::new(steps).unwrap();
        let mut run = chain.start(media_type, 1 << 20).expect("some filter takes it");
        let mut out = Vec::new();
        content.as_bytes().chunks(piece_bytes).try_for_each(|piece| run.take(piece, &mut out))?;
        run.finish(&mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn each_filter_takes_what_the_one_before_gives() {
        let steps = [replacing("a", "bb"), replacing("bb", "c")];
        assert_eq!(filtered(&steps, "text/plain", "xay", 1).unwrap(), "xcy");
        let steps = [step("markdown", &[]), replacing("<h1", "<h2")];
        assert!(filtered(&steps, "text/markdown", "# one", 2).unwrap().contains("<h2"));
    }

    #[test]
    fn content_passes_by_filters_that_have_nothing_to_do_with_it() {
        let chain = Chain::new(&[step("markdown", &[])]).unwrap();
        assert!(chain.start("image/png", 10).is_none());
        assert!(Chain::default().start("text/plain", 10).is_none());
        let run = chain.start("text/markdown; charset=utf-8", 10).unwrap();
        assert_eq!(run.media_type(), "text/html; charset=utf-8");
    }

    #[test]
    fn a_run_never_gives_more_than_its_bound() {
        let chain = Chain::new(&[replacing("a", &"b".repeat(100))]).unwrap();
        for (content, fits) in [("a", true), ("aa", false), ("aaaaaaaa", false)] {
            let mut run = chain.start("text/plain", 100).unwrap();
            let mut out = Vec::new();
            let taken = run.take(content.as_bytes(), &mut out).and_then(|()| run.finish(&mut out));
            assert_eq!(taken.is_ok(), fits, "{content}");
            assert!(out.len() <= 100);
        }
    }

    /// Counts what it takes, and gives a thousand times as much.
    struct Growing(Arc<AtomicUsize>);

    impl Filter for Growing {
        fn take(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
            self.0.fetch_add(piece.len(), Relaxed);
            out.resize(out.len() + 1000 * piece.len(), b'a');
            Ok(())
        }

        fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), Fault> {
            Ok(())
        }
    }

    #[test]
    fn what_grows_without_end_is_given_up_before_it_is_made() {
        let taken = Arc::new(AtomicUsize::new(0));
        let filter = Box::new(Growing(taken.clone()));
        let filters = vec![Stage { filter, given: Vec::new() }];
        let mut run = Run { filters, media_type: "text/plain".into(), bytes_max: 1 << 20, given: 0 };
        assert_eq!(run.take(&vec![b'a'; 1 << 20], &mut Vec::new()), Err(Fault::TooLarge(1 << 20)));
        assert_eq!(taken.load(Relaxed), PIECE_BYTES);
    }

    #[test]
    fn what_is_wrong_with_a_step_is_said() {
        let wrong = |step: Step| Chain::new(&[replacing("a", "b"), step]).unwrap_err();
        assert_eq!(wrong(step("nothing", &[])).step, 1);
        for (step, said) in [
            (step("nothing", &[]), "there is no filter `nothing`: there are insert, markdown, substitute"),
            (step("substitute", &[("from", "a")]), "the filter `substitute` needs `to`"),
            (step("substitute", &[("form", "a")]), "the filter `substitute` has no parameter `form`: it has from, to"),
            (replacing("", "b"), "the filter `substitute`: `from` is empty"),
        ] {
            assert_eq!(wrong(step).to_string(), said);
        }
    }

    #[test]
    fn the_table_is_sorted_and_every_row_says_what_it_is() {
        assert!(KINDS.windows(2).all(|pair| pair[0].name < pair[1].name));
        assert!(KINDS.iter().all(|kind| kind.about.ends_with('.') && kind.version > 0));
    }

    proptest! {
        #[test]
        fn chains_have_the_same_name_exactly_if_they_are_the_same(
            one in "[a=\"|]{1,4}", two in "[a=\"|]{0,4}", three in "[a=\"|]{1,4}", four in "[a=\"|]{0,4}",
        ) {
            let (first, second) = ([replacing(&one, &two)], [replacing(&three, &four)]);
            let (name, other) = (Chain::new(&first).unwrap(), Chain::new(&second).unwrap());
            prop_assert_eq!(name.name() == other.name(), first == second);
        }

        #[test]
        fn it_does_not_matter_where_pieces_end(content in "[ab<>/# \n*headbodyhtml]{0,60}", piece_bytes in 1_usize..9) {
            let steps = [
                step("markdown", &[]),
                replacing("ab", "abab"),
                step("insert", &[("where", "head"), ("html", "<meta>")]),
                step("insert", &[("where", "body"), ("html", "<hr>")]),
            ];
            for (steps, media_type) in [(&steps[..], "text/markdown"), (&steps[1..], "text/html")] {
                let whole = filtered(steps, media_type, &content, 1000).unwrap();
                prop_assert_eq!(filtered(steps, media_type, &content, piece_bytes).unwrap(), whole);
            }
        }
    }
}
