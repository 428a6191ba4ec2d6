//! The rules of the source tree, held by a test: layers, headers, `unsafe`, sizes.
//!
//! Owns: [`LAYERS`], the order of the folders of `lamna-server`. Reads the sources as text: what a test module does is not
//! looked at, and neither is what a macro makes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The folders of this crate, lowest first. A file may use its own folder and those before it.
const LAYERS: [&str; 20] = [
    "sys",
    "metrics",
    "config",
    "io",
    "log",
    "listen",
    "tls",
    "acme",
    "upstream",
    "cache",
    "hints",
    "service",
    "content",
    "early_hints",
    "gateway",
    "worker",
    "engine",
    "admin",
    "process",
    "embed",
];

/// The longest file, in lines. A longer one holds two concepts.
const LINES_MAX: usize = 700;

/// The most files that may use each other in a circle. It is to become less.
const CIRCLE_MAX: usize = 7;

/// A module of this crate: its path as in `cache::store`, and its source without comments and tests.
struct Module {
    path: String,
    source: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn rust_files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("the source tree is there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn files_of(directory: &Path) -> Vec<PathBuf> {
    let files = files_of_any(directory);
    assert!(files.len() > 10, "{} has the sources", directory.display());
    files
}

/// The same for a directory that may have few.
fn files_of_any(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    rust_files(directory, &mut files);
    files.sort();
    assert!(!files.is_empty(), "{} has sources", directory.display());
    files
}

/// The sources of every crate of the workspace.
fn workspace_files() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate is one of several");
    files_of(crates).into_iter().filter(|file| file.components().any(|part| part.as_os_str() == "src")).collect()
}

/// Without comments, and without the unit tests, which stand at the end.
fn code_of(file: &Path) -> String {
    let text = fs::read_to_string(file).expect("a source file is text");
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    code.lines().filter(is_code).collect::<Vec<_>>().join("\n")
}

fn modules() -> Vec<Module> {
    let is_tested_only = |path: &str| path.ends_with("model") || path.ends_with("tests") || path.contains("testing");
    let module = |file: PathBuf| {
        let relative = file.strip_prefix(root()).expect("it is below the root").with_extension("");
        let parts: Vec<_> = relative.iter().filter_map(|part| part.to_str()).filter(|part| *part != "mod").collect();
        Module { path: parts.join("::"), source: code_of(&file) }
    };
    let all = files_of(&root()).into_iter().map(module);
    all.filter(|module| !is_tested_only(&module.path) && !["lib", "loom_support"].contains(&&*module.path)).collect()
}

/// The paths that a `use` tree stands for.
fn leaves(tree: &str, prefix: &str, found: &mut Vec<String>) {
    let Some((head, rest)) = tree.split_once('{') else {
        found.push(format!("{prefix}{}", tree.split(" as ").next().unwrap_or_default().trim()));
        return;
    };
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let (mut depth, mut start) = (0, 0);
    for (at, byte) in inner.bytes().chain([b',']).enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' if depth == 0 => {
                let part = inner[start..at].trim();
                if !part.is_empty() {
                    leaves(part, &format!("{prefix}{}", head.trim()), found);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// Every path of this crate that `module` names, from its root.
fn named_by(module: &Module) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    let mut rest = String::new();
    let mut source = &*module.source;
    while let Some(at) = source.find("use ") {
        rest.push_str(&source[..at]);
        let begins_a_word = source[..at].chars().next_back().is_none_or(|before| !before.is_alphanumeric());
        let end = source[at..].find(';').map_or(source.len(), |end| at + end);
        if begins_a_word {
            leaves(&source[at + 4..end].replace('\n', " "), "", &mut paths);
        }
        source = &source[end..];
    }
    rest.push_str(source);
    let is_of_path = |character: char| character.is_alphanumeric() || character == '_' || character == ':';
    for word in rest.split(|character: char| !is_of_path(character)) {
        if word.starts_with("crate::") || word.starts_with("super::") {
            paths.push(word.to_owned());
        }
    }
    paths.iter().filter_map(|path| absolute(path, &module.path)).collect()
}

fn absolute(path: &str, module: &str) -> Option<Vec<String>> {
    let parts: Vec<&str> = path.split("::").map(str::trim).collect();
    let ups = parts.iter().take_while(|part| **part == "super").count();
    let mut context: Vec<&str> = module.split("::").collect();
    match parts.first() {
        Some(&"crate") => context.clear(),
        Some(&"super") => context.truncate(context.len().checked_sub(ups)?),
        Some(&"self") => {}
        _ => return None,
    }
    let rest = parts.into_iter().skip(ups.max(1));
    Some(context.into_iter().chain(rest).map(str::to_owned).collect())
}

fn layer(path: &str) -> usize {
    let top = path.split("::").next().unwrap_or_default();
    LAYERS.iter().position(|layer| *layer == top).unwrap_or_else(|| panic!("{path} is in no layer: add it to LAYERS"))
}

#[test]
fn imports_point_downwards() {
    let mut upwards = BTreeSet::new();
    for module in modules() {
        for path in named_by(&module) {
            let is_folder = path.first().is_some_and(|top| LAYERS.contains(&&**top));
            if is_folder && layer(&path[0]) > layer(&module.path) {
                upwards.insert(format!("{} uses {}", module.path, path.join("::")));
            }
        }
    }
    assert!(upwards.is_empty(), "{upwards:#?}");
}

#[test]
fn few_files_use_each_other_in_a_circle() {
    let modules = modules();
    let known: BTreeSet<&str> = modules.iter().map(|module| &*module.path).collect();
    let mut uses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for module in &modules {
        let used = uses.entry(&module.path).or_default();
        for path in named_by(module) {
            let candidates = (1..=path.len()).rev().map(|length| path[..length].join("::"));
            let found = candidates.filter_map(|candidate| known.get(&*candidate).copied()).next();
            // What a folder's file has for its own files only is theirs as well.
            let is_sync = path.iter().any(|part| part == "sync" || part == "memory_accounting");
            used.extend(found.filter(|found| *found != module.path && !is_sync));
        }
    }
    let circles: Vec<BTreeSet<&str>> = known.iter().map(|module| circle_of(module, &uses)).collect();
    let largest = circles.into_iter().max_by_key(BTreeSet::len).expect("there are modules");
    assert!(largest.len() <= CIRCLE_MAX, "{} files use each other: {largest:#?}", largest.len());
}

/// The modules that `module` uses, however indirectly, and that use it.
fn circle_of<'a>(module: &'a str, uses: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeSet<&'a str> {
    let reached = reached_from(module, uses);
    reached.iter().filter(|other| reached_from(other, uses).contains(module)).copied().collect()
}

fn reached_from<'a>(module: &'a str, uses: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeSet<&'a str> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![module]);
    while let Some(next) = open.pop() {
        open.extend(uses.get(next).into_iter().flatten().filter(|used| reached.insert(**used)));
    }
    reached
}

#[test]
fn every_file_opens_with_its_purpose() {
    let opens = |file: &PathBuf| fs::read_to_string(file).is_ok_and(|text| text.starts_with("//!"));
    let without: Vec<PathBuf> = workspace_files().into_iter().filter(|file| !opens(file)).collect();
    assert!(without.is_empty(), "{without:#?}");
}

#[test]
fn unsafe_code_and_the_c_library_stay_in_sys() {
    let is_unsafe =
        |code: &str| ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"].iter().any(|form| code.contains(form));
    let is_sys = |file: &Path| file.starts_with(root().join("sys"));
    let names_libc = |file: &Path, code: &str| file.starts_with(root()) && code.contains("libc::");
    let is_outside = |file: &PathBuf| {
        let code = code_of(file);
        !is_sys(file) && (is_unsafe(&code) || names_libc(file, &code))
    };
    let outside: Vec<PathBuf> = workspace_files().into_iter().filter(is_outside).collect();
    assert!(outside.is_empty(), "{outside:#?}");
}

/// `eprintln!` and its kind panic if nobody reads: `sys::say` does not.
#[test]
fn the_server_says_nothing_in_a_way_that_can_panic() {
    let panics = |file: &PathBuf| {
        let code = code_of(file);
        ["println!(", "eprint!(", " print!("].iter().any(|form| code.contains(form))
    };
    let cli = root().parent().and_then(Path::parent).expect("this crate is one of several").join("cli/src");
    let spoken: Vec<PathBuf> = files_of(&root()).into_iter().chain(files_of_any(&cli)).filter(panics).collect();
    assert!(spoken.is_empty(), "{spoken:#?}");
}

#[test]
fn no_file_is_longer_than_one_concept() {
    let lines = |file: &Path| fs::read_to_string(file).map_or(0, |text| text.lines().count());
    let long: Vec<(usize, PathBuf)> = workspace_files()
        .into_iter()
        .map(|file| (lines(&file), file))
        .filter(|(lines, _)| *lines > LINES_MAX)
        .collect();
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn the_code_in_the_document_is_that_of_the_examples() {
    let document = include_str!("../../../docs/extending.md");
    let examples = [
        include_str!("../examples/embedded/main.rs"),
        include_str!("../examples/own_engine.rs"),
        include_str!("../examples/own_cache_policy.rs"),
        include_str!("../../policy/examples/own_policy/clock.rs"),
        include_str!("../src/config/settings.rs"),
        include_str!("../src/config/setting/table.rs"),
        include_str!("../src/process/running_engine.rs"),
    ];
    let blocks: Vec<&str> =
        document.split("```rust\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0)).collect();
    assert!(blocks.len() >= examples.len());
    for block in blocks {
        assert!(examples.iter().any(|example| example.contains(block)), "no example has this:\n{block}");
    }
}
