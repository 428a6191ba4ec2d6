//! That what nginx has run, refuses or leads elsewhere is not sent where it cannot be said here, and what is dropped of
//! it is said.

use crate::asked::Asked;
use crate::{Files, nginx};

const FILES: Files<'static> = Files { read: &|_| Err("No such file".to_owned()), list: &|_| Vec::new() };
const PHP: &str = "location ~ \\.php$ { fastcgi_pass 127.0.0.1:9000; }";

fn of(text: &str) -> String {
    nginx(text, FILES).unwrap_or_else(|note| panic!("{text}: {note:?}")).text
}

/// The result for a server that says this.
fn server(inner: &str) -> String {
    of(&format!("server {{\nlisten 80; root /srv;\n{inner} }}"))
}

fn answer(text: &str, path: &str) -> String {
    Asked::of(path).answer(text, "a.example")
}

/// With lines of a head.
fn with(text: &str, path: &str, fields: &str) -> String {
    Asked { fields, ..Asked::of(path) }.answer(text, "a.example")
}

#[test]
fn what_a_rewrite_that_cannot_be_said_is_for_is_not_sent() {
    for (rewrite, path) in [
        ("rewrite ^/files/(.*)$ /gate.php?f=$1 last;", "/files/secret.pdf"),
        ("rewrite ^/(.*)$ /index.php?q=$1 last;", "/secret.pdf"),
        ("rewrite ^/files/(?!open) /gate.php?f=$uri last;", "/files/secret.pdf"),
        ("rewrite ^/files/ /gate$odd last;", "/files/secret.pdf"),
        ("location /files/ { rewrite ^/files/(.*)$ /gate.php?f=$1 last; }", "/files/secret.pdf"),
        ("location /files/ { rewrite ^ /gate.php?f=$uri last; }", "/files/secret.pdf"),
        ("location / { rewrite ^/(.*)\\.pdf$ /gate.php?f=$1 last; }", "/files/secret.pdf"),
        ("location ~ \\.pdf$ { rewrite ^/(.*)$ /gate.php?f=$1 last; }", "/files/secret.pdf"),
        ("location /files/ { rewrite ^/files/(.*)$ /gate.php last; } location /files/a/ { expires 1d; }", "/files/b"),
    ] {
        for text in [server(&format!("{rewrite} {PHP}")), server(rewrite)] {
            let found = answer(&text, path);
            assert!(found == "nothing" || found == "file /gate.php", "{rewrite}: {found}\n{text}");
            assert!(!answer(&text, path).contains(path), "{rewrite}\n{text}");
        }
    }
    let text = server(&format!("rewrite ^/files/(.*)$ /gate.php?f=$1 last; {PHP}"));
    assert_eq!(answer(&text, "/other"), "file /other");
    assert!(text.contains("line 3: `rewrite ^/files/(.*)$ /gate.php?f=$1 last`") && text.contains("404"), "{text}");
}

#[test]
fn a_rewrite_that_means_the_same_without_its_query_is_carried_over() {
    let text = server("rewrite ^/old/(.*)$ /new/$1? last;");
    assert_eq!(answer(&text, "/old/a"), "file /new/${1}", "{text}");
    let text = server("rewrite ^(.*)$ https://b.example$1 permanent;");
    assert_eq!(answer(&text, "/old/a"), "to https://b.example$path", "{text}");
    // What is behind one for all paths is not reached.
    let text = server("location /in/ { rewrite ^/in/(.*)$ /of/$1 last; rewrite ^/(.*)$ /y.php?a=$1; }");
    assert_eq!(answer(&text, "/in/a"), "file /of/${1}", "{text}");
}

#[test]
fn the_proof_knows_what_is_rewritten() {
    let source = |text: &str| super::source::of(&super::syntax::parse(text).unwrap()).unwrap();
    let of_server = source(&format!("rewrite ^/files/(.*)$ /gate.php?f=$1 last; {PHP}"));
    assert_eq!((of_server.does)("/files/a.pdf"), crate::proof::Use::Run);
    assert_eq!((of_server.does)("/a.pdf"), crate::proof::Use::File);
    assert!(of_server.paths.iter().any(|path| path.starts_with("/files/")), "{:?}", of_server.paths);
    let of_location = source(&format!("location /files/ {{ rewrite ^/files/(.*)$ /gate.php?f=$1; }} {PHP}"));
    assert_eq!((of_location.does)("/files/a.pdf"), crate::proof::Use::Run);
    let stays = source(&format!("location /files/ {{ rewrite ^/files/(.*)$ /gate.php?f=$1 break; }} {PHP}"));
    assert_eq!((stays.does)("/files/a.pdf"), crate::proof::Use::File);
    let away = source(&format!("rewrite ^/files/ /b permanent; {PHP}"));
    assert_eq!((away.does)("/files/a.pdf"), crate::proof::Use::Never);
}

#[test]
fn where_nothing_that_is_tried_can_be_said_nothing_is_sent() {
    for tried in [
        "/gate.php?f=$uri =404",
        "/nothing.php /gate.php?f=$uri",
        "/gate.php =404",
        "@gate @gate",
        "/gate$odd =404",
        "/gate.php $uri",
        "=404 =404",
        "$uri/ =404",
    ] {
        let text = server(&format!("location /files/ {{ try_files {tried}; }}"));
        let found = answer(&text, "/files/a.pdf");
        assert!(found == "nothing" || found == "file $path/", "{tried}: {found}\n{text}");
    }
    let text = server("location / { try_files /cache/$odd$uri.html $uri =404; }");
    assert_eq!(answer(&text, "/a"), "file $path", "a file that is looked for before is one more: {text}");
    let text = server("location / { try_files $uri @gate; }");
    assert_eq!(answer(&text, "/a"), "file $path", "{text}");
    let named = "location @gate { proxy_pass http://127.0.0.1:1; proxy_read_timeout 60s; }";
    let text = server(&format!("location / {{ try_files $uri @gate; }} {named}"));
    assert_eq!(answer(&text, "/a"), "file $path, else application", "{text}");
    let text = server(&format!("root /www; try_files $uri/index.html $uri @gate; {named} location /x/ {{ }}"));
    assert_eq!(answer(&text, "/a"), "file $path/index.html $path, else application", "{text}");
    assert_eq!(answer(&text, "/x/a"), "file /x/a", "{text}");
    let text = server(&format!("location / {{ auth_basic a; try_files $uri @gate; }} {named}"));
    assert_eq!(answer(&text, "/a"), "nothing", "{text}");
    for other in ["return 403;", "deny all; proxy_pass http://127.0.0.1:1;", "internal;", "grpc_pass 127.0.0.1:1;"] {
        let text = server(&format!("location / {{ try_files $uri @gate; }} location @gate {{ {other} }}"));
        assert_eq!(answer(&text, "/a"), "file $path", "{text}");
    }
    let text = server("try_files @gate @gate;");
    assert_eq!(answer(&text, "/a"), "nothing", "{text}");
}

#[test]
fn who_is_led_elsewhere_is_not_sent_what_is_there() {
    let text = server("location /members/ { if ($cookie_session = \"\") { return 302 /login; } }");
    for fields in
        ["", "Cookie: a=b\r\n", "Cookie: session=\r\n", "Cookie: xsession=1\r\n", "Cookie: session=; session=a\r\n"]
    {
        assert_eq!(with(&text, "/members/a", fields), "to /login", "{fields}\n{text}");
    }
    for fields in ["Cookie: session=1\r\n", "Cookie: a=b; session=1; c=d\r\n"] {
        assert_eq!(with(&text, "/members/a", fields), "file /members/a", "{fields}\n{text}");
    }
    assert_eq!(with(&text, "/other", ""), "file /other");
    let text = server("if ($http_x_key != \"k\") { rewrite ^ /denied.html last; }");
    assert_eq!(with(&text, "/a", ""), "file /denied.html", "{text}");
    assert_eq!(with(&text, "/a", "X-Key: k\r\n"), "file /a", "{text}");
    let text = server("location / { if ($cookie_s = \"\") { return 302 /login; } } location /login { expires 1d; }");
    assert_eq!(
        (with(&text, "/a", ""), with(&text, "/login", "")),
        ("to /login".into(), "file /login".into()),
        "{text}"
    );
}

#[test]
fn a_condition_about_the_client_that_cannot_be_said_lets_nobody_in() {
    for (condition, answer) in [
        ("$http_x_key !~ \"(?!k)\"", "return 302 /login"),
        ("$remote_user = \"\"", "return 302 /login"),
        ("$remote_addr !~ ^10\\.", "return 301 https://b.example/"),
        ("$cookie_a !~ ^[0-9]+$", "rewrite ^ /login.html redirect"),
        ("$ssl_client_verify != SUCCESS", "return https://b.example/"),
        ("$allowed = 0", "return 302 /login"),
        ("$invalid_referer", "rewrite ^ /no.png last"),
        ("$arg_token != x", "return 302 /login"),
        ("-f $request_filename", "rewrite ^(.*)$ /gate.php?f=$1 last"),
        ("$uri ~ ^/in/", "rewrite ^ /gate.php?f=$uri last"),
    ] {
        for text in [
            server(&format!("if ({condition}) {{\n{answer}; }}")),
            server(&format!("location /in/ {{ if ({condition}) {{\n{answer}; }} }}")),
        ] {
            assert_eq!(self::answer(&text, "/in/a"), "nothing", "{condition}: {text}");
            let said = format!("`if ({}", condition.split(' ').next().unwrap_or_default());
            assert!(text.contains(&said), "{condition}: {text}");
        }
    }
    // A variable is what it comes from.
    let map = |from: &str| {
        of(&format!(
            "http {{ map {from} $v {{ default 1; b 0; }} server {{ root /; if ($v = 0) {{ return 302 /l; }} }} }}"
        ))
    };
    assert_eq!((answer(&map("$cookie_a"), "/a"), answer(&map("$host"), "/a")), ("nothing".into(), "file /a".into()));
    let set = |condition: &str| {
        of(&format!("server {{ root /; set $v 0; if ({condition}) {{ set $v 1; }} if ($v) {{ return 302 /l; }} }}"))
    };
    assert_eq!(
        (answer(&set("$remote_addr ~ x"), "/a"), answer(&set("$host ~ x"), "/a")),
        ("nothing".into(), "file /a".into())
    );
}

#[test]
fn what_leads_to_the_same_under_another_address_restricts_nobody() {
    for one in [
        "if ($scheme = http) { return 301 https://$host$request_uri; }",
        "if ($http_x_forwarded_proto = http) { return 301 https://$host$request_uri; }",
        "if ($host ~ ^www\\.(.*)$) { return 301 https://$1$request_uri; }",
        "if ($request_uri ~ ^/old) { return 301 /new; }",
        "if ($args ~ ^p=5$) { return 301 /new; }",
        "if (-d $request_filename) { rewrite ^/(.*[^/])$ /$1/ permanent; }",
        "if (!-e $request_filename) { rewrite ^(.*)$ /index.php?q=$1 last; }",
        "if (!-f $request_filename) { rewrite ^ /index.html last; }",
        "if ($http_accept ~ webp) { rewrite ^(.*)\\.png$ $1.webp last; }",
        "if ($uri ~ ^/a) { rewrite ^ /maintenance.html last; }",
    ] {
        let text = server(one);
        assert_eq!(with(&text, "/a", "Accept: image/webp\r\n"), "file /a", "{one}: {text}");
    }
}

#[test]
fn a_field_that_is_empty_is_as_one_that_is_not_there() {
    let text = server("if ($http_x_key = \"\") { return 403; }");
    for (fields, expected) in [("", "nothing"), ("X-Key:\r\n", "nothing"), ("X-Key: k\r\n", "file /a")] {
        assert_eq!(with(&text, "/a", fields), expected, "{fields:?}: {text}");
    }
}

#[test]
fn who_is_refused_a_script_does_not_come_to_it_by_another_path() {
    let text =
        server("index index.php; location ~ \\.php$ { if ($http_x_key != \"k\") { return 403; } fastcgi_pass a:1; }");
    assert_eq!(with(&text, "/in/", ""), "nothing", "{text}");
}

#[test]
fn a_location_whose_path_is_no_pattern_here_is_what_it_is_there() {
    for path in ["/a*b/", "/a{b}/", "/a?b/", "/a%20b/", "/a,{b/"] {
        for (kind, asked) in [("", format!("{path}x")), ("^~", format!("{path}x")), ("=", path.to_owned())] {
            for inner in ["deny all;", "if ($http_x = y) { return 403; } deny all;", "allow 10.0.0.0/8; deny all;"] {
                let text = server(&format!("location {kind} \"{path}\" {{ {inner} }} location /b/ {{ expires 1d; }}"));
                let found = answer(&text, &asked);
                let is_refused = found == "nothing" || text.contains("access = { allow = [\"10.0.0.0/8\"] }");
                assert!(is_refused, "{kind} {path}: {found}\n{text}");
                assert_eq!(answer(&text, "/b/x"), "file /b/x", "{text}");
            }
        }
    }
}

/// The index files that stand for a folder.
fn indexes(text: &str, folder: &str) -> Vec<String> {
    let settings = lamna_config::parse_unseen(text, "/a.toml".as_ref()).unwrap();
    let matcher = lamna_config::route::matcher::Matcher::new(&settings.sites[0].routes).unwrap();
    let ids = matcher.by_path(folder.as_bytes()).into_iter();
    let rules = lamna_config::route::merge(ids.map(|id| (usize::from(id), matcher.route(id))));
    rules.index.unwrap_or_else(|| settings.sites[0].index.clone())
}

#[test]
fn what_is_refused_is_refused_where_an_index_file_or_a_rewrite_leads_to_it() {
    let php = format!("index index.php index.html; {PHP}");
    for (location, folder, other) in [
        ("~* ^/uploads/.*\\.php$", "/uploads/", "/"),
        ("~* /(?:uploads|files)/.*\\.php$", "/a/files/b/", "/a/"),
        ("~ /vendor/.*\\.php$", "/vendor/x/", "/x/"),
        ("= /in/index.php", "/in/", "/in/a/"),
    ] {
        let text = server(&format!("location {location} {{ deny all; }} {php}"));
        assert_eq!(indexes(&text, folder), ["index.html"], "{location}: {text}");
        assert_eq!(indexes(&text, other), ["index.php", "index.html"], "{location}: {text}");
    }
    let text =
        server("index index.php; location = /index.php { fastcgi_pass a:1; } location ~ \\.php$ { return 404; }");
    assert_eq!(
        (indexes(&text, "/"), indexes(&text, "/x/")),
        (vec!["index.php".into()], vec!["no-index".into()]),
        "{text}"
    );
    let text = server("location ~ \\.html$ { return 403; }");
    assert_eq!(
        (indexes(&text, "/"), indexes(&text, "/x/")),
        (vec!["no-index".into()], vec!["no-index".into()]),
        "{text}"
    );
    let text = server("location ~ \\.pdf$ { deny all; }");
    assert!(!text.contains("index ="), "{text}");
    let text = server("location /in/ { deny all; } rewrite ^/out/(.*)$ /in/$1 last; rewrite ^/b/(.*)$ /c/$1 last;");
    assert_eq!((answer(&text, "/out/a"), answer(&text, "/b/a")), ("nothing".into(), "file /c/${1}".into()), "{text}");
}

#[test]
fn who_is_refused_a_page_does_not_come_to_it_as_an_index_file() {
    let text = server("location ~ \\.html$ { if ($cookie_s = \"\") { return 302 /login; } }");
    assert_eq!(with(&text, "/in/", ""), "nothing", "{text}");
    assert_eq!(with(&text, "/in/", "Cookie: s=1\r\n"), "file /in/", "{text}");
}

#[test]
fn a_location_may_be_written_without_a_space() {
    for location in ["=/in/a", "^~/in/", "~^/in/", "~*^/IN/"] {
        let text = server(&format!("location {location} {{ deny all; }}"));
        assert_eq!(answer(&text, "/in/a"), "nothing", "{location}: {text}");
    }
}

#[test]
fn a_server_that_nobody_reaches_from_elsewhere_is_for_nobody_elsewhere() {
    let public = "server { listen 80; server_name a.example; root /srv/www; location / { proxy_pass http://b; } }";
    for (listen, own, other) in [
        ("listen 127.0.0.1:8081;", "127.0.0.1", "192.0.2.7"),
        ("listen [::1]:8081; listen 127.0.0.1:8081;", "::1", "2001:db8::1"),
        ("listen 127.0.0.1;", "127.0.0.1", "192.0.2.7"),
        ("listen localhost:8081;", "127.0.0.1", "192.0.2.7"),
        ("listen unix:/run/a.sock;", "", "127.0.0.1"),
        ("listen unix:/run/a.sock; listen 127.0.0.1:8081;", "127.0.0.1", "192.0.2.7"),
    ] {
        let admin = format!(
            "server {{\n{listen} server_name admin.local; root /srv/admin; location /x/ {{ allow all; proxy_pass http://c; }} }}"
        );
        for text in [of(&format!("{public}\n{admin}")), of(&format!("{admin}\n{public}"))] {
            for (path, expected) in [("/a", "file /a"), ("/x/a", "application")] {
                let from = |client: &str| Asked { client, ..Asked::of(path) }.answer(&text, "admin.local");
                assert_eq!((from(own), from(other)), (expected.to_owned(), "nothing".to_owned()), "{listen}: {text}");
            }
            assert_eq!(Asked::of("/a").answer(&text, "a.example"), "application", "{text}");
            assert!(text.contains("answers on every address"), "{text}");
        }
        let alone = of(&admin);
        assert!(!alone.contains("/.denied"), "nobody else gets there: {alone}");
    }
}

#[test]
fn what_is_refused_a_script_is_refused_with_what_follows_it_as_well() {
    for refusal in [
        "location ~ ^/pub/.*\\.php$ { deny all; }",
        "location ~* \\.php$ { deny all; }",
        "location /pub/ { location ~ \\.php$ { return 403; } }",
        "if ($uri ~ ^/pub/.*\\.php$) { return 403; }",
        "location ~ ^/pub/.*\\.php$ { internal; fastcgi_pass 127.0.0.1:9000; }",
        "location ~ ^/pub/.*\\.php$ { auth_basic x; fastcgi_pass 127.0.0.1:9000; }",
        "location ~ ^/pub/.*\\.php$ { auth_jwt x; fastcgi_pass 127.0.0.1:9000; }",
        "location = /pub/x.php { deny all; }",
    ] {
        for php in [PHP, "location ~ \\.(php|phtml)$ { fastcgi_pass 127.0.0.1:9000; }"] {
            let text = server(&format!("{refusal} {php}"));
            for path in ["/pub/x.php/foo", "/pub/x.php/"] {
                assert_eq!(answer(&text, path), "nothing", "{refusal} {path}: {text}");
            }
        }
    }
    let text = server(&format!("location / {{ try_files $uri /index.php?$args; }} {PHP}"));
    assert_eq!(answer(&text, "/x.php/foo"), "nothing", "{text}");
    assert!(text.contains("paths that go on behind a script (`\\.php/`)"), "{text}");
}

#[test]
fn what_follows_a_script_is_for_the_scripts_that_may_be_followed() {
    let open = "location ~ ^/index\\.php(/|$) { fastcgi_pass 127.0.0.1:9000; }";
    let text = server(&format!("location / {{ try_files $uri /index.php$is_args$args; }} {open} {PHP}"));
    assert_eq!(answer(&text, "/x.php/foo"), "nothing", "{text}");
    assert_eq!(answer(&text, "/index.php/foo"), "file /index.php/foo", "{text}");
    assert!(!server(open).contains(".denied"), "{}", server(open));
}

#[test]
fn what_is_refused_is_refused_before_the_end_of_a_line_as_well() {
    let pass = "location / { proxy_pass http://127.0.0.1:8080; }";
    for refusal in [
        "location ~ ^/pub/[^/]*$ { deny all; }",
        "location ~ \\.php$ { return 403; }",
        "location ~* ^/pub/.*\\.php$ { return 302 /login; }",
        "if ($uri ~ \\.php$) { return 403; }",
        "location ~ \\.php$ { if ($http_x_key != k) { return 403; } proxy_pass http://127.0.0.1:8080; }",
        "location /pub/ { location ~ \\.php$ { deny all; } }",
    ] {
        let text = server(&format!("{refusal} {pass}"));
        for path in ["/pub/x.php", "/pub/x.php\n"] {
            let found = answer(&text, path);
            assert!(found == "nothing" || found == "to /login", "{refusal} {path:?} {found}: {text}");
        }
    }
}

#[test]
fn a_field_that_nginx_overwrites_is_not_believed_of_a_client() {
    for told in [
        "proxy_set_header X-Client-Verify $ssl_client_verify;",
        "proxy_set_header X-Auth-User \"\";",
        "proxy_set_header X-Remote-User $remote_user;",
        "proxy_set_header X_User $remote_user;",
    ] {
        for text in [
            server(&format!("location / {{ {told} proxy_pass http://a; }}")),
            server(&format!("{told} location / {{ proxy_pass http://a; }}")),
        ] {
            assert_eq!(answer(&text, "/a"), "application", "{told}: {text}");
            let name = told.split(' ').nth(1).unwrap().replace('_', "-");
            let settings = lamna_config::parse_unseen(&text, "/a.toml".as_ref()).unwrap();
            let rules = settings.sites[0].routes.iter().flat_map(|route| &route.request_headers);
            assert!(rules.flat_map(|rule| rule.names()).any(|one| one == name), "{told}: {text}");
        }
    }
    let text = server("location / { fastcgi_pass a:1; fastcgi_param HTTP_X_USER $remote_user; }");
    assert_eq!(answer(&text, "/a"), "application", "{text}");
    assert!(text.contains("request_headers = { \"X-USER\" = \"${user}\" }"), "{text}");
    for told in ["X-Real-IP $remote_addr", "X-Forwarded-Port 443", "Accept-Encoding \"\"", "X-Key $http_x_key"] {
        let text = server(&format!("location / {{ proxy_set_header {told}; proxy_pass http://a; }}"));
        assert_eq!(answer(&text, "/a"), "application", "{told}: {text}");
    }
    // What a service may say is taken out of what clients send.
    let service = "location = /v { internal; proxy_pass http://s; }";
    for told in ["X-User $user", "X-User $remote_user", "X-User \"\""] {
        let text = server(&format!(
            "{service} location / {{ auth_request /v; auth_request_set $user $upstream_http_x_auth_user; \
             proxy_set_header {told}; proxy_pass http://a; }}"
        ));
        let settings = lamna_config::parse_unseen(&text, "/a.toml".as_ref()).unwrap();
        assert!(format!("{:?}", settings.sites[0].routes).contains("\"X-User\""), "{told}: {text}");
        assert_eq!(answer(&text, "/a"), "application", "{told}: {text}");
    }
}

#[test]
fn who_shows_a_certificate_that_is_no_longer_good_is_not_let_in() {
    let tls = "listen 443 ssl; ssl_certificate /a.pem; ssl_certificate_key /a.key; ssl_client_certificate /ca.pem;";
    for revoked in ["ssl_crl /crl.pem;", "ssl_ocsp on;", "ssl_ocsp leaf;"] {
        for verify in ["on", "optional"] {
            let text = of(&format!("server {{ {tls} root /srv; ssl_verify_client {verify}; {revoked} }}"));
            assert_eq!(answer(&text, "/a"), "nothing", "{revoked}: {text}");
            assert!(text.contains("no longer good"), "{text}");
        }
    }
    let text = of(&format!("server {{ {tls} root /srv; ssl_verify_client on; ssl_ocsp off; }}"));
    assert_eq!(answer(&text, "/a"), "file /a", "{text}");
}

#[test]
fn what_another_module_restricts_is_not_served() {
    for restriction in [
        "shib_request /shibauthorizer;",
        "auth_oidc main;",
        "auth_require $a;",
        "SecRulesEnabled;",
        "modsecurity on;",
        "rewrite_by_lua_file /a.lua;",
        "access_by_lua_file /a.lua;",
    ] {
        for text in [server(restriction), server(&format!("location / {{ {restriction} }}"))] {
            assert_eq!(answer(&text, "/a"), "nothing", "{restriction}: {text}");
        }
    }
}

#[test]
fn the_prefix_around_an_expression_is_compared_in_its_case() {
    let is_shut =
        |text: &str, path: &str| Asked::of(path).is_denied(text, "a.example") || answer(text, path) == "nothing";
    for (inner, own, other) in [
        ("location /admin/ { allow all; location ~* \\.txt$ { allow all; } }", "/admin/x.TXT", "/Admin/x.txt"),
        ("location /admin/ { allow all; location ~* ^/admin/open/ { allow all; } }", "/admin/Open/x", "/Admin/open/x"),
        ("location /admin/ { allow all; location ~* /x$ { allow all; } }", "/admin/X", "/ADMIN/x"),
    ] {
        let text = server(&format!("location / {{ deny all; }} {inner}"));
        assert!(!is_shut(&text, own), "{own}: {text}");
        assert!(is_shut(&text, other), "{other}: {text}");
    }
    let closed = "location ~* ^/admin/ { deny all; }";
    let text = server(&format!("{closed} location /admin/ {{ location ~* \\.txt$ {{ try_files $uri =404; }} }}"));
    assert!(is_shut(&text, "/Admin/x.txt"), "{text}");
    // One that is left out is not there for any path.
    let text = server("location /admin/ { location ~* ^/adm.n/x { deny all; } }");
    assert!(is_shut(&text, "/admin/x"), "{text}");
}
