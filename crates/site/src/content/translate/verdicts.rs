//! Over generated configurations: no translation, by whatever way, gives a client a file that it has no access to.

use std::os::unix::fs::symlink;
use std::path::Path;

use lamna_config::access::{AccessRule, AccessRules, Allowed};
use lamna_config::route::pattern::Pattern;
use lamna_config::route::template::Template;
use lamna_config::route::{RouteSettings, Switch};
use lamna_config::settings::{Alias, Settings, SiteSettings};
use proptest::prelude::*;

use super::*;
use crate::content::site::Sites;

/// Each file holds its own path.
const FILES: [&str; 8] =
    ["/a.txt", "/index.html", "/d/a.txt", "/d/index.html", "/d/e/a.txt", "/d/e/404.html", "/404.html", "/f/index.html"];
/// Links: a name, and what is there.
const LINKS: [(&str, &str); 3] = [("/l.txt", "/d/a.txt"), ("/g", "/d/e"), ("/f/l.txt", "/a.txt")];
/// Further targets to ask for.
const OTHERS: [&str; 11] =
    ["/", "/d/", "/d/e/", "/f/", "/g/a.txt", "/g/", "/l.txt", "/f/l.txt", "/none", "/d/none", "/x/d/a.txt"];

fn tree() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for file in FILES {
        let path = directory.path().join(&file[1..]);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("<p>{file}</p>")).unwrap();
    }
    for (name, to) in LINKS {
        let up = "../".repeat(name.matches('/').count() - 1);
        symlink(format!("{up}{}", &to[1..]), directory.path().join(&name[1..])).unwrap();
    }
    directory
}

/// A rule on a path, or on all beneath it: for one of two groups, or for anybody.
#[derive(Clone, Debug)]
struct OfPath(String, Option<u8>);

/// A way from all beneath a folder to a path.
#[derive(Clone, Debug)]
enum Way {
    Rewrite(&'static str, String),
    Try(&'static str, String),
    Index(&'static str, &'static str),
    Error(String),
}

fn paths() -> impl Strategy<Value = String> {
    let beneath = ["/d/*", "/d/e/*", "/f/*", "/*", "/g/*", "/x/*"];
    prop::sample::select(FILES.iter().chain(&beneath).map(|one| (*one).to_owned()).collect::<Vec<_>>())
}

fn rules() -> impl Strategy<Value = Vec<OfPath>> {
    let one = (paths(), prop::option::weighted(0.8, 0..2_u8)).prop_map(|(path, whom)| OfPath(path, whom));
    proptest::collection::btree_map(paths(), one, 0..5)
        .prop_map(|all| all.into_iter().map(|(path, OfPath(_, whom))| OfPath(path, whom)).collect())
}

fn ways() -> impl Strategy<Value = Vec<Way>> {
    let from = || prop::sample::select(vec!["/d/*", "/f/*", "/n*"]);
    let to = || prop::sample::select(FILES.map(str::to_owned).to_vec());
    let way = prop_oneof![
        (from(), to()).prop_map(|(from, to)| Way::Rewrite(from, to)),
        (from(), to()).prop_map(|(from, to)| Way::Try(from, to)),
        (from(), prop::sample::select(vec!["a.txt", "404.html", "l.txt"])).prop_map(|(from, to)| Way::Index(from, to)),
        to().prop_map(Way::Error),
    ];
    proptest::collection::vec(way, 0..4)
}

fn whom(whom: Option<u8>) -> Option<Allowed> {
    Some(whom.map_or(Allowed::Anyone, |group| {
        Allowed::Only(Arc::new(AccessRule { tokens: vec![group.to_string()], ..AccessRule::NONE }))
    }))
}

/// Settings for all beneath `base`, the root's or a user's.
fn settings(root: &Path, base: &str, rules: &[OfPath], ways: &[Way], spa: bool) -> Settings {
    let mut site = SiteSettings::new(root.to_owned());
    site.browse = true;
    site.spa = spa;
    site.aliases = vec![Alias { prefix: "/x/".to_owned(), root: root.to_owned() }];
    site.user_directory = Some("public".to_owned());
    let at = |path: &str| RouteSettings {
        paths: Pattern::from_glob(&format!("{base}{path}")).unwrap(),
        ..RouteSettings::default()
    };
    let to = |path: &str| Template::literal(&format!("{base}{path}"));
    for OfPath(path, group) in rules {
        let access = AccessRules([whom(*group), None, None, None]);
        site.routes.push(RouteSettings { access, ..at(path) });
    }
    for way in ways {
        site.routes.push(match way {
            Way::Rewrite(from, path) => RouteSettings { rewrite: Switch::Set(to(path)), ..at(from) },
            Way::Try(from, path) => RouteSettings { try_files: Some(vec![to(path)]), ..at(from) },
            Way::Index(from, name) => RouteSettings { index: Some(vec![(*name).to_owned()]), ..at(from) },
            Way::Error(page) => RouteSettings { error_pages: [(404, format!("{base}{page}"))].into(), ..at("/*") },
        });
    }
    Settings { sites: vec![site], ..Settings::default() }
}

/// The clients that a path is for: by the rule for it alone, or else by the one for the longest beginning.
fn model(rules: &[OfPath], path: &str) -> Option<u8> {
    let fits = |one: &&OfPath| match one.0.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => one.0 == path,
    };
    let rank = |one: &&OfPath| (!one.0.ends_with('*'), one.0.len());
    rules.iter().filter(fits).max_by_key(rank).and_then(|one| one.1)
}

/// Asks for everything beneath `base`. Each file is there, and beneath `other` as well if there is one.
fn check(sites: &Sites, base: &str, other: Option<&str>, rules: &[OfPath], ways: &[Way]) -> Result<(), TestCaseError> {
    let (site, abilities) = (sites.at(0), KernelFeatures::default());
    for path in FILES.iter().chain(&OTHERS) {
        let asked_path = format!("{base}{path}");
        let effective = site.routes.effective(asked_path.as_bytes(), &[]);
        let translation = Translation {
            site,
            rules: &effective,
            host: b"",
            recipe: None,
            path: asked_path.as_bytes(),
            before_encoded_slash: None,
            view: View::default(),
            wait: Wait::Yes,
            request: "",
            previous: None,
            now_ms: 5000,
            abilities: &abilities,
            holder: None,
            store: None,
            content_bytes_max: 1 << 20,
            caches: CacheSwitches::ALL,
            makes_until: None,
        };
        let entry = translate(&translation).unwrap();
        let content = entry.resource.variants.first().content().unwrap_or_default();
        let found = FILES.iter().find(|file| content == format!("<p>{file}</p>").as_bytes());
        let asked = model(rules, path);
        let is_for = |file: &str| {
            let mut own =
                [Some(""), other].into_iter().flatten().map(|beneath| model(rules, &format!("{beneath}{file}")));
            own.all(|own| own.is_none() || own == asked)
        };
        prop_assert!(found.is_none_or(|file| is_for(file)), "{path} ({asked:?}) led to {found:?}");
        // Listings name nothing either.
        for file in FILES.iter().filter(|_| found.is_none()) {
            let name = format!("\"{base}{file}\"");
            let is_listed = content.windows(name.len()).any(|part| part == name.as_bytes());
            prop_assert!(!is_listed || is_for(file), "{path} names {file}");
        }
        let is_direct = ways.is_empty() && FILES.contains(path) && is_for(path);
        prop_assert!(!is_direct || found == Some(path), "what is asked for by its own path is there: {path}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whoever_is_let_in_where_he_asks_gets_nothing_that_is_kept_from_him_where_it_is(
        rules in rules(), ways in ways(), spa: bool,
    ) {
        let directory = tree();
        let sites = Sites::open(&settings(directory.path(), "", &rules, &ways, spa)).unwrap();
        check(&sites, "", Some("/x"), &rules, &ways)?;
    }

    #[test]
    fn nothing_in_the_directory_of_a_user_is_had_by_a_path_at_which_it_is_not(
        rules in rules(), ways in ways(), spa: bool,
    ) {
        let (directory, empty) = (tree(), tempfile::tempdir().unwrap());
        let sites = Sites::open(&settings(empty.path(), "/~bob", &rules, &ways, spa)).unwrap();
        sites.at(0).remember_user("bob", directory.path(), 5000);
        check(&sites, "/~bob", None, &rules, &ways)?;
    }
}
