//! The built program from outside: exit codes and what it prints.

mod architectures;
mod explain;
mod extending;
mod first_use;
mod laboratory;

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A directory with `www/` and a configuration file.
fn directory_with(config: &str) -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    fs::create_dir(directory.path().join("www")).expect("it is empty");
    fs::write(directory.path().join("lamna.toml"), config).expect("it can be written");
    directory
}

fn lamna(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lamna"))
        .args(arguments)
        .current_dir(directory)
        .output()
        .expect("the program is built")
}

/// Exit code, standard output and standard error.
fn outcome(directory: &TempDir, arguments: &[&str]) -> (i32, String, String) {
    let output = lamna(directory.path(), arguments);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program prints UTF-8");
    let code = output.status.code().expect("the program is not killed");
    (code, text(output.stdout), text(output.stderr))
}

#[test]
fn check_prints_settings_that_check_again_to_the_same() {
    let directory = directory_with("workers = 2\n[[site]]\nroot = \"www\"\nheaders = { X-A = \"1\" }\n");
    let (code, first, errors) = outcome(&directory, &["check", "--config", "lamna.toml"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    assert!(first.contains("workers = 2"), "{first}");

    fs::write(directory.path().join("effective.toml"), &first).unwrap();
    let (code, second, _) = outcome(&directory, &["check", "--config", "effective.toml"]);
    assert_eq!((code, second), (0, first));
}

#[test]
fn check_says_which_error_page_is_not_there_and_accepts_the_file() {
    let directory = directory_with("[[site]]\nroot = \"www\"\nerror_pages = { \"404\" = \"/gone.html\" }\n");
    let (code, settings, errors) = outcome(&directory, &["check", "--config", "lamna.toml"]);
    assert_eq!((code, settings.is_empty()), (0, false));
    assert!(errors.starts_with("lamna: warning: ") && errors.contains("/gone.html"), "{errors}");
}

#[test]
fn check_prints_the_schema_for_editors() {
    let directory = directory_with("this is no configuration");
    let (code, schema, errors) = outcome(&directory, &["check", "--schema"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    let schema: serde_json::Value = serde_json::from_str(&schema).expect("JSON");
    assert_eq!(schema["properties"]["workers"]["anyOf"][1]["maximum"], 1024);
}

#[test]
fn check_shows_flags_over_the_file() {
    let directory = directory_with("workers = 2\n[[site]]\nroot = \"www\"\n");
    let arguments = [
        "check",
        "--config",
        "lamna.toml",
        "--workers",
        "3",
        "--arch",
        "sped",
        "-l",
        ":81",
        "-l",
        "unix:s",
        "--cache-bytes",
        "2MiB",
        "--log",
        "off",
        "--log-format",
        "json",
        "--browse",
    ];
    let (code, settings, errors) = outcome(&directory, &arguments);
    assert_eq!((code, errors.as_str()), (0, ""));
    for line in [
        "workers = 3",
        "arch = \"sped\"",
        "cache_bytes = \"2MiB\"",
        "log = \"off\"",
        "log_format = \"json\"",
        "browse = true",
        "spa = false",
    ] {
        assert!(settings.lines().any(|each| each == line), "{line} in {settings}");
    }
    assert!(settings.contains("listen = [\":81\", \"unix:/"), "{settings}");
}

#[test]
fn a_misspelt_key_is_placed_and_corrected() {
    let directory = directory_with("[[site]]\nrot = \"www\"\n");
    let (code, output, errors) = outcome(&directory, &["check", "--config", "lamna.toml"]);
    assert_eq!((code, output.as_str()), (78, ""));
    assert_eq!(errors, "lamna.toml:2:1: unknown key `rot`\n  |\n2 | rot = \"www\"\n  | ^^^ did you mean `root`?\n");
}

#[test]
fn every_bad_value_is_reported_at_once() {
    let directory = directory_with("workers = 0\n[[site]]\nroot = \"ww\"\nheaders = { Date = \"now\" }\n");
    let (code, _, errors) = outcome(&directory, &["serve", "--config", "lamna.toml"]);
    assert_eq!(code, 78);
    for place in ["lamna.toml:1:11: ", "lamna.toml:3:8: ", "lamna.toml:4:13: "] {
        assert!(errors.contains(place), "{place} in {errors}");
    }
}

#[test]
fn a_configuration_that_is_not_there_or_has_no_site_is_invalid() {
    let directory = directory_with("workers = 1\n");
    assert_eq!(outcome(&directory, &["check", "--config", "other.toml"]).0, 78);
    assert_eq!(outcome(&directory, &["check", "--config", "lamna.toml"]).0, 78);
    assert_eq!(outcome(&directory, &["check", "--config", "lamna.toml", "www"]).0, 0);
    assert_eq!(outcome(&directory, &["check", "nowhere"]).0, 78);
}

#[test]
fn wrong_usage_is_2() {
    let directory = directory_with("[[site]]\nroot = \"www\"\n");
    assert_eq!(outcome(&directory, &["check", "--worker", "1"]).0, 2);
    assert_eq!(outcome(&directory, &["serve", "-l", "nowhere"]).0, 2);
    let (code, _, errors) = outcome(&directory, &["check", "www", "--config", "lamna.toml"]);
    assert_eq!(code, 2);
    assert!(errors.contains("leave one of them out"), "{errors}");
}

#[test]
fn an_address_in_use_is_a_failure_with_a_remedy() {
    let directory = directory_with("");
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = busy.local_addr().unwrap().to_string();
    // With and without the command's name.
    for arguments in [vec!["serve", "www", "-l", &address], vec!["www", "-l", &address]] {
        let (code, _, errors) = outcome(&directory, &arguments);
        assert_eq!(code, 1);
        assert!(errors.contains("another program listens on"), "{errors}");
    }
}

#[test]
fn help_lists_exit_codes_and_signals() {
    let directory = directory_with("");
    let (code, help, _) = outcome(&directory, &["--help"]);
    assert_eq!(code, 0);
    assert!(help.contains("78  configuration invalid") && help.contains("a second one: stop now"), "{help}");
    let options = help.split("\nOptions:").nth(1).expect("options have a heading");
    let place = |text: &str| options.find(text).unwrap_or_else(|| panic!("{text} in {help}"));
    // What most people need, then the rest in groups.
    let flags = ["--browse", "--spa", "--port", "--cors", "--header", "--open", "--qr", "--quiet", "--log ", "--arch"];
    assert!(flags.map(place).is_sorted(), "{help}");
    assert!(["\nLogs:", "\nControl and end:", "\nEngines:"].map(place).is_sorted(), "{help}");
}

#[test]
fn check_refuses_what_serve_would_refuse() {
    let directory = directory_with("");
    fs::write(directory.path().join("file"), "").unwrap();
    let long = format!("unix:{}", "x".repeat(120));
    for arguments in [
        &["www", "-l", "127.0.0.1:9", "-l", "9"][..],
        &["www", "-l", "9", "-l", ":9"],
        &["www", "-l", "0", "--log", "nowhere/access.log"],
        &["www", "-l", "0", "--log", "www"],
        &["www", "-l", "unix:nowhere/a.sock"],
        &["www", "-l", "unix:file"],
        &["www", "-l", &long],
        &["www", "-l", "192.0.2.1:80"],
        &["www", "-l", "0", "--admin", "unix:nowhere/a.sock"],
        &["www", "-l", "127.0.0.1:9", "--admin", "9"],
    ] {
        let command = |name| [&[name], arguments].concat();
        let (checked, output, said) = outcome(&directory, &command("check"));
        let (served, _, _) = outcome(&directory, &command("serve"));
        assert!(served != 0, "{arguments:?}");
        assert_eq!((checked, output.as_str()), (78, ""), "{arguments:?}: {said}");
    }
}

#[test]
fn a_domain_is_a_public_site_whose_certificate_is_ordered() {
    let directory = directory_with("");
    let (code, settings, _) =
        outcome(&directory, &["check", "www", "--domain", "Example.test", "--acme-contact", "a@b.test"]);
    assert_eq!(code, 0);
    for line in
        ["hosts = [\"example.test\"]", "tls = \"auto\"", "acme_contact = \"a@b.test\"", "listen = [\":443\", \":80\"]"]
    {
        assert!(settings.contains(line), "{line}: {settings}");
    }
    for (arguments, said) in [
        (&["--domain", "*.example.test"][..], "takes a challenge in DNS"),
        (&["--domain", "192.0.2.1"], "is an address"),
        (&["--domain", "localhost"], "is not a name of which certificates are issued"),
        (&["--domain", "a.test", "--tls"], "cannot be used with"),
        (&["--domain", "a.test", "--acme-directory", "http://ca.test/"], "expected an https URL"),
    ] {
        let (code, _, errors) = outcome(&directory, &[&["serve", "www"], arguments].concat());
        assert_eq!(code, 2, "{arguments:?}");
        assert!(errors.contains(said), "{errors}");
    }
}

#[test]
fn what_lamna_does_not_have_is_said_in_one_line_with_what_to_do_instead() {
    let directory = directory_with("");
    for (flag, said) in [
        ("--https", "--certificate"),
        ("--http2", "--h2c"),
        ("--basic-auth", "--auth"),
        ("--allow-origin=x", "--cors"),
        ("--headers=X-A: 1", "--header"),
        ("--browser", "--open"),
        ("--silent", "--quiet"),
        ("--proxy-pass", "--proxy http"),
        ("--php", "--fastcgi unix"),
        ("--bind", "--listen"),
    ] {
        for words in [&["www", flag][..], &["serve", flag], &["check", "www", flag]] {
            let (code, _, errors) = outcome(&directory, words);
            assert_eq!(code, 2, "{words:?}");
            assert!(errors.contains(said) && !errors.contains("similar") && !errors.contains("-- "), "{errors}");
        }
    }
}

#[test]
fn a_flag_is_suggested_if_it_is_near_and_a_misspelt_command_always() {
    let directory = directory_with("");
    let said = |words: &[&str]| {
        let (code, _, errors) = outcome(&directory, words);
        assert_eq!(code, 2, "{words:?}: {errors}");
        errors
    };
    assert!(said(&["--treads", "3"]).contains("'--threads'"));
    assert!(!said(&["--hreflang", "3"]).contains("similar"));
    for words in [&["chekc", "--config", "lamna.toml"][..], &["chekc"], &["chekc", "www"]] {
        let errors = said(words);
        assert!(errors.contains("did you mean `lamna check`?"), "{errors}");
    }
    for (words, meant) in [
        (&["8080"][..], "--port 8080"),
        (&["serve", "8080"], "--port 8080"),
        (&["www", "8080"], "--port 8080"),
        (&["8080", "www"], "--port 8080"),
        (&["0.0.0.0:80"], "--listen 0.0.0.0:80"),
        (&["start"], "`lamna serve`"),
        (&["start", "www"], "`lamna serve`"),
        (&["stop"], "`lamna ctl drain`"),
        (&["http://localhost/"], "`lamna load http://localhost/`"),
        (&["lamna.toml"], "lamna serve --config lamna.toml"),
    ] {
        let errors = said(words);
        assert!(errors.contains(meant) && errors.lines().count() == 2, "{words:?}: {errors}");
    }
    let two = said(&["www", "other"]);
    assert!(two.contains("one directory can be served, and `other` would be another"), "{two}");
    let nowhere = said(&["tune", "nodir"]);
    assert!(nowhere.contains("the directory `nodir` cannot be looked at: No such file"), "{nowhere}");
    // A directory that is there is one, whatever it is called.
    fs::create_dir(directory.path().join("chekc")).unwrap();
    assert!(outcome(&directory, &["check", "chekc", "-l", "0"]).0 == 0);
}

#[test]
fn a_configuration_of_nginx_is_imported_checked_and_what_is_lost_is_said_by_line() {
    let directory = directory_with("");
    let root = directory.path().join("www");
    let text = format!(
        "server {{\n listen 127.0.0.1:8123;\n root {};\n location /a/ {{ expires 1h; }}\n resolver ::1;\n}}\n",
        root.display()
    );
    fs::write(directory.path().join("nginx.conf"), text).unwrap();
    let (code, imported, errors) = outcome(&directory, &["import", "nginx.conf"]);
    assert_eq!((code, &*errors), (0, "nginx.conf:5: not carried over: `resolver ::1`: Lamna has nothing like it\n"));
    assert!(imported.contains("# line 5: `resolver ::1`"), "{imported}");
    fs::write(directory.path().join("imported.toml"), &imported).unwrap();
    let (code, settings, errors) = outcome(&directory, &["check", "--config", "imported.toml"]);
    assert_eq!((code, &*errors), (0, ""));
    assert!(settings.contains("max-age=3600"), "{settings}");
}

#[test]
fn the_kind_of_a_configuration_is_told_by_its_name_or_said() {
    let directory = directory_with("");
    for name in ["Caddyfile", "Caddyfile.old", "other"] {
        fs::write(directory.path().join(name), ":8123 {\n redir https://example.org{uri}\n}\n").unwrap();
    }
    for arguments in
        [&["import", "Caddyfile"][..], &["import", "Caddyfile.old"], &["import", "other", "--from", "caddy"]]
    {
        let (code, imported, errors) = outcome(&directory, arguments);
        assert_eq!((code, &*errors), (0, ""), "{arguments:?}");
        assert!(imported.contains("https://example.org$path"), "{imported}");
    }
    let (code, output, errors) = outcome(&directory, &["import", "other"]);
    assert_eq!((code, &*output), (78, ""));
    assert!(errors.starts_with("other:"), "{errors}");
    assert_eq!(outcome(&directory, &["import", "missing"]).0, 78);
}

#[test]
fn a_htaccess_is_imported_for_its_directory_and_its_scripts_are_run_by_the_php_that_is_named() {
    let directory = directory_with("");
    let root = directory.path().join("www").display().to_string();
    fs::write(directory.path().join(".htaccess"), "Require all denied\n").unwrap();
    let (code, output, errors) = outcome(&directory, &["import", ".htaccess"]);
    assert_eq!((code, &*output), (78, ""));
    assert!(errors.contains("--root"), "{errors}");
    let text = "Redirect gone /old\nRequire all denied\nSSLOptions +StdEnvVars\nFrobnicate on\n";
    fs::write(directory.path().join(".htaccess"), text).unwrap();
    let of_root = ["import", ".htaccess", "--root", &root];
    let (code, without, errors) = outcome(&directory, &of_root);
    assert_eq!(code, 0, "{errors}");
    assert!(errors.contains(".htaccess:4: not carried over: `Frobnicate on`"), "{errors}");
    assert!(without.contains(&format!("root = \"{root}\"")) && !without.contains("fastcgi"), "{without}");
    let (code, imported, errors) = outcome(&directory, &[&of_root[..], &["--php", "unix:/run/php.sock"]].concat());
    assert_eq!(code, 0, "{errors}");
    for expected in ["fastcgi", "unix:/run/php.sock", "respond = 410", "access = \"deny\""] {
        assert!(imported.contains(expected), "{expected}: {imported}");
    }
    fs::write(directory.path().join("imported.toml"), &imported).unwrap();
    let (code, settings, errors) = outcome(&directory, &["check", "--config", "imported.toml"]);
    assert_eq!((code, &*errors), (0, ""), "{settings}");
}
