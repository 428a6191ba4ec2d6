//! The same filter, rot13, in every form that a service has: all hold the same.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use lamna_config::service::{NativeSettings, WasmSettings};

use super::*;

#[path = "../../../../server/examples/embedded/rot13.rs"]
mod in_the_program;

/// Media type, content, and its filtered form.
const CASES: [(&str, &str, Option<&str>); 5] = [
    ("text/plain", "Hello, World! 123\n", Some("Uryyb, Jbeyq! 123\n")),
    ("text/html; charset=utf-8", "<p>Nz</p>", Some("<c>Am</c>")),
    ("text/plain", "", Some("")),
    ("text/plain", "g\u{fc}n", Some("t\u{fc}a")),
    ("image/png", "Hello", None),
];

/// Says that something was not tried, on standard error and, if `LAMNA_SKIPPED_FILE` names a file, at its end.
fn skipped(name: &str, reason: &str) {
    let line = format!("SKIPPED service::tests::{name}: {reason}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    if let Some(path) = std::env::var_os("LAMNA_SKIPPED_FILE") {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
}

/// A registry whose service `rot13` is of one form.
struct Form {
    name: &'static str,
    registry: Registry,
    _directory: tempfile::TempDir,
}

/// The forms that can be built here. What is missing is said.
fn forms() -> Vec<Form> {
    let embedded =
        Registry::with_embedded([("rot13".to_owned(), Arc::new(in_the_program::Rot13) as Arc<dyn Make>)].into());
    let all = vec![
        ("in the program", What::Embedded, tempfile::tempdir().unwrap()),
        build("C", "cc", &["-shared", "-fPIC", "-O2", "-Wall", "-Werror"], "rot13.c"),
        #[cfg(feature = "wasm")]
        in_wasm(),
        #[cfg(feature = "wasm")]
        in_wasm_of_rust(),
        build("Rust", "rustc", &["--edition", "2024", "--crate-type", "cdylib", "-O", "-C", "panic=abort"], "rot13.rs"),
    ];
    let mut embedded = Some(embedded);
    let form = |(name, what, directory): (&'static str, What, tempfile::TempDir)| {
        if what == What::Absent {
            skipped(&format!("rot13 in {name}"), "what builds it is not on this machine");
            return None;
        }
        let registry = match what {
            What::Embedded => embedded.take().unwrap(),
            _ => Registry::default(),
        };
        registry.set(&[defined("rot13", what)]).unwrap();
        Some(Form { name, registry, _directory: directory })
    };
    all.into_iter().filter_map(form).collect()
}

/// A shared object of a file of `examples/native`; nothing without its compiler.
fn build(name: &'static str, compiler: &str, flags: &[&str], source: &str) -> (&'static str, What, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../server"));
    let what = match Command::new(compiler).arg("--version").output() {
        Err(_) => What::Absent,
        Ok(_) => {
            let object = directory.path().join("rot13.so");
            let mut command = Command::new(compiler);
            command.args(flags).arg("-o").arg(&object).arg(root.join("examples/native").join(source));
            if compiler == "cc" {
                command.arg("-I").arg(root);
            }
            let built = command.output().unwrap();
            assert!(built.status.success(), "{source}: {}", String::from_utf8_lossy(&built.stderr));
            native(object)
        }
    };
    (name, what, directory)
}

/// As a module of WebAssembly; nothing without its compiler and linker.
#[cfg(feature = "wasm")]
fn in_wasm() -> (&'static str, What, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let has = |program| Command::new(program).arg("--version").output().is_ok();
    let what = if has("clang") && has("wasm-ld") {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../server"));
        let module = directory.path().join("rot13.wasm");
        let mut command = Command::new("clang");
        command.args(["--target=wasm32", "-O2", "-Wall", "-Werror", "-nostdlib", "-Wl,--no-entry", "-I"]).arg(root);
        let built = command.arg("-o").arg(&module).arg(root.join("examples/wasm/rot13.c")).output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        wasm(module)
    } else {
        What::Absent
    };
    ("WebAssembly", what, directory)
}

/// As a module of WebAssembly in Rust; nothing without its standard library for that.
#[cfg(feature = "wasm")]
fn in_wasm_of_rust() -> (&'static str, What, tempfile::TempDir) {
    const TARGET: [&str; 2] = ["--target", "wasm32-unknown-unknown"];
    let directory = tempfile::tempdir().unwrap();
    let library = Command::new("rustc").args(TARGET).args(["--print", "target-libdir"]).output();
    let has_library = library.is_ok_and(|said| Path::new(String::from_utf8_lossy(&said.stdout).trim()).is_dir());
    let what = if has_library {
        let module = directory.path().join("rot13.wasm");
        let mut command = Command::new("rustc");
        command.args(["--edition", "2024", "--crate-type", "cdylib", "-O", "-D", "warnings"]).args(TARGET);
        command
            .args(["-C", "panic=abort", "-C", "strip=symbols", "-C", "link-arg=-zstack-size=65536", "-o"])
            .arg(&module);
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../server"));
        let built = command.arg(root.join("examples/wasm/rot13.rs")).output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        wasm(module)
    } else {
        What::Absent
    };
    ("WebAssembly of Rust", what, directory)
}

pub(super) fn wasm(component: PathBuf) -> What {
    What::Wasm(WasmSettings {
        component,
        parameters: Default::default(),
        time_max_ms: 1000,
        memory_bytes_max: 1 << 20,
        fuel_max: 10_000_000,
    })
}

fn native(object: PathBuf) -> What {
    What::Native(NativeSettings { object, parameters: Default::default(), time_max_ms: 1000 })
}

fn filtered(registry: &Registry, media_type: &str, content: &str, piece_bytes: usize) -> Option<String> {
    let chain = registry.chain(&[named("rot13")]).unwrap();
    let mut run = chain.start(&mut Content::new(media_type), Bounds::whole(16 << 20))?;
    let mut out = Vec::new();
    content.as_bytes().chunks(piece_bytes).for_each(|piece| run.take(piece, &mut out).unwrap());
    run.finish(&mut out).unwrap();
    Some(String::from_utf8(out).unwrap())
}

#[test]
fn rot13_is_the_same_in_every_form() {
    for Form { name, registry, .. } in forms() {
        for (media_type, content, expected) in CASES {
            for piece_bytes in [1, 3, 100] {
                let made = filtered(&registry, media_type, content, piece_bytes);
                assert_eq!(made.as_deref(), expected, "{name}: {content:?} in pieces of {piece_bytes}");
            }
        }
        let long = "Lorem ipsum ".repeat(100_000);
        let twice = filtered(&registry, "text/plain", &filtered(&registry, "text/plain", &long, 16384).unwrap(), 16384);
        assert_eq!(twice.as_deref(), Some(&*long), "{name}");
        assert_eq!(registry.known()[0].life, Life::InUse, "{name}");
    }
}

#[test]
fn many_threads_use_every_form_while_it_is_replaced() {
    for Form { name, registry, .. } in forms() {
        let definitions = registry.definitions();
        std::thread::scope(|scope| {
            let users: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..200 {
                            assert_eq!(
                                filtered(&registry, "text/plain", "Hello", 2).as_deref(),
                                Some("Uryyb"),
                                "{name}"
                            );
                        }
                    })
                })
                .collect();
            for _ in 0..20 {
                registry.renew(&definitions, Some("rot13")).unwrap();
            }
            users.into_iter().for_each(|user| user.join().unwrap());
        });
        assert_eq!(registry.known()[0].generation, 21, "{name}");
    }
}

#[test]
fn what_is_no_filter_is_refused_with_its_reason() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |what: What| Registry::default().set(&[defined("rot13", what)]).unwrap_err();
    let text = directory.path().join("text.so");
    std::fs::write(&text, "no object").unwrap();
    assert!(refused(native(text)).contains("no shared object that can be loaded"));
    assert!(refused(native(directory.path().join("none.so"))).contains("cannot be read"));
    if Command::new("cc").arg("--version").output().is_err() {
        return skipped("shared objects that are no filters", "there is no C compiler (cc)");
    }
    for (source, said) in [
        ("int other;", "no symbol `lamna_filter`"),
        ("const unsigned lamna_filter[2] = {7, 64};", "speaks version 7"),
        ("const unsigned lamna_filter[2] = {1, 8};\nchar more[64];", "its table has 8 bytes"),
        ("const unsigned long lamna_filter[8] = {64ul << 32 | 1};", "lacks a function"),
    ] {
        let file = directory.path().join("filter.c");
        std::fs::write(&file, source).unwrap();
        let object = directory.path().join("filter.so");
        let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&object).arg(&file).status();
        assert!(built.unwrap().success(), "{source}");
        let error = refused(native(object));
        assert!(error.contains(said), "{source}: {error}");
    }
    let (_, with, _kept) = build("C", "cc", &["-shared", "-fPIC"], "rot13.c");
    let What::Native(settings) = with else { panic!("there is a compiler") };
    let parameters = [("a".to_owned(), "b".to_owned())].into();
    let error = refused(What::Native(NativeSettings { parameters, ..settings }));
    assert!(error.contains("it does not begin: rot13 has no parameters"), "{error}");
}

#[cfg(not(feature = "wasm"))]
#[test]
fn a_server_without_web_assembly_says_how_to_have_it() {
    let error = Registry::default().set(&[defined("rot13", wasm("/none.wasm".into()))]).unwrap_err();
    assert!(error.contains("build it with `--features wasm`"), "{error}");
}

#[test]
fn shared_objects_that_fail_or_exceed_a_bound_are_suspended_with_their_reason() {
    if Command::new("cc").arg("--version").output().is_err() {
        return skipped("shared objects that fail", "there is no C compiler (cc)");
    }
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../server"));
    for (deed, why) in [
        ("return 9;", "a call returned 9"),
        ("for (;;) if (output->write(output->state, piece, count)) return LAMNA_FAILED;", "a call returned 2"),
        ("for (volatile unsigned long at = 0; at < 400000000ul; at++); return 0;", "of processor time"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let source = std::fs::read_to_string(root.join("examples/native/rot13.c")).unwrap();
        let source =
            source.replacen("    uint8_t turned[4096];\n", &format!("    uint8_t turned[4096];\n    {deed}\n"), 1);
        let (file, object) = (directory.path().join("bad.c"), directory.path().join("bad.so"));
        std::fs::write(&file, source).unwrap();
        let mut command = Command::new("cc");
        command.args(["-shared", "-fPIC", "-O0", "-o"]).arg(&object).arg(&file).arg("-I").arg(root);
        assert!(command.status().unwrap().success(), "{deed}");
        let registry = Registry::default();
        let What::Native(settings) = native(object) else { unreachable!() };
        registry.set(&[defined("rot13", What::Native(NativeSettings { time_max_ms: 50, ..settings }))]).unwrap();
        let fault = begin_as(&registry, "text/plain").take(b"hello", &mut Vec::new()).unwrap_err();
        assert!(matches!(&fault, Fault::Failed(said) if said.contains(why)), "{deed}: {fault}");
        let known = registry.known().remove(0);
        assert_eq!(known.life, Life::Failed, "{deed}");
        assert!(known.why.unwrap().contains(why), "{deed}");
    }
}

fn begin_as(registry: &Registry, media_type: &str) -> Run {
    let chain = registry.chain(&[named("rot13")]).unwrap();
    chain.start(&mut Content::new(media_type), Bounds::whole(1 << 30)).unwrap()
}
