//! The rules of the source tree, held by a test: layers, headers, `unsafe`, sizes; and of documents: names, links,
//! sentences.
//!
//! Owns: [`LAYERS`], the order of the folders of the server's crates, and [`CIRCLE_MAX`]. That no crate uses one above
//! it the compiler sees, and that nothing but `lamna-sys` has `unsafe`. Reads the sources as text: what a test module
//! does is not looked at, and neither is what a macro makes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates of the server, lowest first, with their folders that are layers of their own. What lies beside these in a
/// crate is one layer, of the crate's name. A file may use its own layer and those before it.
const LAYERS: [(&str, &[&str]); 8] = [
    ("sys", &["sys", "metrics"]),
    ("config", &["config"]),
    ("import", &["import"]),
    ("io", &["io", "log", "listen"]),
    ("tls", &["tls", "acme"]),
    ("site", &["upstream", "cache", "hints", "service", "content", "early_hints", "gateway"]),
    ("engine", &["worker", "engine"]),
    ("server", &["admin", "process", "embed"]),
];

/// The longest file, in lines. A longer one holds two concepts.
const LINES_MAX: usize = 700;

/// The longest sentence of a document, in words.
const SENTENCE_WORDS_MAX: usize = 35;

/// The longest line of a comment, in columns. Drawings and code, which are between fences or indented, may be wider.
const COMMENT_COLUMNS_MAX: usize = 120;

/// The most files that may use each other in a circle.
const CIRCLE_MAX: usize = 6;

/// How a comment begins that has a pronoun where English has a noun, and puts the object first.
const BEGINNINGS: [&str; 4] = ["What ", "Who ", "Whoever ", "Of "];

/// Words for which the code of the server has others now, as whole identifiers.
const RETIRED: &[&str] = &[
    "residents",
    "take_parcels",
    "with_office",
    "foresee",
    "foresight",
    "heir",
    "Heir",
    "FRONT_SHARE",
    "count_front",
    "Posture",
    "posture",
    "postures",
    "pose",
    "Seat",
    "seat",
    "seats",
    "seated",
    "end_if_too_heavy",
    "Course",
    "course",
    "change_course",
    "take_terms",
    "needs_leave",
    "lacks_leave",
    "has_leave",
    "uplink_free",
    "Desk",
    "desk",
    "Sight",
    "sight",
    "lane",
    "lanes",
    "Lanes",
    "Lookout",
    "lookout",
    "Crew",
    "crew",
    "Staff",
    "Census",
    "Kindred",
    "Orderer",
    "Doors",
    "haunt",
    "is_pressed",
    "can_travel",
    "holds_alone",
    "leaves_pages",
    "Landed",
    "landed",
    "land",
    "wishes",
    "has_wishes",
    "grant_wishes",
    "is_wish",
    "Wish",
    "wish",
    "Question",
    "Questioning",
    "Vouched",
    "Inquiry",
    "Turns",
    "Party",
    "Bell",
    "add_bell",
    "Outlet",
    "outlet",
    "Grounds",
    "grounds",
    "Ran",
    "handle_ran",
    "foresee_translate",
    "translate_of",
    "KeyParts",
    "Observer",
    "observer",
    "Means",
    "Claim",
    "doubts",
    "line_up",
    "begin_question",
    "Greeting",
    "Locating",
    "Pausing",
    "Talking",
    "Choosing",
    "talk_over",
];

/// A module: its crate, its path in it, and its source without comments and tests.
struct Module {
    owner: String,
    local: Vec<String>,
    source: String,
}

impl Module {
    /// The path with the layer, or the crate, in front: `cache::store`.
    fn path(&self) -> String {
        layered(&self.owner, self.local.clone()).join("::")
    }
}

/// The directory of the crates.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate is one of several").to_owned()
}

/// A path of a crate, beginning with its layer where the crate has several.
fn layered(owner: &str, mut local: Vec<String>) -> Vec<String> {
    let folders = LAYERS.iter().find(|(name, _)| *name == owner).map_or(&[][..], |(_, folders)| folders);
    if !local.first().is_some_and(|first| folders.contains(&&**first)) {
        local.insert(0, owner.to_owned());
    }
    local
}

fn rust_files(directory: &Path, found: &mut Vec<PathBuf>) {
    files_below(directory, "rs", found);
}

/// The files with this extension in `directory` and in its folders.
fn files_below(directory: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("the tree is there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            files_below(&path, extension, found);
        } else if path.extension().is_some_and(|end| end == extension) {
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
    files_of(&root()).into_iter().filter(|file| file.components().any(|part| part.as_os_str() == "src")).collect()
}

/// Without comments, and without the unit tests, which stand at the end.
fn code_of(file: &Path) -> String {
    let text = fs::read_to_string(file).expect("a source file is text");
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    code.lines().filter(is_code).collect::<Vec<_>>().join("\n")
}

fn modules() -> Vec<Module> {
    let is_tested_only = |part: &str| part == "model" || part.ends_with("tests") || part.contains("testing");
    let mut modules = Vec::new();
    for file in workspace_files() {
        let relative = file.strip_prefix(root()).expect("it is below the root").with_extension("");
        let parts: Vec<&str> = relative.iter().filter_map(|part| part.to_str()).collect();
        let [owner, "src", local @ ..] = &*parts else { continue };
        // A program has a root of its own.
        if local.first() == Some(&"bin") || *owner == "loom" || local.iter().any(|part| is_tested_only(part)) {
            continue;
        }
        let local = local.iter().filter(|part| !["mod", "lib", "main"].contains(part)).map(|part| (*part).to_owned());
        modules.push(Module { owner: (*owner).to_owned(), local: local.collect(), source: code_of(&file) });
    }
    modules
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

/// Every path of the workspace that `module` names, with the layer in front.
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
        if ["crate::", "super::", "lamna_"].iter().any(|start| word.starts_with(start)) {
            paths.push(word.to_owned());
        }
    }
    paths.iter().filter_map(|path| absolute(path, module)).collect()
}

fn absolute(path: &str, module: &Module) -> Option<Vec<String>> {
    let parts: Vec<&str> = path.split("::").map(str::trim).collect();
    let ups = parts.iter().take_while(|part| **part == "super").count();
    let rest = |from: usize| parts[from..].iter().map(|part| (*part).to_owned());
    match *parts.first()? {
        "crate" => Some(layered(&module.owner, rest(1).collect())),
        "super" => {
            let above = &module.local[..module.local.len().checked_sub(ups)?];
            Some(layered(&module.owner, above.iter().cloned().chain(rest(ups)).collect()))
        }
        "self" => Some(layered(&module.owner, module.local.iter().cloned().chain(rest(1)).collect())),
        first => Some(layered(first.strip_prefix("lamna_")?, rest(1).collect())),
    }
}

/// The place of a layer in the order; none of crates that are not the server's.
fn layer(path: &str) -> Option<usize> {
    let top = path.split("::").next().unwrap_or_default();
    LAYERS.iter().flat_map(|(_, folders)| folders.iter()).position(|layer| *layer == top)
}

#[test]
fn imports_point_downwards() {
    let modules = modules();
    let is_of_server = |module: &&Module| LAYERS.iter().any(|(owner, _)| *owner == module.owner);
    let mut upwards = BTreeSet::new();
    for module in modules.iter().filter(is_of_server) {
        let own = module.path();
        let Some(of_module) = layer(&own) else {
            // The root of a crate of several layers has nothing but them.
            assert!(module.local.is_empty(), "{own} is in no layer: add its folder to LAYERS");
            continue;
        };
        for path in named_by(module) {
            let path = path.join("::");
            if layer(&path).is_some_and(|layer| layer > of_module) {
                upwards.insert(format!("{own} uses {path}"));
            }
        }
    }
    assert!(upwards.is_empty(), "{upwards:#?}");
}

#[test]
fn few_files_use_each_other_in_a_circle() {
    let modules = modules();
    let paths: Vec<String> = modules.iter().map(Module::path).collect();
    let known: BTreeMap<&str, &str> =
        paths.iter().zip(&modules).map(|(path, module)| (&**path, &*module.owner)).collect();
    let mut uses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, module) in paths.iter().zip(&modules) {
        let used = uses.entry(path).or_default();
        for named in named_by(module) {
            let candidates = (1..=named.len()).rev().map(|length| named[..length].join("::"));
            let found = candidates.filter_map(|candidate| Some(*known.get_key_value(&*candidate)?.0)).next();
            used.extend(found.filter(|found| found != path));
        }
    }
    let mut largest: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (module, owner) in &known {
        let circle = circle_of(module, &uses);
        let most = largest.entry(owner).or_default();
        if circle.len() > most.len() {
            *most = circle;
        }
    }
    for (owner, circle) in largest {
        assert!(circle.len() <= CIRCLE_MAX, "{} files of {owner} use each other: {circle:#?}", circle.len());
    }
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

/// As a field, and in `config` as text as well: modules and functions of the same name are others.
#[test]
fn a_simple_key_of_a_site_or_a_route_is_in_the_file_of_rows_and_where_it_is_used() {
    let names = |module: &&Module, key: &str| {
        let is_part = |after: &str| after.starts_with(|next: char| next.is_alphanumeric() || "_(".contains(next));
        let field = format!(".{key}");
        let is_field = module.source.match_indices(&field).any(|(at, _)| !is_part(&module.source[at + field.len()..]));
        let is_of_config = module.owner == "config";
        let declares = module.source.contains(&format!("{key}: ")) || module.source.contains(&format!("\"{key}\""));
        is_field || is_of_config && declares
    };
    let modules = modules();
    let server = modules.iter().filter(|module| LAYERS.iter().any(|(owner, _)| *owner == module.owner));
    let keys = [
        ("search", "config::route::rows"),
        ("immutable", "config::route::rows"),
        ("upload_bytes_max", "config::site::rows"),
        ("upload_resume_s", "config::site::rows"),
        ("upload_resume_bytes_max", "config::site::rows"),
    ];
    for (key, rows) in keys {
        let named = server.clone().filter(|module| names(module, key));
        let (of_config, users): (Vec<_>, Vec<_>) = named.partition(|module| module.owner == "config");
        let paths = |modules: &[&Module]| modules.iter().map(|module| module.path()).collect::<Vec<_>>();
        assert_eq!(paths(&of_config), [rows], "{key}");
        assert!(users.len() <= 2, "{key}: {:?}", paths(&users));
    }
}

/// That `unsafe` stays there is the compiler's to see.
#[test]
fn every_crate_but_sys_forbids_unsafe_code_and_the_c_library_is_nowhere_else() {
    let sys = root().join("sys");
    for (owner, _) in LAYERS.iter().filter(|(owner, _)| *owner != "sys") {
        let root = fs::read_to_string(root().join(owner).join("src/lib.rs")).expect("a crate has a root");
        assert!(root.contains("\n#![forbid(unsafe_code)]\n"), "{owner}");
    }
    let names_libc = |file: &PathBuf| !file.starts_with(&sys) && code_of(file).contains("libc::");
    let owners = LAYERS.iter().map(|(owner, _)| root().join(owner).join("src"));
    let outside: Vec<PathBuf> = owners.flat_map(|owner| files_of_any(&owner)).filter(names_libc).collect();
    assert!(outside.is_empty(), "{outside:#?}");
}

/// `eprintln!` and its kind panic if nobody reads: `sys::say` does not.
#[test]
fn the_server_says_nothing_in_a_way_that_can_panic() {
    let panics = |file: &PathBuf| {
        let code = code_of(file);
        ["println!(", "eprint!(", " print!("].iter().any(|form| code.contains(form))
    };
    let crates = LAYERS.iter().map(|(owner, _)| *owner).chain(["cli"]);
    let files = crates.flat_map(|owner| files_of_any(&root().join(owner).join("src")));
    let spoken: Vec<PathBuf> = files.filter(panics).collect();
    assert!(spoken.is_empty(), "{spoken:#?}");
}

#[test]
fn retired_words_are_used_no_more() {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let uses = |code: &str, word: &str| {
        let around =
            |(at, _): (usize, &str)| (code.as_bytes().get(at.wrapping_sub(1)), code.as_bytes().get(at + word.len()));
        code.match_indices(word)
            .map(around)
            .any(|(before, behind)| !before.is_some_and(is_part) && !behind.is_some_and(is_part))
    };
    let crates = LAYERS.iter().flat_map(|(owner, _)| files_of_any(&root().join(owner).join("src")));
    let files = crates.map(|file| (code_of(&file), file));
    let found: Vec<(PathBuf, &str)> = files
        .flat_map(|(code, file)| {
            let of_file = RETIRED.iter().copied().filter(|word| uses(&code, word)).collect::<Vec<_>>();
            of_file.into_iter().map(move |word| (file.clone(), word))
        })
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn comments_begin_with_their_subject() {
    let begins_so = |line: &&str| {
        let words = line.trim_start();
        let words = words.strip_prefix("/// ").or_else(|| words.strip_prefix("//! "));
        words.is_some_and(|words| BEGINNINGS.iter().any(|beginning| words.starts_with(beginning)))
    };
    let mut found = Vec::new();
    for file in workspace_files() {
        let text = fs::read_to_string(&file).expect("a source file is text");
        found.extend(text.lines().filter(begins_so).map(|line| format!("{}: {}", file.display(), line.trim())));
    }
    assert!(found.is_empty(), "rewrite: begin with a noun: {found:#?}");
}

#[test]
fn lines_of_comments_are_short() {
    let mut long = Vec::new();
    for file in workspace_files() {
        let text = fs::read_to_string(&file).expect("a source file is text");
        let mut is_fenced = false;
        for (number, line) in text.lines().enumerate() {
            let words = line.trim_start();
            let comment = words.strip_prefix("//").map(|words| words.trim_start_matches(['/', '!']));
            let Some(comment) = comment else {
                is_fenced = false;
                continue;
            };
            is_fenced ^= comment.trim_start().starts_with("```");
            let is_code = is_fenced || comment.starts_with("     ");
            if !is_code && line.chars().count() > COMMENT_COLUMNS_MAX {
                long.push(format!("{}:{}", file.display(), number + 1));
            }
        }
    }
    assert!(long.is_empty(), "lines of comments with more than {COMMENT_COLUMNS_MAX} columns: {long:#?}");
}

/// Only the end of a name has to be right: `io/src/open.rs` is a file of some crate.
#[test]
fn source_files_that_documents_name_are_there() {
    let mut sources = Vec::new();
    rust_files(&root(), &mut sources);
    rust_files(&repository().join("fuzz").join("fuzz_targets"), &mut sources);
    let is_there = |name: &str| sources.iter().any(|source| source.ends_with(name));
    let mut missing = Vec::new();
    for document in documents() {
        let text = fs::read_to_string(&document).expect("a document is text");
        let quoted = text.split('`').skip(1).step_by(2);
        // A file that the reader makes is called NAME.
        let names = quoted
            .filter(|word| word.ends_with(".rs") && !word.contains(char::is_whitespace) && !word.contains("NAME"));
        missing.extend(names.filter(|name| !is_there(name)).map(|name| (document.clone(), name.to_owned())));
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// The directory of the repository.
fn repository() -> PathBuf {
    root().parent().expect("the crates are in the repository").to_owned()
}

/// The documents that the rules of prose are for.
fn documents() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        ["ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "README.md"].map(|name| repository().join(name)).into();
    files_below(&repository().join("docs"), "md", &mut found);
    assert!(found.len() > 20, "{found:?}");
    found
}

/// The paragraphs of a document and the items of its lists, each with the number of its first line. Code, tables and
/// headings are no prose.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut paragraphs: Vec<(usize, String)> = Vec::new();
    let (mut is_code, mut goes_on) = (false, false);
    for (number, line) in (1..).zip(text.lines()) {
        let trimmed = line.trim();
        let is_fence = trimmed.starts_with("```");
        is_code ^= is_fence;
        let is_block = line.starts_with("    ") && !goes_on;
        if is_code || is_fence || is_block || trimmed.is_empty() || trimmed.starts_with(['|', '#']) {
            goes_on = false;
            continue;
        }
        let numbered = trimmed.trim_start_matches(|digit: char| digit.is_ascii_digit());
        let is_numbered = numbered.len() < trimmed.len() && numbered.starts_with(". ");
        goes_on &= !is_numbered && !trimmed.starts_with("- ") && !trimmed.starts_with("* ");
        match paragraphs.last_mut().filter(|_| goes_on) {
            Some((_, paragraph)) => *paragraph = format!("{paragraph} {trimmed}"),
            None => paragraphs.push((number, trimmed.to_owned())),
        }
        goes_on = true;
    }
    paragraphs
}

/// The targets of the links in `prose`, and `prose` with a word in the place of each link and of each piece of code.
fn links(prose: &str) -> (Vec<String>, String) {
    let pieces = prose.split('`').enumerate().map(|(index, piece)| if index % 2 == 1 { "code" } else { piece });
    let (mut text, mut targets) = (pieces.collect::<String>(), Vec::new());
    while let Some(middle) = text.find("](") {
        let start = text[..middle].rfind('[').expect("a link has a beginning");
        let end = middle + text[middle..].find(')').expect("a link has an end");
        targets.push(text[middle + 2..end].to_owned());
        text.replace_range(start..=end, "link");
    }
    (targets, text)
}

#[test]
fn sentences_of_documents_are_short() {
    let mut long = Vec::new();
    for document in documents() {
        for (line, paragraph) in prose(&fs::read_to_string(&document).expect("a document is text")) {
            let mut words = Vec::new();
            for word in links(&paragraph).1.split_whitespace().filter(|word| *word != "-") {
                words.push(word.to_owned());
                let ends = word.trim_end_matches([')', '"', '*']).ends_with(['.', ':', ';', '?', '!']);
                if words.len() > SENTENCE_WORDS_MAX {
                    long.push((document.clone(), line, words.join(" ")));
                    break;
                }
                if ends {
                    words.clear();
                }
            }
        }
    }
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn the_architecture_is_read_in_one_go() {
    let text = fs::read_to_string(repository().join("ARCHITECTURE.md")).expect("it is there");
    let (lines, columns) = (text.lines().count(), text.lines().map(|line| line.chars().count()).max());
    assert!(lines <= 200 && columns <= Some(160), "{lines} lines of {columns:?} columns");
}

#[test]
fn every_document_is_in_the_index() {
    let docs = repository().join("docs");
    let listed = |document: &Path| {
        let index = |folder: &Path| fs::read_to_string(folder.join("README.md")).unwrap_or_default();
        let folder = document.parent().expect("a document is in a folder");
        let (name, path) = (document.strip_prefix(folder), document.strip_prefix(&docs));
        let is_in = |index: &str, name: &Path| index.contains(&format!("]({})", name.display()));
        is_in(&index(&docs), path.expect("it is below docs")) || is_in(&index(folder), name.expect("it is in there"))
    };
    let mut files = Vec::new();
    files_below(&docs, "md", &mut files);
    files.retain(|file| *file != docs.join("README.md") && !listed(file));
    assert!(files.is_empty(), "{files:#?}");
}

/// As forges make them of headings.
fn fragments(text: &str) -> Vec<String> {
    let mut fragments: Vec<String> = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !is_code) else { continue };
        let heading = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, '-' | '_');
        let fragment: String = heading.chars().filter(kept).collect();
        let before = fragments.iter().filter(|other| **other == fragment).count();
        fragments.push(if before == 0 { fragment } else { format!("{fragment}-{before}") });
    }
    fragments
}

#[test]
fn links_of_documents_lead_somewhere() {
    let mut files = documents();
    files.push(repository().join("CHANGELOG.md"));
    files_below(&repository().join("results"), "md", &mut files);
    files.extend(["fuzz", "traces"].map(|folder| repository().join(folder).join("README.md")));
    let (mut count, mut dead) = (0, Vec::new());
    for file in files {
        let targets = all_prose(&file).into_iter().flat_map(|paragraph| links(&paragraph).0);
        for target in targets.filter(|target| !target.contains("://")) {
            count += 1;
            let (name, fragment) = target.split_once('#').unwrap_or((&target, ""));
            let folder = file.parent().expect("a file is in a folder");
            let path = if name.is_empty() { file.clone() } else { folder.join(name) };
            let has =
                || fragments(&fs::read_to_string(&path).unwrap_or_default()).iter().any(|other| other == fragment);
            if !path.exists() || !fragment.is_empty() && !has() {
                dead.push((file.clone(), target));
            }
        }
    }
    assert!(count > 100 && dead.is_empty(), "{count} links, of which these are dead: {dead:#?}");
}

/// The prose of a document, with that of its tables.
fn all_prose(document: &Path) -> Vec<String> {
    let text = fs::read_to_string(document).expect("a document is text").replace('|', " ");
    prose(&text).into_iter().map(|(_, paragraph)| paragraph).collect()
}

/// In code, comments, help, scenarios and documents: `docs/NAME.md` is looked up by people.
#[test]
fn documents_that_are_named_are_there() {
    let mut files = workspace_files();
    files_below(&root(), "toml", &mut files);
    let mut texts: Vec<(PathBuf, String)> =
        files.into_iter().map(|file| (file.clone(), fs::read_to_string(&file).expect("a file is text"))).collect();
    for document in documents().into_iter().chain([repository().join("CHANGELOG.md")]) {
        texts.extend(all_prose(&document).into_iter().map(|paragraph| (document.clone(), paragraph)));
    }
    let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '/' | '-' | '_' | '.');
    let (mut count, mut missing) = (0, Vec::new());
    for (file, text) in &texts {
        for name in text.split(|letter| !is_part(letter)).filter(|name| name.starts_with("docs/")) {
            let Some((name, _)) = name.split_once(".md") else { continue };
            count += 1;
            if !repository().join(format!("{name}.md")).exists() {
                missing.push((file.clone(), name.to_owned()));
            }
        }
    }
    assert!(count > 100 && missing.is_empty(), "{count} names, of which these are of nothing: {missing:#?}");
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
        include_str!("../../config/src/settings.rs"),
        include_str!("../../config/src/setting/table.rs"),
        include_str!("../../config/src/site/rows.rs"),
        include_str!("../../config/src/site/folders.rs"),
        include_str!("../../site/src/content/upload/partial.rs"),
        include_str!("../src/process/opened_store.rs"),
    ];
    let blocks: Vec<&str> =
        document.split("```rust\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0)).collect();
    assert!(blocks.len() >= examples.len());
    for block in blocks {
        assert!(examples.iter().any(|example| example.contains(block)), "no example has this:\n{block}");
    }
}
