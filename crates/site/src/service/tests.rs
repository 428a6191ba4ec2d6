//! Tests of the registry: generations, their end, and the consequences of failures.

mod rot13;
#[cfg(feature = "wasm")]
mod wasm;

use lamna_filter::{Bounds, Content, Fault, Filter, Run};

use super::*;

/// Does with each piece what it was made for.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Shout,
    Panic,
    Grow,
    Fail,
    Object,
    Spin,
}

impl Make for Deed {
    fn start(&self, _: &mut Content) -> Option<Box<dyn Filter>> {
        Some(Box::new(*self))
    }
}

impl Filter for Deed {
    fn take(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        match self {
            Deed::Shout => out.extend(piece.to_ascii_uppercase()),
            Deed::Panic => std::panic::resume_unwind(Box::new("on purpose")),
            Deed::Grow => out.resize(5 << 20, b'a'),
            Deed::Fail => return Err(Fault::Failed("it was asked to".to_owned())),
            Deed::Object => return Err(Fault::Content("not this".to_owned())),
            Deed::Spin => {
                let begun = lamna_sys::clock::thread_time();
                while (lamna_sys::clock::thread_time() - begun).as_millis() <= u128::from(2 * EMBEDDED_TIME_MAX_MS) {}
            }
        }
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), Fault> {
        Ok(())
    }
}

fn embedding(deed: Deed) -> Registry {
    Registry::with_embedded([("deed".to_owned(), Arc::new(deed) as Arc<dyn Make>)].into())
}

fn defined(name: &str, what: What) -> ServiceDefinition {
    ServiceDefinition { name: name.to_owned(), what, on_failure: OnFailure::Error, is_suspended: false }
}

fn named(name: &str) -> Step {
    Step { name: name.to_owned(), parameters: Default::default() }
}

fn begin(registry: &Registry, name: &str) -> Run {
    let chain = registry.chain(&[named(name)]).unwrap();
    chain.start(&mut Content::new("text/markdown"), Bounds::whole(16 << 20)).unwrap()
}

fn life(registry: &Registry) -> Life {
    registry.known()[0].life
}

#[test]
fn what_has_begun_finishes_with_the_generation_that_it_began_with() {
    let registry = embedding(Deed::Shout);
    registry.set(&[defined("deed", What::Embedded)]).unwrap();
    let (mut run, mut out) = (begin(&registry, "deed"), Vec::new());
    run.take(b"one ", &mut out).unwrap();
    let epoch = registry.epoch();
    registry.set(&[defined("deed", What::Chain(vec![named("markdown")]))]).unwrap();
    assert!(registry.epoch() > epoch);
    run.take(b"two", &mut out).and_then(|()| run.finish(&mut out)).unwrap();
    assert_eq!(out, b"ONE TWO");
    let mut out = Vec::new();
    let mut next = begin(&registry, "deed");
    next.take(b"# x", &mut out).and_then(|()| next.finish(&mut out)).unwrap();
    assert!(String::from_utf8(out).unwrap().contains("<h1"));
}

#[test]
fn what_is_the_same_goes_on_as_it_is() {
    let registry = Registry::default();
    let services = [defined("a", What::Absent), defined("b", What::Chain(vec![named("markdown")]))];
    assert_eq!(registry.set(&services), Ok(true));
    let epoch = registry.epoch();
    assert_eq!((registry.set(&services), registry.epoch()), (Ok(false), epoch));
    assert_eq!(registry.renew(&services, Some("b")), Ok(true));
    let generations: Vec<u64> = registry.known().iter().map(|known| known.generation).collect();
    assert_eq!(generations, [1, 3]);
}

#[test]
fn what_cannot_be_made_changes_nothing() {
    let registry = embedding(Deed::Shout);
    registry.set(&[defined("deed", What::Embedded)]).unwrap();
    let error = registry.set(&[defined("other", What::Embedded)]).unwrap_err();
    assert!(error.contains("the program has no filter of this name"), "{error}");
    assert_eq!(life(&registry), Life::InUse);
    assert_eq!(registry.definitions()[0].name, "deed");
}

#[test]
fn a_service_that_fails_or_exceeds_its_bound_is_suspended_with_its_reason_and_resumed_by_order() {
    for (deed, why) in [
        (Deed::Panic, "it panicked"),
        (Deed::Grow, "are its bound"),
        (Deed::Fail, "it was asked to"),
        (Deed::Spin, "of processor time"),
    ] {
        let registry = embedding(deed);
        let services = [defined("deed", What::Embedded)];
        registry.set(&services).unwrap();
        let (mut run, epoch) = (begin(&registry, "deed"), registry.epoch());
        let fault = run.take(b"x", &mut Vec::new()).unwrap_err();
        assert!(matches!(&fault, Fault::Failed(said) if said.contains(why)), "{deed:?}: {fault}");
        assert!(registry.epoch() > epoch);
        let known = registry.known().remove(0);
        assert_eq!((known.life, known.failures, known.runs), (Life::Failed, 1, 1));
        assert!(known.why.unwrap().contains(why));
        assert!(registry.chain(&[named("deed")]).unwrap_err().0.contains(why));
        registry.renew(&services, Some("deed")).unwrap();
        assert_eq!(life(&registry), Life::InUse);
        // One that began before says nothing of who came after it.
        let _ = run.take(b"x", &mut Vec::new());
        assert_eq!(life(&registry), Life::InUse);
    }
}

#[test]
fn what_a_filter_says_of_content_is_not_held_against_it() {
    let registry = embedding(Deed::Object);
    registry.set(&[defined("deed", What::Embedded)]).unwrap();
    assert!(matches!(begin(&registry, "deed").take(b"x", &mut Vec::new()), Err(Fault::Content(_))));
    assert_eq!(life(&registry), Life::InUse);
}

#[test]
fn routes_answer_as_is_configured_while_a_service_cannot_be_used() {
    let registry = embedding(Deed::Shout);
    for what in [What::Absent, What::Embedded] {
        let is_suspended = what == What::Embedded;
        let service = ServiceDefinition { is_suspended, ..defined("deed", what) };
        registry.set(std::slice::from_ref(&service)).unwrap();
        assert!(registry.chain(&[named("deed")]).is_err());
        registry.set(&[ServiceDefinition { on_failure: OnFailure::Pass, ..service }]).unwrap();
        assert!(registry.chain(&[named("deed")]).unwrap().is_empty());
    }
}

#[test]
fn all_processes_see_what_has_failed() {
    let registry = embedding(Deed::Fail);
    registry.set(&[defined("deed", What::Embedded)]).unwrap();
    let other = Registry { board: registry.board.clone(), ..embedding(Deed::Fail) };
    other.take(&registry.rows()).unwrap();
    let _ = begin(&other, "deed").take(b"x", &mut Vec::new());
    assert_eq!(life(&registry), Life::Failed);
}
