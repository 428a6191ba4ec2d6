//! That the table of architectures, what the server chooses between by itself, and the simulator's models agree.
//!
//! The crates do not see each other: this program's tests see all of them.

use lamna_policy::control::Engine;
use lamna_server::config::settings::Architecture;
use lamna_sim::arch::Kind;

/// Models of what no engine does: the same loops as `sped`, with caches that all share.
const MODELS_ONLY: [Kind; 1] = [Kind::EventLoops];

#[test]
fn every_architecture_has_a_model_of_its_name_and_every_model_an_architecture() {
    let names: Vec<&str> = Architecture::ALL.into_iter().map(Architecture::name).collect();
    let models = Kind::ALL.into_iter().filter(|kind| !MODELS_ONLY.contains(kind));
    let models: Vec<&str> = models.map(Kind::name).collect();
    assert_eq!(models, names, "in the order of documentation");
}

#[test]
fn the_server_chooses_between_all_architectures_whose_workers_are_threads() {
    let chosen = |architecture: &Architecture| Engine::from_name(architecture.name()).is_some();
    for architecture in Architecture::ALL {
        assert_eq!(chosen(&architecture), !architecture.is_of_processes(), "{}", architecture.name());
    }
    for engine in Engine::ALL {
        assert!(Architecture::from_name(engine.name()).is_some(), "{}", engine.name());
    }
}
