//! That no configuration of nginx becomes one that sends what nginx has run, and that nothing in it is dropped without
//! a word.

use lamna_config::parse_unseen;
use lamna_config::route::sent::Sent;
use proptest::prelude::*;

use super::source;
use super::syntax;
use crate::proof::Use;
use crate::{Files, Note, caddy, nginx};

const FILES: Files<'static> = Files { read: &|_| Err("No such file".to_owned()), list: &|_| Vec::new() };

fn text_of(server: &str) -> String {
    nginx(&format!("server {{ listen 80; root /www; {server} }}"), FILES)
        .unwrap_or_else(|note| panic!("{server}: {note:?}"))
        .text
}

/// The files that the result may send as they are for a request for `path`.
fn sent(text: &str, path: &str) -> Vec<String> {
    let settings = parse_unseen(text, "/a.toml".as_ref()).unwrap();
    let files = Sent::new(&settings.sites[0]).unwrap().files(path.as_bytes());
    files.into_iter().map(|file| String::from_utf8(file).unwrap()).collect()
}

/// The application that runs the file at `path`.
fn runs(text: &str, path: &str) -> String {
    let settings = parse_unseen(text, "/a.toml".as_ref()).unwrap();
    let matcher = lamna_config::route::matcher::Matcher::new(&settings.sites[0].routes).unwrap();
    matcher.application_at(path.as_bytes()).map_or_else(String::new, |one| one.upstreams[0].address.to_string())
}

const PHP: &str = "location ~ \\.php$ { include snippets/fastcgi-php.conf; fastcgi_pass unix:/php.sock; }";

#[test]
fn scripts_are_run_beside_whatever_other_application() {
    for other in [
        "location / { try_files $uri $uri/ /index.php?$args; } location /api/ { proxy_pass http://127.0.0.1:1; }",
        "location = /wp-login.php { include fastcgi.conf; fastcgi_pass unix:/php.sock; }",
        "location ~ ^/(status|ping)$ { fastcgi_pass unix:/php.sock; include fastcgi_params; }",
        "location / { proxy_pass http://127.0.0.1:1; }",
        "location /blog/ { fastcgi_pass 127.0.0.1:9; } location /a/ { uwsgi_pass b; }",
        "index index.php; location / { } location ^~ /old/ { return 404; }",
    ] {
        for text in [text_of(&format!("{other} {PHP}")), text_of(&format!("{PHP} {other}"))] {
            for path in ["/x.php", "/index.php", "/wp-config.php", "/wp/x.php"] {
                assert_eq!(sent(&text, path), [""; 0], "{path}: {text}");
                assert_eq!(runs(&text, path), "unix:/php.sock", "{path}: {text}");
            }
        }
    }
}

#[test]
fn each_of_two_applications_runs_its_own_scripts() {
    let text = text_of(&format!("location ~ ^/blog/.*\\.php$ {{ fastcgi_pass 127.0.0.1:9001; }} {PHP}"));
    assert_eq!((runs(&text, "/blog/x.php"), runs(&text, "/x.php")), ("127.0.0.1:9001".into(), "unix:/php.sock".into()));
    let text = text_of(
        "location /n/ { location ~ \\.php$ { fastcgi_pass 127.0.0.1:2; } } location / { proxy_pass http://127.0.0.1:1; }",
    );
    assert_eq!(sent(&text, "/n/x.php"), [""; 0], "{text}");
}

#[test]
fn an_expression_without_an_end_runs_scripts_and_sends_nothing_that_fits() {
    let text = text_of("location / { } location ~ \\.php { fastcgi_pass unix:/php.sock; }");
    assert_eq!(runs(&text, "/x.php"), "unix:/php.sock");
    for path in ["/x.php", "/x.php.bak", "/x.php~", "/x.phps"] {
        assert_eq!(sent(&text, path), [""; 0], "{path}: {text}");
    }
    let text = text_of("location ~* \\.php$ { fastcgi_pass unix:/php.sock; }");
    for path in ["/x.PHP", "/x.pHp"] {
        assert_eq!(sent(&text, path), [""; 0], "{path}: {text}");
    }
}

#[test]
fn an_expression_that_is_not_understood_has_no_script_sent() {
    let text = text_of("location ~ ^/(?!static/).*\\.php$ { fastcgi_pass unix:/php.sock; }");
    assert_eq!(sent(&text, "/x.php"), [""; 0], "{text}");
}

#[test]
fn what_would_send_a_program_is_refused() {
    // A page for errors that nginx has run.
    let text = text_of(&format!("error_page 404 /404.php; {PHP}"));
    assert!(text.contains("`404` of `error_page 404 /404.php`"), "{text}");
    // A rewrite to what an application answers, which is no file here.
    let server = "rewrite ^/old/(.*)$ /api/$1 last; location /api/ { proxy_pass http://127.0.0.1:1; }";
    let refused = nginx(&format!("server {{\n root /www; {server} }}"), FILES).unwrap_err();
    assert!(refused.line == 1 && refused.words.contains("nothing is made of it"), "{refused:?}");
}

#[test]
fn a_script_is_looked_for_where_what_fits_beside_it_is_refused() {
    let text = text_of("location ~ \\.php { try_files $uri =404; fastcgi_pass unix:/php.sock; }");
    let answer = |path| crate::asked::Asked::of(path).answer(&text, "a.example");
    assert_eq!((&*runs(&text, "/a.php"), &*answer("/a.php")), ("unix:/php.sock", "file $path"), "{text}");
    assert_eq!(answer("/a.phpx"), "nothing", "{text}");
}

#[test]
fn fields_of_what_is_tried_are_said_to_be_of_its_own_path() {
    let lost = |locations: &str| {
        let imported = nginx(&format!("server {{ root /www; {locations} }}"), FILES).unwrap();
        imported.lost.iter().any(|note| note.words.contains("fields of `location`"))
    };
    let index = "location = /index.html { add_header Cache-Control no-store; }";
    assert!(lost(&format!("location / {{ try_files $uri /index.html; }} {index}")));
    assert!(lost("location / { } location = /index.html { expires -1; }"), "a folder leads to it");
    assert!(lost("location / { try_files $uri /index.html; } location ~ \\.html$ { expires -1; }"));
    assert!(!lost("location / { try_files $uri /index.html; } location = /index.html { }"));
    assert!(!lost("location / { try_files $uri /index.html; } location ~ \\.css$ { expires 1y; }"));
}

#[test]
fn of_two_locations_for_the_same_paths_the_inner_one_counts() {
    let text = text_of("location ^~ /a { location /a { proxy_pass http://in:1; } proxy_pass http://out:1; }");
    assert_eq!(crate::asked::Asked::of("/a/b").place(&text, "a.example"), "in:1", "{text}");
}

#[test]
fn the_index_files_of_a_folder_that_is_tried_are_looked_for() {
    let text = text_of("location / { try_files $uri /; }");
    assert!(text.contains("try = [\"$path\", \"/index.html\"]"), "{text}");
    let text = text_of(&format!("index index.php a.html; location / {{ try_files $uri $uri/ /x/; }} {PHP}"));
    assert!(text.contains("try = [\"$path\", \"/x/index.php\", \"/x/a.html\"]"), "{text}");
    let text = caddy(":80 {\nroot * /srv\ntry_files {path} /\nfile_server\n}\n").unwrap().text;
    assert!(text.contains("try = [\"$path\", \"/index.html\"]"), "{text}");
}

#[test]
fn an_application_is_not_said_to_be_told_what_it_is_not() {
    let notes = |inner: &str| {
        let imported = nginx(&format!("server {{ root /www; location / {{ {inner} }} }}"), FILES).unwrap();
        (imported.lost, imported.needless)
    };
    let says = |notes: &[Note], words: &str| notes.iter().any(|note| note.words.contains(words));
    let (lost, _) = notes("uwsgi_pass a:1; uwsgi_param DOCUMENT_ROOT $document_root;");
    assert!(says(&lost, "DOCUMENT_ROOT"), "{lost:?}");
    let (lost, needless) =
        notes("fastcgi_pass a:1; fastcgi_param DOCUMENT_ROOT $document_root; fastcgi_param HTTPS on;");
    assert!(!says(&lost, "DOCUMENT_ROOT") && says(&needless, "where a trusted proxy says so"), "{lost:?} {needless:?}");
    let (lost, _) = notes("proxy_pass http://a; proxy_set_header X-Forwarded-Host $server_name;");
    assert!(says(&lost, "X-Forwarded-Host"), "{lost:?}");
}

#[test]
fn a_block_may_begin_without_a_space() {
    for condition in ["if ($http_x = 'yes'){", "if ($http_x = yes){", "if ($http_x = \"yes\"){"] {
        let text = text_of(&format!("{condition} return 403; }} location /{{ add_header X-A \"${{b}}c\"; }}"));
        assert!(text.contains("header = { \"x\" = \"yes\" }") && text.contains("403"), "{condition}: {text}");
    }
    assert!(text_of("location ~ ^/[0-9]{2,3}x{ return 403; }").contains("[0-9]{2,3}x"));
}

#[test]
fn a_script_that_is_not_there_needs_no_refusal() {
    let text = text_of(
        "index index.php; location ~ [^/]\\.php(/|$) { if (!-f $document_root$fastcgi_script_name) { return 404; } \
         fastcgi_pass unix:/php.sock; }",
    );
    assert_eq!(runs(&text, "/a.php"), "unix:/php.sock", "{text}");
    assert!(!text.contains("/.denied"), "{text}");
}

#[test]
fn a_rewrite_of_a_location_stays_within_it() {
    let text = text_of("location /in/ { rewrite ^ /x break; } location / { }");
    assert_eq!(
        (sent(&text, "/in/a"), sent(&text, "/other")),
        (vec!["/x".to_owned()], vec!["/other".to_owned()]),
        "{text}"
    );
    let text = text_of("location /in/ { rewrite ^/in/(.*)$ /of/$1 last; rewrite ^/(.*)$ /y/$1; }");
    assert_eq!(sent(&text, "/in/a"), ["/of/a"], "{text}");
    assert_eq!(sent(&text, "/a"), ["/a"], "{text}");
    assert!(text.contains("it stays within its location"), "{text}");
    let text = text_of("location /api/ { rewrite ^/api/(.*)$ /v1/$1 break; proxy_pass http://127.0.0.1:1; }");
    assert!(text.contains("/.denied") && !text.contains("proxy ="), "{text}");
}

#[test]
fn files_that_are_included_are_read_and_named() {
    let read = |path: &str| match path {
        "sites/a.conf" => Ok("server {\n root /a;\n odd 1;\n include more.conf; }".to_owned()),
        "more.conf" => Ok("add_header X-A 1;\nodder 2;".to_owned()),
        "loop.conf" => Ok("include loop.conf;".to_owned()),
        _ => Err("No such file".to_owned()),
    };
    let files =
        Files { read: &read, list: &|pattern| if pattern == "sites/*" { vec!["sites/a.conf".into()] } else { vec![] } };
    let imported = nginx("http {\n include mime.types;\n include sites/*;\n include gone.conf; }", files).unwrap();
    let places: Vec<(String, bool)> =
        imported.lost.iter().map(|note| (note.place(), note.words.contains("odd"))).collect();
    assert!(imported.text.contains("X-A") && imported.text.contains("root = \"/a\""), "{}", imported.text);
    assert_eq!(
        places,
        [("line 4".into(), false), ("sites/a.conf, line 3".into(), true), ("more.conf, line 2".into(), true)],
        "{}",
        imported.text
    );
    assert!(imported.needless.iter().any(|note| note.words.contains("media types")), "{:?}", imported.needless);
    let round = nginx("server { root /; include loop.conf; }", files).unwrap();
    assert!(round.lost.iter().any(|note| note.words.contains("too many files")), "{:?}", round.lost);
    assert!(nginx("include gone.conf;", files).unwrap_err().words.contains("no server block"));
}

#[test]
fn what_applications_are_told_and_may_be_sent_is_carried_over_or_said() {
    let imported = nginx(
        "http { gzip on; client_max_body_size 64m; set_real_ip_from 10.0.0.0/8; real_ip_header X-Forwarded-For;\n\
         server { root /; location / { proxy_pass http://a; proxy_read_timeout 1d;\n proxy_set_header X-Real-IP $remote_addr; } } }",
        FILES,
    )
    .unwrap();
    for part in [
        "body_bytes_max = 67108864",
        "timeout_ms = 86400000",
        "filters = [\"compress\"]",
        "trusted_proxies = [\"10.0.0.0/8\"]",
        "request_headers = { \"X-Real-IP\" = \"${client}\" }",
    ] {
        assert!(imported.text.contains(part), "{part}: {}", imported.text);
    }
    assert!(imported.lost.is_empty(), "{:?}", imported.lost);
}

/// Locations of all kinds, with what they do; some within others.
fn locations() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "/",
        "/api/",
        "= /index.php",
        "= /ping",
        "^~ /static/",
        "~ \\.php$",
        "~* \\.php$",
        "~ \\.php",
        "~ [^/]\\.php(/|$)",
        "~ ^/(status|ping)$",
        "~ ^/blog/.*\\.php$",
        "/blog/",
        "~ \\.(php|phtml)$",
        "~ ^/(index|admin)\\.php(/|$)",
        "^~ /blog/a/",
        "~ ^(.+\\.php)(.*)$",
        "~* \\.(sql|bak)$",
        "~ /\\.ht",
        "= /",
        "/blog/sub/",
        "~ \\.php[57]?$",
        "~ ^/(?!x).*\\.php$",
    ]);
    let does = prop::sample::select(vec![
        "",
        "proxy_pass http://127.0.0.1:1;",
        "fastcgi_pass unix:/a.sock;",
        "fastcgi_pass 127.0.0.1:9;",
        "uwsgi_pass a:1;",
        "scgi_pass unix:/a.sock;",
        "return 404;",
        "deny all;",
        "expires 1d;",
        "try_files $uri /index.php?$args;",
        "try_files $uri =404; fastcgi_pass unix:/a.sock;",
        "rewrite ^ /index.php last;",
        "rewrite ^/blog/(.*)$ /index.php last;",
        "index index.php;",
        "auth_basic x;",
        "alias /other/;",
        "proxy_pass http://$x;",
        "add_header X-A 1;",
        "include snippets/fastcgi-php.conf; fastcgi_pass unix:/a.sock;",
        "error_page 404 /404.php;",
        "if ($a) { fastcgi_pass b; }",
        "return 301 /new;",
        "root /elsewhere;",
        "autoindex on;",
    ]);
    let leaf = (name.clone(), does.clone()).prop_map(|(name, does)| format!("location {name} {{ {does} }}"));
    let within = (name, does, prop::collection::vec(leaf.clone(), 0..3))
        .prop_map(|(name, does, inner)| format!("location {name} {{ {does} {} }}", inner.join(" ")));
    let server = prop::sample::select(vec![
        "",
        "index index.php index.html;",
        "error_page 404 /index.php;",
        "rewrite ^/old$ /index.php;",
    ]);
    (server, prop::collection::vec(within, 0..5)).prop_map(|(server, all)| format!("{server} {}", all.join(" ")))
}

/// Directives with arguments: those that mean something here, those that do not, and unknown ones.
const DIRECTIVES: [&str; 102] = [
    "root /a",
    "index a.html b.html",
    "autoindex on",
    "autoindex off",
    "add_header X-A 1",
    "add_header X-A 1 always",
    "expires 1d",
    "expires off",
    "expires modified 1d",
    "error_page 404 /404.html",
    "error_page 502 503 =200 /x.html",
    "error_page 404 @x",
    "try_files $uri =404",
    "try_files $uri @x",
    "return 404",
    "return 403 no",
    "return 200 \"ok\"",
    "return 301 /b",
    "return 302 $odd",
    "rewrite ^/a /b last",
    "rewrite ^/a$ /b permanent",
    "rewrite (?!x) /b",
    "allow 10.0.0.0/8",
    "deny all",
    "deny 192.0.2.1",
    "auth_basic \"realm of it\"",
    "auth_basic off",
    "auth_basic_user_file none",
    "auth_request /x",
    "auth_request_set $a $upstream_http_b",
    "satisfy any",
    "satisfy all",
    "internal",
    "limit_req zone=a burst=5 nodelay",
    "limit_req_zone $binary_remote_addr zone=a:10m rate=5r/s",
    "limit_conn a 5",
    "limit_conn_zone $binary_remote_addr zone=b:10m",
    "limit_rate 500k",
    "limit_rate_after 5m",
    "client_max_body_size 5m",
    "client_body_buffer_size 5k",
    "client_body_timeout 5s",
    "proxy_pass http://127.0.0.1:1",
    "proxy_pass http://$a",
    "fastcgi_pass 127.0.0.1:1",
    "uwsgi_pass 127.0.0.1:1",
    "uwsgi_param HTTP_X_A b",
    "uwsgi_param SCRIPT_NAME /app",
    "uwsgi_read_timeout 5s",
    "uwsgi_modifier1 14",
    "scgi_pass unix:/a.sock",
    "scgi_param A b",
    "grpc_pass grpc://a:1",
    "proxy_set_header Host a",
    "proxy_set_header X-A b",
    "proxy_read_timeout 5s",
    "proxy_connect_timeout 5s",
    "proxy_cache c",
    "proxy_cache_valid 200 5m",
    "proxy_buffering off",
    "proxy_redirect off",
    "proxy_hide_header X-A",
    "proxy_http_version 1.1",
    "proxy_request_buffering on",
    "fastcgi_param A b",
    "fastcgi_param HTTPS on",
    "fastcgi_index index.php",
    "fastcgi_split_path_info ^(.+)(/.*)$",
    "fastcgi_intercept_errors on",
    "fastcgi_hide_header X-A",
    "gzip on",
    "gzip off",
    "gzip_types text/css",
    "etag off",
    "charset latin1",
    "default_type text/plain",
    "types { a b; }",
    "if ($a) { return 403; }",
    "if ($a) { set $b 1; }",
    "if ($http_a = b) { return 403; }",
    "limit_except GET { deny all; }",
    "set $a b",
    "set_real_ip_from 10.0.0.0/8",
    "real_ip_header X-Forwarded-For",
    "real_ip_recursive off",
    "access_log /a.log combined",
    "access_log off",
    "error_log /a.log warn",
    "keepalive_timeout 5",
    "sendfile on",
    "server_tokens on",
    "resolver 1.1.1.1",
    "sub_filter a b",
    "ssi on",
    "mirror /a",
    "disable_symlinks on",
    "secure_link $a",
    "valid_referers none",
    "merge_slashes off",
    "server_name_in_redirect on",
    "ssl_verify_client on",
    "odd 1 2",
];

/// A configuration of nginx with a directive in some context, in a line of its own.
fn contexts(directive: &str) -> [String; 5] {
    let end = if directive.ends_with('}') { "" } else { ";" };
    [
        format!("http {{\n{directive}{end}\nserver {{ listen 80; root /w; location / {{ }} }} }}"),
        format!("server {{ listen 80;\n{directive}{end}\nroot /w; location /b/ {{ expires 9d; }} }}"),
        format!("server {{ listen 80; root /w; location /a/ {{\n{directive}{end}\n}} }}"),
        format!("server {{ listen 80; root /w; location ~ \\.x$ {{\n{directive}{end}\n}} }}"),
        format!(
            "server {{ listen 80; root /w; location / {{ proxy_pass http://127.0.0.1:9;\n{directive}{end}\n}} location /c/ {{ }} }}"
        ),
    ]
}

/// The import without its notes, and the notes about the second line; none if it is refused.
fn result_of(source: &str) -> Option<(String, Vec<String>)> {
    let imported = nginx(source, FILES).ok()?;
    let lines = imported.text.lines().filter(|line| !line.starts_with("# "));
    let body = lines.collect::<Vec<_>>().join("\n");
    // Of a block that makes no difference it is said what it says.
    let is_about = |note: &Note| note.line == 2 || note.words.contains("and all that it says");
    let said = imported.lost.into_iter().chain(imported.needless).filter(is_about).map(|note| note.words);
    Some((body, said.collect()))
}

/// The first word of each argument, changed.
fn changed(directive: &str) -> Vec<(String, String)> {
    let head = directive.split(" {").next().unwrap_or(directive);
    let words: Vec<&str> = head.split(' ').collect();
    let change = |at: usize| {
        let word = words[at].trim_matches('"');
        let digit = word.find(|one: char| one.is_ascii_digit());
        let other = match digit {
            Some(digit) => format!("{}7{}", &word[..digit], &word[digit..]),
            None => format!("{word}y"),
        };
        let changed = words
            .iter()
            .enumerate()
            .map(|(at_other, one)| if at_other == at { one.replace(word, &other) } else { (*one).to_owned() });
        (word.to_owned(), directive.replacen(head, &changed.collect::<Vec<_>>().join(" "), 1))
    };
    (1..words.len()).map(change).collect()
}

#[test]
fn every_directive_and_each_of_its_arguments_is_in_the_result_or_in_a_list() {
    for directive in DIRECTIVES {
        let name = directive.split(' ').next().unwrap();
        let changes = changed(directive);
        for (context, source) in contexts(directive).iter().enumerate() {
            let Some((body, said)) = result_of(source) else { continue };
            let is_named = said.iter().any(|words| {
                words.contains(&format!("`{name}"))
                    || words.contains(&format!("`{directive}`"))
                    || words.contains("and all that it says")
            });
            let (without, _) = result_of(&source.replace(directive, "")).expect("it is one without it");
            assert!(is_named || body != without, "{directive} is dropped from\n{source}\n{body}\n{said:?}");
            for (argument, other) in &changes {
                let is_same = result_of(&contexts(other)[context]).is_some_and(|(of_other, _)| of_other == body);
                let is_said =
                    said.iter().any(|words| words.contains(&**argument) || words.contains("and all that it says"));
                assert!(is_said || !is_same, "{argument} of {directive} is dropped from\n{source}\n{body}\n{said:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 384, ..ProptestConfig::default() })]

    /// Paths of a list of its own besides those that are proven: the rule holds for all of them.
    #[test]
    fn nothing_that_nginx_runs_is_sent(server in locations()) {
        let source = format!("server {{ listen 80; root /www; {server} }}");
        let Ok(imported) = nginx(&source, FILES) else { return Ok(()) };
        let settings = parse_unseen(&imported.text, "/a.toml".as_ref()).expect("what is imported is loaded");
        let sent = Sent::new(&settings.sites[0]).unwrap();
        let block = syntax::parse(&source).unwrap().remove(0).block.unwrap();
        let Some(nginx) = source::of(&block) else { return Ok(()) };
        let folders = ["/", "/api/", "/blog/", "/blog/a/", "/static/", "/blog/sub/", "/q/", "/status/"];
        let names = ["", "index.php", "q.php", "Q.PHP", "q.phtml", "q.php5", "admin.php/x", "q.php.bak", "q.phps", "ping", "q"];
        for path in folders.iter().flat_map(|folder| names.iter().map(move |name| format!("{folder}{name}"))) {
            for file in sent.files(path.as_bytes()) {
                let file = String::from_utf8(file).unwrap();
                let does = (nginx.does)(&file);
                prop_assert!(does != Use::Run, "{path} is answered with {file}\n{source}\n{}", imported.text);
            }
        }
    }

    #[test]
    fn every_directive_that_is_not_in_the_result_is_in_a_list(name in "[a-z_]{3,20}", argument in "[a-z0-9]{1,8}") {
        prop_assume!(!["if", "map", "types", "geo", "upstream"].contains(&&*name));
        for source in [
            format!("{name} {argument};\nserver {{ root /; }}"),
            format!("http {{\n{name} {argument};\nserver {{ root /; }} }}"),
            format!("server {{ root /;\n{name} {argument}; }}"),
            format!("server {{ root /; location /a/ {{\n{name} {argument}; expires 1d; }} }}"),
        ] {
            let Ok(imported) = nginx(&source, FILES) else { continue };
            let text = format!("`{name} {argument}`");
            let notes = imported.lost.iter().chain(&imported.needless);
            prop_assert!(imported.text.contains(&argument) && notes.into_iter().any(|note| note.words.contains(&text)), "{source}\n{}", imported.text);
        }
    }
}
