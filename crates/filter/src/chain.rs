//! Filters one behind the other.
//!
//! Owns: the chain as it is configured, which of its filters content of a media type meets, and a run of them over one
//! stream. Guarantees: a run holds and gives at most as many bytes as it was allowed. It passes content on in pieces,
//! the last filter that has something to do goes first, and it stops when it has given what is wanted at once: how much
//! it makes of a piece is not how much is in memory.

use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::{Content, Effect, Fault, Filter, KINDS, Kind, Lines, Make, PIECE_BYTES, Parameters, Source, include};

/// A filter as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which kind.
    pub name: String,
    /// Its parameters.
    pub parameters: Parameters,
}

/// Why a chain cannot be made: in which step, and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainError {
    /// The index of the step.
    pub step: usize,
    /// The fault in it.
    pub what: Wrong,
}

/// The fault in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// There is no filter of this name.
    Unknown(String),
    /// The filter has no parameter of this name.
    UnknownParameter(&'static Kind, String),
    /// The filter needs this parameter.
    Missing(&'static Kind, &'static str),
    /// The filter's message about its parameters.
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
        self.what.fmt(f)
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
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

/// A factory of filters, and its name: the same for two only if they give the same.
#[derive(Clone, Debug)]
pub struct Link {
    make: Arc<dyn Make>,
    name: String,
}

impl Link {
    /// The link of `make` with this name.
    pub fn new(name: String, make: Arc<dyn Make>) -> Link {
        Link { make, name }
    }

    /// A filter of the table.
    ///
    /// # Errors
    /// The fault in the step.
    pub fn of_table(step: &Step) -> Result<Link, Wrong> {
        let kind = kind_of(step)?;
        let make = (kind.make)(&step.parameters).map_err(|why| Wrong::Parameter(kind, why))?;
        let mut name = format!("{}/{}", kind.name, kind.version);
        for (parameter, value) in &step.parameters {
            // Writing to a string does not fail.
            let _ = write!(name, " {parameter}={value:?}");
        }
        Ok(Link { make, name })
    }

    /// The factory of its filters.
    pub fn make(&self) -> &Arc<dyn Make> {
        &self.make
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Whether a filter of the table has this name.
pub fn is_in_table(name: &str) -> bool {
    KINDS.iter().any(|kind| kind.name == name)
}

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
        let link = |(index, step)| Link::of_table(step).map_err(|what| ChainError { step: index, what });
        let links: Vec<Link> = steps.iter().enumerate().map(link).collect::<Result<_, _>>()?;
        Ok(Chain::of(&links))
    }

    /// The chain of `links`.
    pub fn of(links: &[Link]) -> Chain {
        let steps = links.iter().map(|link| link.make.clone()).collect();
        Chain { steps, name: links.iter().map(|link| format!("{}|", link.name)).collect() }
    }

    /// Its identity: the same for chains that do the same, another one for any other.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A number for its name, and for what it is asked for, never zero: what tells what it makes from what another
    /// chain makes of the same content.
    pub fn number(&self, recipe: Option<&str>) -> u64 {
        // FNV-1a, which stays the same from one build to the next.
        let mixed = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        self.name.bytes().chain(recipe.unwrap_or_default().bytes()).fold(0xcbf2_9ce4_8422_2325, mixed).max(1)
    }

    /// Whether it leaves everything as it is.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The content codings of which the first filter that looks into content can read it, as in `Accept-Encoding`. None
    /// if no filter looks into it: what is made of a part is a part then.
    pub fn reads(&self) -> Option<&'static str> {
        self.steps.iter().find_map(|step| step.reads())
    }

    /// Whether a request can ask one of its filters for something.
    pub fn has_recipes(&self) -> bool {
        self.steps.iter().any(|step| step.has_recipes())
    }

    /// The recipe in a request for one of its filters: see [`Make::recipe`].
    pub fn recipe(&self, query: &[u8], lines: Lines<'_>) -> Option<String> {
        self.steps.iter().find_map(|step| step.recipe(query, lines))
    }

    /// Whether a request only prefers what it asks a filter for: see [`Make::is_preference`].
    pub fn is_preference(&self, recipe: &str) -> bool {
        self.steps.iter().any(|step| step.is_preference(recipe))
    }

    /// How many different things may be asked for of content: see [`Make::recipes_max`].
    pub fn recipes_max(&self, recipe: &str, bytes: u64) -> Option<u32> {
        self.steps.iter().find_map(|step| step.recipes_max(recipe, bytes))
    }

    /// Whether a request can ask for pictures in another size.
    pub fn scales_pictures(&self) -> bool {
        self.steps.iter().any(|step| step.scales_pictures())
    }

    /// The fields of a request that decide what is made of any file, for `Vary`.
    pub fn varies_by(&self) -> impl Iterator<Item = &'static str> {
        self.steps.iter().flat_map(|step| step.varies_by()).copied()
    }

    /// The client hints that its filters would like to be sent, for `Accept-CH`.
    pub fn client_hints(&self) -> impl Iterator<Item = &'static str> {
        self.steps.iter().flat_map(|step| step.client_hints()).copied()
    }

    /// Whether it puts content together from other files.
    pub fn has_parts(&self) -> bool {
        self.steps.iter().any(|step| step.has_parts())
    }

    /// The markup of content like this, if the chain gives parts of it, as HTML, and does nothing else with it: see
    /// [`Make::divides`].
    pub fn divides(&self, content: &Content) -> Option<Source> {
        match &self.steps[..] {
            [only] => only.divides(content),
            [first, last] => {
                first.writes_html_of(content).filter(|_| last.divides(&Content::new("text/html")).is_some())
            }
            _ => None,
        }
    }

    /// Whether its output may depend on the codings that the client accepts.
    pub fn varies(&self) -> bool {
        self.steps.iter().any(|step| step.varies())
    }

    /// A run over `content`; none if no filter has anything to do with it. What the run makes of it is said in
    /// `content`.
    pub fn start(&self, content: &mut Content, bounds: Bounds) -> Option<Run> {
        let mut stages = Vec::new();
        for step in &self.steps {
            if let Some(filter) = step.start(content) {
                content.bytes = None;
                stages.push(Stage::new(filter, step.needs_whole()));
            }
        }
        (!stages.is_empty()).then_some(Run { stages, bounds, given: 0, told: 0, then: Then::More })
    }
}

/// Whether filters change files that nothing is asked of.
pub fn change_files(steps: &[Step]) -> bool {
    steps.iter().any(|step| effect_of(step) != Effect::None)
}

/// Whether who gets what these filters make of a file reads all words of it: of `content`, or of any file that does not
/// say that something is left out. A filter that is not in the table may do anything.
pub fn keep_words(steps: &[Step], content: Option<&[u8]>) -> bool {
    steps.iter().all(|step| match effect_of(step) {
        Effect::None | Effect::Form => true,
        Effect::Choice => content.is_none_or(|content| !include::has_choices(content)),
        Effect::Words => false,
    })
}

fn effect_of(step: &Step) -> Effect {
    KINDS.iter().find(|kind| kind.name == step.name).map_or(Effect::Words, |kind| kind.effect)
}

fn kind_of(step: &Step) -> Result<&'static Kind, Wrong> {
    let kind = KINDS.iter().find(|kind| kind.name == step.name).ok_or_else(|| Wrong::Unknown(step.name.clone()))?;
    let mut known = kind.required.iter().chain(kind.optional);
    if let Some(other) = step.parameters.keys().find(|given| !known.clone().any(|(name, _)| name == given)) {
        return Err(Wrong::UnknownParameter(kind, other.clone()));
    }
    match known.find(|(name, _)| !step.parameters.contains_key(*name)) {
        Some(missing) if kind.required.contains(missing) => Err(Wrong::Missing(kind, missing.0)),
        _ => Ok(kind),
    }
}

/// The bounds of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes that it gives.
    pub given: u64,
    /// Bytes that one of its filters holds, or makes of one piece.
    pub held: u64,
}

impl Bounds {
    /// For content that is held as a whole.
    pub fn whole(bytes: u64) -> Bounds {
        Bounds { given: bytes, held: bytes }
    }
}

/// The input to come behind that given to a run so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// More.
    More,
    /// Nothing for a while: what can be given is given.
    Pause,
    /// Nothing.
    End,
}

/// A chain over one stream.
pub struct Run {
    stages: Vec<Stage>,
    bounds: Bounds,
    given: u64,
    /// So many filters have been told of what comes behind the last piece, and that is what they have been told.
    told: usize,
    then: Then,
}

/// A filter of a run.
struct Stage {
    filter: Box<dyn Filter>,
    needs_whole: bool,
    /// Bytes that it has taken.
    took: u64,
    /// It may have more to give of what it has taken.
    owes: bool,
    /// Its output, and how much of that the next one has taken.
    given: Vec<u8>,
    passed: usize,
}

impl Stage {
    fn new(filter: Box<dyn Filter>, needs_whole: bool) -> Stage {
        Stage { filter, needs_whole, took: 0, owes: false, given: Vec::new(), passed: 0 }
    }

    fn take(&mut self, piece: &[u8], held_max: u64) -> Result<(), Fault> {
        self.took += piece.len() as u64;
        if self.needs_whole && self.took > held_max {
            return Err(Fault::TooLarge(held_max));
        }
        self.owes = true;
        self.filter.take(piece, &mut self.given)
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("filters", &self.stages.len()).field("given", &self.given).finish_non_exhaustive()
    }
}

impl Run {
    /// Whether it gives nothing before it has taken all.
    pub fn needs_whole(&self) -> bool {
        self.stages.iter().any(|stage| stage.needs_whole)
    }

    /// Takes the next piece, and writes what can be given already behind `out`.
    ///
    /// # Errors
    /// See [`Fault`]. The run is not used again then.
    pub fn take(&mut self, mut piece: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        self.go_on(&mut piece, Then::More, out, usize::MAX).map(drop)
    }

    /// There are no more pieces. Writes the rest behind `out`.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        self.go_on(&mut &[][..], Then::End, out, usize::MAX).map(drop)
    }

    /// Goes on with `input`, of which it removes what it has taken, until there is nothing left to do before `then` or
    /// behind it, which is what it returns, or until `out` has `out_max` bytes. In the second case it is to be called
    /// again with what is left, and the same `then`.
    ///
    /// # Errors
    /// See [`Fault`]. The run is not used again then.
    pub fn go_on(&mut self, input: &mut &[u8], then: Then, out: &mut Vec<u8>, out_max: usize) -> Result<bool, Fault> {
        if !input.is_empty() || then != self.then {
            (self.told, self.then) = (0, then);
        }
        while out.len() < out_max {
            if self.pass_on(out)? || self.take_piece(input)? {
                continue;
            }
            if then == Then::More {
                return Ok(true);
            }
            let Some(stage) = self.stages.get_mut(self.told) else { return Ok(true) };
            match then {
                Then::End => stage.filter.finish(&mut stage.given)?,
                Then::More | Then::Pause => stage.filter.flush(&mut stage.given)?,
            }
            self.told += 1;
            self.bound(self.told - 1)?;
        }
        Ok(false)
    }

    /// The last filter that has something to do does it, or what it has given leaves. False if there is nothing.
    fn pass_on(&mut self, out: &mut Vec<u8>) -> Result<bool, Fault> {
        for at in (0..self.stages.len()).rev() {
            let stage = &mut self.stages[at];
            if stage.passed < stage.given.len() {
                return self.pass_from(at, out).map(|()| true);
            }
            stage.given.clear();
            stage.passed = 0;
            if stage.owes {
                stage.owes = stage.filter.more(&mut stage.given)?;
                self.bound(at)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The next filter takes what the one at `at` has given, or it leaves.
    fn pass_from(&mut self, at: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
        let (before, behind) = self.stages.split_at_mut(at + 1);
        let stage = &mut before[at];
        let rest = &stage.given[stage.passed..];
        let Some(next) = behind.first_mut() else {
            self.given += rest.len() as u64;
            if self.given > self.bounds.given {
                return Err(Fault::TooLarge(self.bounds.given));
            }
            out.extend_from_slice(rest);
            stage.passed = stage.given.len();
            return Ok(());
        };
        let piece = &rest[..rest.len().min(PIECE_BYTES)];
        next.take(piece, self.bounds.held)?;
        stage.passed += piece.len();
        self.bound(at + 1)
    }

    /// The first filter takes the next piece. False if there is none.
    fn take_piece(&mut self, input: &mut &[u8]) -> Result<bool, Fault> {
        let (piece, rest) = input.split_at(input.len().min(PIECE_BYTES));
        let Some(first) = self.stages.first_mut().filter(|_| !piece.is_empty()) else { return Ok(false) };
        first.take(piece, self.bounds.held)?;
        *input = rest;
        self.bound(0)?;
        Ok(true)
    }

    /// Checks that the output of a filter that the next has not taken is within the bound.
    fn bound(&self, at: usize) -> Result<(), Fault> {
        let given = self.stages.get(at).map_or(0, |stage| stage.given.len() as u64);
        if given > self.bounds.held { Err(Fault::TooLarge(self.bounds.held)) } else { Ok(()) }
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
        let mut run = chain.start(&mut Content::new(media_type), Bounds::whole(1 << 20)).expect("some filter takes it");
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
        let bounds = Bounds::whole(10);
        assert!(chain.start(&mut Content::new("image/png"), bounds).is_none());
        assert!(Chain::default().start(&mut Content::new("text/plain"), bounds).is_none());
        let mut content = Content::new("text/markdown; charset=utf-8");
        assert!(chain.start(&mut content, bounds).is_some());
        assert_eq!(content.media_type, "text/html; charset=utf-8");
        let mut coded = Content { coding: None, ..Content::new("text/markdown") };
        assert!(chain.start(&mut coded, bounds).is_none());
    }

    #[test]
    fn a_run_never_gives_more_than_its_bound() {
        let chain = Chain::new(&[replacing("a", &"b".repeat(100))]).unwrap();
        for (content, fits) in [("a", true), ("aa", false), ("aaaaaaaa", false)] {
            let mut run = chain.start(&mut Content::new("text/plain"), Bounds::whole(100)).unwrap();
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
        let stages = vec![Stage::new(filter, false)];
        let mut run = Run { stages, bounds: Bounds::whole(1 << 20), given: 0, told: 0, then: Then::More };
        assert_eq!(run.take(&vec![b'a'; 1 << 20], &mut Vec::new()), Err(Fault::TooLarge(1 << 20)));
        assert_eq!(taken.load(Relaxed), PIECE_BYTES);
    }

    #[test]
    fn a_filter_that_needs_the_whole_content_does_not_hold_more_than_it_may() {
        let chain = Chain::new(&[step("markdown", &[])]).unwrap();
        let bounds = Bounds { given: u64::MAX, held: 10_000 };
        let mut run = chain.start(&mut Content::new("text/markdown"), bounds).unwrap();
        assert!(run.needs_whole());
        assert_eq!(run.take(&[b'a'; 10_001], &mut Vec::new()), Err(Fault::TooLarge(10_000)));
    }

    #[test]
    fn what_is_wrong_with_a_step_is_said() {
        let wrong = |step: Step| Chain::new(&[replacing("a", "b"), step]).unwrap_err();
        assert_eq!(wrong(step("nothing", &[])).step, 1);
        for (step, said) in [
            (
                step("nothing", &[]),
                "there is no filter `nothing`: there are compress, decompress, images, include, insert, markdown, omit, structured, \
                 substitute",
            ),
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
        fn it_does_not_matter_how_much_is_wanted_at_once(
            content in "[ab]{0,200}", piece_bytes in 1_usize..90, out_max in 1_usize..50, pauses: bool,
        ) {
            let steps = [replacing("ab", "ababab"), step("compress", &[]), step("decompress", &[]), replacing("ba", "c")];
            let chain = Chain::new(&steps).unwrap();
            let mut asked = Content { accepts: (*b"gzip").into(), ..Content::new("text/plain") };
            let mut run = chain.start(&mut asked, Bounds::whole(1 << 20)).unwrap();
            let mut made = Vec::new();
            let then = if pauses { Then::Pause } else { Then::More };
            let pieces = content.as_bytes().chunks(piece_bytes).map(|piece| (piece, then));
            for (mut piece, then) in pieces.chain([(&[][..], Then::End)]) {
                loop {
                    let mut out = Vec::new();
                    let is_done = run.go_on(&mut piece, then, &mut out, out_max).unwrap();
                    prop_assert!(out.len() <= out_max + 1024);
                    made.append(&mut out);
                    if is_done {
                        break;
                    }
                }
                prop_assert!(piece.is_empty());
            }
            let expected = content.replace("ab", "ababab").replace("ba", "c");
            prop_assert_eq!(String::from_utf8(made).unwrap(), expected);
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
