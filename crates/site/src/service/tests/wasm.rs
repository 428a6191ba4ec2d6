//! Misbehaving components: they reach nothing, and their bounds hold.

use std::path::PathBuf;

use lamna_config::service::WasmSettings;

use super::*;

/// A module that gives what it takes, but for the bodies of its functions.
struct Module {
    init: &'static str,
    begin: &'static str,
    take: &'static str,
    more: &'static str,
}

const SAME: Module = Module {
    init: "(call $give (i32.const 0) (i32.const 0) (i32.const 0))",
    begin: "(call $give (i32.const 1) (local.get 0) (local.get 1))",
    take: "(call $give (i32.const 0) (local.get 0) (local.get 1))",
    more: "",
};

impl Module {
    fn text(&self) -> String {
        let Module { init, begin, take, more } = self;
        format!(
            r#"(module {more}
              (memory (export "memory") 2)
              (global $next (mut i32) (i32.const 1024))
              (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (local $at i32)
                (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
                (global.set $next (i32.add (local.get $at) (local.get 3)))
                (local.get $at))
              (func $give (param i32 i32 i32) (result i32)
                (i32.store (i32.const 0) (local.get 0))
                (i32.store (i32.const 4) (local.get 1))
                (i32.store (i32.const 8) (local.get 2))
                (global.set $next (i32.const 1024))
                (i32.const 0))
              (func (export "init") (param i32 i32) (result i32) {init})
              (func (export "begin") (param i32 i32) (result i32) {begin})
              (func $take (export "take") (param i32 i32) (result i32) {take})
              (func (export "finish") (result i32) (call $give (i32.const 0) (i32.const 0) (i32.const 0)))
              (data (i32.const 16) "not this"))"#
        )
    }

    fn bytes(&self) -> Vec<u8> {
        wat::parse_str(self.text()).unwrap()
    }
}

/// A registry whose service `wasm` is of this file; or why there is none.
fn registry(bytes: &[u8]) -> Result<Registry, String> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("filter.wasm");
    std::fs::write(&file, bytes).unwrap();
    let registry = Registry::default();
    registry.set(&[defined("wasm", rot13::wasm(file))])?;
    Ok(registry)
}

fn filtered(registry: &Registry, content: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut run = begin(registry, "wasm");
    let mut out = Vec::new();
    run.take(content, &mut out)?;
    run.finish(&mut out)?;
    Ok(out)
}

#[test]
fn a_module_and_a_component_filter_content_of_any_length() {
    let shell = include_str!("../../../wasm_shell.wat");
    let component = shell.replace("(core module $module)", &SAME.text().replacen("(module", "(core module $module", 1));
    for bytes in [SAME.bytes(), wat::parse_str(component).unwrap()] {
        let registry = registry(&bytes).unwrap();
        for count in [0, 1, 16_384, 16_385, 1_000_000] {
            let content: Vec<u8> = (0..count).map(|at: u32| at.to_le_bytes()[1]).collect();
            assert!(filtered(&registry, &content).unwrap() == content, "{count}");
        }
        assert_eq!(registry.known()[0].life, Life::InUse);
    }
}

#[test]
fn what_is_no_component_of_the_world_is_refused_with_its_reason() {
    let module = |more, init| Module { more, init, ..SAME }.bytes();
    let without = |export: &str| wat::parse_str(SAME.text().replace(&format!("(export \"{export}\")"), "")).unwrap();
    for (bytes, said) in [
        (b"no module".to_vec(), "filter.wasm"),
        (b"\0asm\x01\0\0\0\xff".to_vec(), "filter.wasm"),
        (b"\0asm\x0d\0\x01\0".to_vec(), "it has no function `init`"),
        (module("(import \"env\" \"open\" (func))", SAME.init), "env"),
        (without("take"), "take"),
        (without("memory"), "memory"),
        (without("cabi_realloc"), "cabi_realloc"),
        (module("", "(call $give (i32.const 1) (i32.const 16) (i32.const 8))"), "it does not begin: not this"),
        (module("", "unreachable"), "unreachable"),
        (module("", "(loop $l (br $l)) unreachable"), "more than 10000000 units of fuel"),
        (
            wat::parse_str(SAME.text().replace("(export \"memory\") 2", "(export \"memory\") 32")).unwrap(),
            "more than 1048576 bytes of memory",
        ),
        (module("(table 1000000 funcref)", SAME.init), "more than 100000 elements"),
    ] {
        let error = registry(&bytes).err().unwrap_or_else(|| panic!("{said}: it was taken"));
        assert!(error.contains(said), "{said}: {error}");
    }
}

#[test]
fn a_component_that_fails_or_exceeds_a_bound_is_suspended_with_its_reason() {
    for (take, why) in [
        ("unreachable", "unreachable"),
        ("(loop $l (br $l)) unreachable", "a call took more than 10000000 units of fuel"),
        ("(drop (memory.grow (i32.const 20))) unreachable", "more than 1048576 bytes of memory"),
        ("(call $take (local.get 0) (local.get 1))", "call stack exhausted"),
        ("(i32.load (i32.const -8))", "out of bounds"),
        ("(call $give (i32.const 0) (i32.const -8) (i32.const 100))", "out of bounds"),
        ("(call $give (i32.const 7) (i32.const 0) (i32.const 0))", "discriminant"),
        ("(i32.const -4)", "out of bounds"),
        ("(i32.const 3)", "align"),
        ("(memory.fill (i32.const 0) (i32.const 0) (i32.const 131073)) unreachable", "out of bounds"),
    ] {
        let registry = registry(&Module { take, ..SAME }.bytes()).unwrap();
        let fault = filtered(&registry, b"hello").unwrap_err();
        assert!(matches!(&fault, Fault::Failed(said) if said.contains(why)), "{take}: {fault}");
        let known = registry.known().remove(0);
        assert!(known.life == Life::Failed && known.why.unwrap().contains(why), "{take}");
    }
}

#[test]
fn what_a_component_says_of_content_is_not_held_against_it() {
    let take = "(call $give (i32.const 1) (i32.const 16) (i32.const 8))";
    let registry = registry(&Module { take, ..SAME }.bytes()).unwrap();
    let fault = filtered(&registry, b"hello").unwrap_err();
    assert_eq!(fault, Fault::Content("the service does not take this content: not this".to_owned()));
    assert_eq!(registry.known()[0].life, Life::InUse);
}

#[test]
fn a_component_decides_what_it_takes_and_says_a_media_type_that_can_be_sent() {
    let nothing = Module { begin: "(call $give (i32.const 0) (i32.const 0) (i32.const 0))", ..SAME };
    let chain = registry(&nothing.bytes()).unwrap().chain(&[named("wasm")]).unwrap();
    assert!(chain.start(&mut Content::new("text/plain"), Bounds::whole(1 << 20)).is_none());
    // A line feed.
    let malformed = Module {
        begin: "(i32.store8 (i32.const 16) (i32.const 10)) (call $give (i32.const 1) (i32.const 16) (i32.const 8))",
        ..SAME
    };
    let registry = registry(&malformed.bytes()).unwrap();
    assert!(matches!(filtered(&registry, b"a"), Err(Fault::Failed(why)) if why.contains("no media type")));
}

#[test]
fn streams_know_nothing_of_each_other() {
    // It gives how many pieces it has taken.
    let take = "(i32.store8 (i32.const 512) (i32.add (i32.load8_u (i32.const 512)) (i32.const 1)))
                (call $give (i32.const 0) (i32.const 512) (i32.const 1))";
    let registry = registry(&Module { take, ..SAME }.bytes()).unwrap();
    let (mut one, mut other, mut out) = (begin(&registry, "wasm"), begin(&registry, "wasm"), Vec::new());
    one.take(b"a", &mut out).unwrap();
    other.take(b"a", &mut out).unwrap();
    one.take(b"a", &mut out).unwrap();
    assert_eq!(out, [1, 1, 2]);
}

#[test]
fn the_bounds_are_those_that_are_configured() {
    let directory = tempfile::tempdir().unwrap();
    let component: PathBuf = directory.path().join("filter.wasm");
    let take = "(drop (memory.grow (i32.const 20))) (call $give (i32.const 0) (local.get 0) (local.get 1))";
    std::fs::write(&component, Module { take, ..SAME }.bytes()).unwrap();
    for (memory_bytes_max, fuel_max, is_enough) in
        [(2 << 20, 10_000, true), (1 << 20, 10_000, false), (2 << 20, 1_000_000, true)]
    {
        let What::Wasm(settings) = rot13::wasm(component.clone()) else { unreachable!() };
        let registry = Registry::default();
        registry.set(&[defined("wasm", What::Wasm(WasmSettings { memory_bytes_max, fuel_max, ..settings }))]).unwrap();
        assert_eq!(filtered(&registry, b"a").is_ok(), is_enough, "{memory_bytes_max} {fuel_max}");
    }
}
