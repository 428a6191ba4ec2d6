//! Configurations of nginx as they are written, and what comes of them.

use lamna_config::parse;
use lamna_config::settings::SiteSettings;

use super::super::{Files, nginx};
use std::fs;

/// The import of `text`, in which `ROOT` is a directory that exists, and what is lost.
fn imported(text: &str) -> (Vec<SiteSettings>, Vec<(usize, String)>) {
    let root = tempfile::tempdir().unwrap();
    for name in ["www", "media/img", "media/x"] {
        fs::create_dir_all(root.path().join(name)).unwrap();
    }
    let text = text.replace("ROOT", root.path().to_str().unwrap());
    let imported = nginx(&text, FILES).unwrap();
    let lost = imported.lost.into_iter().map(|note| (note.line, note.words)).collect();
    match parse(&imported.text, &root.path().join("a.toml")) {
        Ok(settings) => (settings.sites, lost),
        Err(error) => panic!("{error}\n{}", imported.text),
    }
}

/// A file of passwords.
fn read(path: &str) -> Result<String, String> {
    let argon2 = "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$kyj4KAQPkDHofxQqmZFrtcrDql5eltyrs3W6/tB5JPs";
    match path {
        "a" => Ok(format!(
            "ada:{argon2}:who made the engine\n# none\nbob:$2y$05$abc\neve:$apr1$x$y\nzoe:kaputt\nivy:$apr1$r31.....$HqJZimcKQFAMYayBlzkrA/\n"
        )),
        "old" => Ok("bob:$2y$05$abc\n".to_owned()),
        "ada" => Ok(format!("ada:{}\n", argon2.replace("kyj", "abc"))),
        _ => Err("No such file".to_owned()),
    }
}

const FILES: Files<'static> = Files { read: &read, list: &|_| Vec::new() };

pub(super) fn text_of(text: &str) -> String {
    nginx(text, FILES).unwrap().text
}

#[test]
fn expires_is_said_beside_a_cache_control_of_the_same_place() {
    for words in [
        "expires 1y; add_header Cache-Control \"public, immutable\";",
        "add_header Cache-Control \"public, immutable\"; expires 1y;",
    ] {
        let text = text_of(&format!("server {{ root /; location /assets/ {{ {words} }} }}"));
        assert!(text.contains("\"Cache-Control\" = [\"max-age=31536000\", \"public, immutable\"]"), "{text}");
        assert!(!text.contains("is the same without it"), "{text}");
    }
}

#[test]
fn a_usual_site_is_carried_over_whole() {
    let (sites, lost) = imported(
        r#"
user www-data;
events { worker_connections 768; }
http {
    include /etc/nginx/mime.types;
    sendfile on; # as usual
    keepalive_timeout 65;
    server {
        listen 80 default_server;
        listen [::]:80 default_server;
        server_name example.org *.example.org;
        root ROOT/www;
        index index.html index.htm;
        add_header X-Frame-Options "SAMEORIGIN" always;
        error_page 404 /404.html;
        location / { try_files $uri $uri/ $uri.html =404; }
        location /assets/ { expires 1y; add_header X-A 1; }
        location = /old { return 301 /new; }
        location ~* \.(png|jpe?g)$ { expires 30d; }
        location ~ /\.ht { deny all; }
        rewrite ^/blog/(.*)$ /articles/$1 permanent;
    }
    server {
        listen 80;
        server_name www.example.net example.net;
        return 301 https://$host$request_uri;
    }
}
"#,
    );
    assert_eq!(lost, []);
    assert_eq!((sites.len(), sites[0].hosts.len(), sites[0].index.len()), (2, 2, 2));
    assert_eq!(sites[0].headers, [("X-Frame-Options".to_owned(), "SAMEORIGIN".to_owned())]);
    assert_eq!(sites[0].error_pages.get(404), Some("/404.html"));
    assert!(!sites[1].has_root() && sites[1].routes.len() == 1);
}

#[test]
fn what_is_not_carried_over_is_said_with_its_line() {
    let (sites, lost) = imported(
        "server {\n listen 443 ssl;\n server_name ~^a;\n root ROOT/www;\n ssl_certificate a.pem;\n location /api/ {\n  \
         proxy_pass https://b;\n }\n location @c { return 404; }\n location / {\n  auth_basic x;\n  if ($a) { return 403; }\n  \
         add_header X-A $b;\n  try_files $uri @c;\n }\n resolver 1.1.1.1;\n location ~ ^/(?!a) { expires 1d; }\n}\n",
    );
    let lines: Vec<usize> = lost.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [2, 3, 5, 7, 9, 11, 12, 13, 14, 16, 17], "{lost:#?}");
    assert!(lost[5].1.contains("answered with 404"), "{lost:#?}");
    assert_eq!(sites.len(), 1);
}

#[test]
fn fixed_answers_and_pages_for_errors_are_carried_over() {
    let text = text_of(
        "server { root /; auth_basic off; error_page 404 /404.html; error_page 502 503 504 /50x.html; \
         location = /health { return 200 \"ok\"; } location /old/ { return 410; } location /old/kept/ { expires 1d; } \
         location /app/ { proxy_pass http://127.0.0.1:3000; proxy_intercept_errors on; } }",
    );
    let pages = "error_pages = { \"404\" = \"/404.html\", \"502\" = \"/50x.html\", \"503\" = \"/50x.html\", \"504\" = \"/50x.html\" }";
    assert!(text.contains(pages), "{text}");
    for (place, line) in [
        ("\"/health\"", "respond = { status = 200, text = \"ok\" }"),
        ("\"/old/*\"", "respond = 410"),
        ("\"/old/kept/*\"", "respond = false"),
        ("\"/app/*\"", "intercept_errors = true"),
    ] {
        let (_, route) = text.split_once(&format!("match = {place}\n")).expect(&text);
        assert!(route.split("[[").next().unwrap_or_default().contains(line), "{place}: {text}");
    }
    let all = text_of("server { root /; return 403; location /a/ { expires 1d; } }");
    assert!(all.contains("respond = 403") && !all.contains("/a/*"), "{all}");
}

#[test]
fn a_location_does_not_take_what_another_says() {
    let text = text_of(
        "server { root /; add_header X-S 1; location / { try_files $uri /index.html; } \
         location /api/ { add_header X-A 1; } }",
    );
    let (_, api) = text.split_once("match = \"/api/*\"\n").expect(&text);
    assert!(api.contains("try = []") && api.contains("\"X-A\" = \"1\"") && api.contains("\"X-S\" = true"), "{text}");
}

#[test]
fn what_another_program_runs_and_what_is_restricted_is_not_served() {
    let text = text_of(
        "server { root /; index index.php index.html; location / { try_files $uri /index.php?$args; } \
         location ~ \\.php$ { fastcgi_pass a; } location /private/ { auth_basic x; } location /open/ { auth_basic off; } }",
    );
    assert!(!text.contains("\"/index.php\"]") && text.contains("index = [\"index.html\"]"), "{text}");
    for pattern in ["{ regex = \"\\\\.php\\\\n?$\" }", "\"/private/*\""] {
        let (_, route) = text.split_once(&format!("match = {pattern}\n")).expect(&text);
        let route = route.split("[[").next().unwrap_or_default();
        assert!(route.contains("rewrite = \"/.denied\"\ntry = []"), "{text}");
    }
    let (_, open) = text.split_once("match = \"/open/*\"\n").expect(&text);
    assert!(!open.contains("/.denied"), "{text}");
}

#[test]
fn what_restricts_or_runs_in_a_way_that_is_not_known_here_is_not_served() {
    for inner in [
        "if ($http_x_key ~ \"(?!k)\") { return 403; }",
        "if ($invalid_referer) { return 403; }",
        "return 403 \"$odd\";",
        "return 200 \"{}\";",
        "return 444;",
        "return 301 $odd;",
        "ssi on;",
        "xslt_stylesheet /a.xsl;",
        "disable_symlinks on;",
        "include gone.conf;",
        "if ($bad) { return 444; }",
        "if ($ssl_client_verify != SUCCESS) { return 401; }",
        "limit_except GET { allow 10.0.0.0/8; deny all; }",
        "auth_jwt realm;",
        "access_by_lua_file /x.lua;",
        "secure_link $arg_md5;",
        "content_by_lua_file /x.lua;",
        "js_content a.b;",
        "passenger_enabled on;",
        "perl x::y;",
    ] {
        let text = text_of(&format!("server {{ root /; location /up/ {{ {inner} }} }}"));
        let (_, route) = text.split_once("match = \"/up/*\"\n").expect(&text);
        assert!(
            route.split("[[").next().unwrap_or_default().contains("rewrite = \"/.denied\"\ntry = []"),
            "{inner}: {text}"
        );
    }
    // The same clients are refused here, and no others.
    for (inner, matches) in [
        ("if ($request_method != POST) { return 404; }", "path = \"/up/*\", not = { method = [\"POST\"] }"),
        (
            "if ($http_user_agent ~* bot) { return 403; }",
            "path = \"/up/*\", header = { \"user-agent\" = { regex = \"(?i)bot\" } }",
        ),
        ("limit_except GET { deny all; }", "path = \"/up/*\", not = { method = [\"GET\"] }"),
    ] {
        let text = text_of(&format!("server {{ root /; location /up/ {{ {inner} expires 1d; }} }}"));
        let route = format!("match = {{ {matches} }}\npriority = 100000\nrewrite = \"/.denied\"\ntry = []\n");
        assert!(text.contains(&route) && text.matches("/.denied").count() == 1, "{inner}: {text}");
    }
    for inner in ["auth_jwt off;", "passenger_enabled off;"] {
        let text = text_of(&format!("server {{ root /; location /up/ {{ {inner} expires 1d; }} }}"));
        assert!(!text.contains("/.denied"), "{inner}: {text}");
    }
    let text = text_of("server { root /; if ($uri ~* \"inc$\") { return 403; } location / { expires 1d; } }");
    assert!(text.contains("/.denied"), "{text}");
}

#[test]
fn a_redirect_to_the_same_with_tls_gives_way_to_the_site() {
    let tls = "server { listen 80; server_name a.example; return 301 https://$host$request_uri; }";
    let site = "server { listen 443 ssl; server_name a.example b.example; root ROOT/www; }";
    for text in [format!("{tls}\n{site}"), format!("{site}\n{tls}")] {
        let (sites, lost) = imported(&text);
        assert_eq!((sites.len(), sites[0].has_root(), sites[0].hosts.len()), (1, true, 2), "{text}");
        assert!(lost.iter().any(|(_, words)| words.contains("leads to the same with TLS")), "{lost:?}");
    }
    let any = "server { listen 80 default_server; return 301 https://$host$request_uri; } server { listen 443 ssl; root ROOT/www; }";
    let (sites, _) = imported(any);
    assert_eq!((sites.len(), sites[0].has_root()), (1, true));
    let (sites, lost) = imported("server { listen 80; return 301 https://$host$request_uri; }");
    assert_eq!((sites.len(), sites[0].has_root(), lost.len()), (1, false, 0));
}

#[test]
fn a_site_with_its_certificate_is_one_site_with_tls() {
    let pair = "ssl_certificate /c.pem; ssl_certificate_key /c.key; ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:SSL:10m; http2 on;";
    let site = format!("server {{ listen 443 ssl http2; server_name a.example; {pair} root /www; }}");
    let plain = "server { listen 80; server_name a.example;";
    for redirect in [
        format!("{plain} return 301 https://$host$request_uri; }}"),
        format!(
            "{plain} location /.well-known/acme-challenge/ {{ allow all; }} location / {{ return 301 https://a.example$request_uri; }} }}"
        ),
        format!("{plain} if ($host = a.example) {{ return 301 https://$host$request_uri; }} return 404; }}"),
    ] {
        for text in [format!("{redirect}\n{site}"), format!("{site}\n{redirect}")] {
            let imported = nginx(&text, FILES).unwrap();
            assert_eq!(imported.lost, [], "{text}");
            assert_eq!(imported.text.matches("[[site]]").count(), 1, "{}", imported.text);
            for part in ["\"0.0.0.0:443\"", "\"0.0.0.0:80\"", "certificate = \"/c.pem\"\nkey = \"/c.key\""] {
                assert!(imported.text.contains(part), "{part}: {}", imported.text);
            }
        }
    }
}

#[test]
fn an_address_has_what_its_server_says_of_it() {
    let listen = |text: &str| {
        let imported = nginx(text, FILES).unwrap();
        let line = imported.text.lines().find(|line| line.starts_with("listen = ")).unwrap_or_default().to_owned();
        (line, imported.lost.into_iter().map(|note| note.words).collect::<Vec<_>>())
    };
    let pair = "ssl_certificate /a; ssl_certificate_key /b; root /www;";
    let both = format!(
        "server {{ listen 80; listen [::]:80; listen 8443 ssl backlog=512; listen 8080; server_name a.example; {pair} }}"
    );
    let (line, lost) = listen(&both);
    for part in [
        "{ address = \"0.0.0.0:80\", redirect = false }",
        "{ address = \"[::]:80\", redirect = false }",
        "{ address = \"0.0.0.0:8443\", backlog = 512 }",
        "{ address = \"0.0.0.0:8080\", tls = false, redirect = false }",
    ] {
        assert!(line.contains(part) && lost.is_empty(), "{part}: {line} {lost:?}");
    }
    // A site that is served over TLS alone is served so here.
    let (line, lost) = listen(&format!("{both}\nserver {{ listen 443 ssl; server_name b.example; {pair} }}"));
    assert!(!line.contains("redirect") && line.contains("{ address = \"0.0.0.0:8080\", tls = false }"), "{line}");
    assert!(lost.len() == 3 && lost.iter().all(|words| words.contains("leads to https")), "{lost:?}");
    let (line, _) = listen(&format!("server {{ listen 80 ssl; {pair} }}"));
    assert!(line.contains("{ address = \"0.0.0.0:80\", tls = true }"), "{line}");
    let proxied = "server { listen 80 proxy_protocol backlog=100000 default_server; root /www; ";
    let (line, lost) = listen(&format!("{proxied} set_real_ip_from 10.0.0.0/8; real_ip_header proxy_protocol; }}"));
    assert!(line.contains("proxy_protocol = true, backlog = 65535"), "{line} {lost:?}");
    let (line, lost) = listen(&format!("{proxied} }}"));
    assert!(
        !line.contains("proxy_protocol") && lost.iter().any(|words| words.contains("trusted_proxies")),
        "{line} {lost:?}"
    );
}

#[test]
fn what_is_otherwise_with_tls_is_said() {
    let lost =
        |text: &str| -> Vec<String> { nginx(text, FILES).unwrap().lost.into_iter().map(|note| note.words).collect() };
    let with = |more: &str| {
        lost(&format!("server {{ listen 443 ssl; ssl_certificate /a; ssl_certificate_key /b; root /www; {more} }}"))
    };
    for (more, why) in [
        ("ssl_protocols TLSv1 TLSv1.2;", "TLS 1.2 and 1.3"),
        ("ssl_ciphers HIGH;", "cannot be chosen"),
        ("listen 443 quic;", "HTTP/3"),
        ("ssl_verify_client on;", "not asked for certificates"),
    ] {
        let found = with(more);
        assert!(found.len() == 1 && found[0].contains(why), "{more}: {found:?}");
    }
    let clients = "server { listen 443 ssl; ssl_certificate /a; ssl_certificate_key /b; ssl_client_certificate /ca.pem; \
                   ssl_verify_client optional; root /www; }";
    let text = text_of(clients);
    assert!(text.contains("client_ca = \"/ca.pem\"\nclient_certificates = \"optional\""), "{text}");
    let found = lost("server { listen 443 ssl; ssl_certificate /a; root /www; }");
    assert!(found.len() == 2 && !text_of("server { listen 443 ssl; root /www; }").contains("listen ="), "{found:?}");
}

#[test]
fn locations_within_another_stand_beside_it_where_that_is_the_same() {
    let text = text_of(
        "server { root /; location / { location = /sw.js { add_header X-A 1; try_files $uri =404; } \
         location ~ ^/(assets|packs)/ { add_header X-B 1; try_files $uri =404; } location /system/ { try_files $uri =404; } \
         proxy_pass http://127.0.0.1:3000; } location ^~ /streaming { proxy_pass http://127.0.0.1:4000; } }",
    );
    assert!(text.contains("Everything in it is carried over"), "{text}");
    for pattern in ["\"/sw.js\"", "{ regex = \"^/(assets|packs)/\" }", "\"/system/*\""] {
        let (_, route) = text.split_once(&format!("match = {pattern}\n")).expect(&text);
        let route = route.split("[[").next().unwrap_or_default();
        assert!(route.contains("proxy = false") && route.contains("try = [\"$path\"]"), "{route}");
    }
    for other in [
        "location / { location ~ x { expires 1d; } } location /b/ { expires 1h; }",
        "location ~ ^/a/ { location /a/b/ { expires 1d; } }",
    ] {
        let imported = nginx(&format!("server {{ root /; {other} }}"), FILES).unwrap();
        assert!(imported.lost.len() == 1 && imported.lost[0].words.contains("within another"), "{:?}", imported.lost);
    }
}

#[test]
fn the_error_log_is_carried_over() {
    let text = text_of(
        "error_log /var/log/nginx/error.log warn; server { root /; error_log /dev/stderr; access_log /dev/stdout; }",
    );
    for part in [
        "error_log = \"/var/log/nginx/error.log\"\nerror_log_level = \"warning\"",
        "log = \"-\"",
        "there is one error log",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn another_directory_of_a_location_is_an_alias() {
    let (sites, lost) = imported(
        "server { root ROOT/www; location /img/ { root ROOT/media; } location /media/ { alias ROOT/media/; } \
         location /x { root ROOT/media; } }",
    );
    let prefixes: Vec<&str> = sites[0].aliases.iter().map(|alias| &*alias.prefix).collect();
    assert_eq!(prefixes, ["/media/", "/img/", "/x/"]);
    assert!(sites[0].aliases[1].root.ends_with("media/img"), "{sites:?}");
    assert!(sites[0].aliases[2].root.ends_with("media/x"), "{sites:?}");
    assert!(lost.len() == 1 && lost[0].1.contains("`^/x[^/]`"), "{lost:?}");
    // What is in another directory there is not sent from that of the site.
    for location in ["= /a.txt", "~ ^/a", "/a"] {
        for other in ["root ROOT/media;", "alias ROOT/media/;"] {
            let text = text_of(&format!("server {{ root ROOT/www; location {location} {{ {other} }} }}"));
            let is_refused = text.contains("rewrite = \"/.denied\"");
            assert!(is_refused && text.contains(other.trim_end_matches(';')), "{location} {other}: {text}");
        }
    }
    let same = text_of("server { location / { root /www; } location = /50x.html { root /www; } }");
    assert!(same.contains("Everything in it is carried over") && !same.contains(".denied"), "{same}");
}

#[test]
fn folders_are_listed_where_all_are() {
    let lists = |server: &str| text_of(&format!("server {{ root /; {server} }}")).contains("browse = true");
    assert!(lists("autoindex on; location /a/ { expires 1d; }"));
    assert!(!lists("autoindex on; location /a/ { autoindex off; }"), "names that nobody is told there");
    assert!(!lists("location /a/ { autoindex on; }"));
}

#[test]
fn applications_are_asked_as_nginx_asks_them() {
    let text = text_of(
        "upstream app { server 10.0.0.1:3000 weight=2; server 10.0.0.2:3000; server unix:/run/spare.sock backup; keepalive 8; }\n\
         server { root /; proxy_read_timeout 5s;\n location / { proxy_pass http://app; proxy_set_header Host $host; }\n \
         location /one/ { proxy_pass http://127.0.0.1:9/one/; proxy_set_header X-Forwarded-For $remote_addr; }\n \
         location /f { fastcgi_pass 127.0.0.1:9000; include fastcgi_params; } location /files/ { expires 1d; } }",
    );
    assert!(text.contains("# Everything in it is carried over."), "{text}");
    let route = |title: &str| {
        let (_, route) = text.split_once(&format!("match = {title}\n")).unwrap_or_else(|| panic!("{title}: {text}"));
        route.split("\n\n").next().unwrap_or_default().to_owned()
    };
    let places = "[\"http://10.0.0.1:3000\", \"http://10.0.0.2:3000\", \"unix:/run/spare.sock\"]";
    let all = format!("proxy = {{ to = {places}, weights = [2, 1, 0], timeout_ms = 5000 }}");
    assert!(route("\"*\"").contains(&all), "{text}");
    // It is told another host unless it is said.
    let one = "proxy = { to = \"http://127.0.0.1:9\", host = \"127.0.0.1:9\", timeout_ms = 5000 }";
    assert!(route("\"/one/*\"").contains(one), "{text}");
    let fastcgi = "fastcgi = { to = \"127.0.0.1:9000\", timeout_ms = 5000, extensions = [] }";
    assert!(route("\"/f*\"").contains(fastcgi), "{text}");
    assert!(route("\"/files/*\"").contains("proxy = false"), "{text}");
}

#[test]
fn content_is_kept_where_nginx_says_so() {
    let text = text_of(
        "server { root /; client_body_buffer_size 16k;\n location / { proxy_pass http://a; proxy_request_buffering on; } \
         location /s/ { proxy_pass http://a; proxy_set_header Host $host; proxy_request_buffering off; } \
         location /f { fastcgi_pass 127.0.0.1:9; fastcgi_request_buffering on; client_body_buffer_size 1m; } }",
    );
    assert!(text.contains("# Everything in it is carried over."), "{text}");
    assert!(text.contains("proxy = { to = \"http://a\", host = \"a\", buffer = 16384 }"), "{text}");
    assert!(text.contains("proxy = \"http://a\"\n"), "{text}");
    assert!(text.contains("fastcgi = { to = \"127.0.0.1:9\", buffer = 1048576, extensions = [] }"), "{text}");
}

#[test]
fn answers_are_kept_where_nginx_keeps_them() {
    let imported = nginx(
        "proxy_cache_path /var/cache/nginx keys_zone=C:10m; server { root /; proxy_cache C;\n\
         location / { proxy_pass http://a; proxy_cache_valid 200 302 10m; proxy_cache_lock on; }\n\
         location /b/ { proxy_pass http://a; }\n location /c/ { proxy_pass http://a; proxy_cache off; proxy_cache_valid 404 1m; } }",
        FILES,
    )
    .unwrap();
    let (text, lost) = (imported.text, imported.lost);
    assert!(lost.len() == 1 && lost[0].words.contains("one time is for all statuses"), "{lost:?}");
    let of = |pattern: &str| {
        let (_, route) = text.split_once(&format!("match = {pattern}\n")).expect(&text);
        route.split("[[").next().unwrap_or_default().to_owned()
    };
    assert!(of("\"*\"").contains("cache = { fresh_s = 600 }") && of("\"/b/*\"").contains("cache = true"), "{text}");
    assert!(!of("\"/c/*\"").contains("cache"), "{text}");
    let scripts =
        "server { root /; location ~ \\.php$ { fastcgi_pass 127.0.0.1:9; fastcgi_cache C; fastcgi_cache_valid 1m; } }";
    let text = text_of(scripts);
    assert!(text.contains("fastcgi = \"127.0.0.1:9\"\ncache = { fresh_s = 60 }"), "{text}");
}

#[test]
fn a_prefix_is_taken_away_where_nginx_puts_another_in_its_place() {
    for (location, pass, keys) in [
        ("/app/", "http://127.0.0.1:3000/", "proxy = \"http://127.0.0.1:3000\"\nstrip_prefix = \"/app\""),
        ("/app/v1/", "http://127.0.0.1:3000/b/c/", "proxy = \"http://127.0.0.1:3000/b/c\"\nstrip_prefix = \"/app/v1\""),
        (
            "/app/",
            "http://unix:/run/a.sock:/",
            "proxy = { to = \"unix:/run/a.sock\", host = \"localhost\" }\nstrip_prefix = \"/app\"",
        ),
    ] {
        let source = format!("server {{ location {location} {{ proxy_set_header Host $host; proxy_pass {pass}; }} }}");
        let source = if pass.contains("unix:") { source.replace("proxy_set_header Host $host; ", "") } else { source };
        let text = text_of(&source);
        assert!(text.contains(keys), "{pass}: {text}");
        assert!(text.contains("restore_prefix = true"), "{text}");
    }
    // The location within has an application of its own, which is asked for the whole path.
    let text = text_of("server { location /app/ { proxy_pass http://a/; } location /app/b/ { proxy_pass http://b; } }");
    assert_eq!(text.matches("strip_prefix").count(), 1, "{text}");
}

#[test]
fn what_cannot_be_asked_is_not_served() {
    for (pass, why) in [
        ("proxy_pass https://b", "does not verify the certificate"),
        ("proxy_pass http://$b", "an address is written out"),
        ("proxy_pass http://b/c", "would be asked for `/c` in place of `/a/`"),
        ("proxy_pass http://unix:/run/b.sock:/c/", "would be asked for `/c/` in place of `/a/`"),
        ("grpc_pass b:1", "grpc is not spoken"),
        ("uwsgi_pass suwsgi://b:1", "no address of uwsgi"),
        ("scgi_pass b", "`b` "),
        ("fastcgi_pass https://b", "no address of FastCGI"),
    ] {
        let (sites, lost) = imported(&format!("server {{ root ROOT/www; location /a/ {{ {pass}; }} }}"));
        assert!(lost.iter().any(|(_, words)| words.contains("404")), "{pass}: {lost:?}");
        assert!(lost[0].1.contains(why), "{pass}: {lost:?}");
        let titles: Vec<String> = sites[0].routes.iter().map(|route| route.title()).collect();
        assert_eq!(titles, ["/a/*", "/a"], "{pass}: the slash is led to");
    }
}

#[test]
fn php_is_run_and_tried_and_without_it_no_script_is() {
    let server = |php: &str| {
        format!(
            "server {{ root /; index index.php index.html; location / {{ try_files $uri $uri/ /index.php?$args; }} \
             location ~ \\.php$ {{ include snippets/fastcgi-php.conf; {php} }} }}"
        )
    };
    let text = text_of(&server("fastcgi_pass unix:/run/php/php-fpm.sock;"));
    assert!(text.contains("# Not carried over:\n# line 1: paths that go on behind a script"), "{text}");
    assert_eq!(text.split("# Needs nothing here:").next().unwrap().matches("# line ").count(), 1, "{text}");
    assert!(text.contains("try = [\"$path\"]\nfastcgi = \"unix:/run/php/php-fpm.sock\""), "{text}");
    assert!(text.contains("try = [\"$path\", \"/index.php\"]") && text.contains("index = [\"index.php\", "), "{text}");
    let text = text_of(&server("fastcgi_pass $a;"));
    assert!(!text.contains("\"/index.php\"") && text.contains("rewrite = \"/.denied\""), "{text}");
}

#[test]
fn networks_that_are_let_in_are_carried_over_where_they_mean_the_same() {
    let access = |rules: &str| {
        let (sites, lost) = imported(&format!("server {{ root ROOT/www; location /a/ {{ {rules} }} }}"));
        let routes = sites[0].routes.iter().map(lamna_config::route::render).collect::<String>();
        let line = routes.lines().find(|line| line.starts_with("access") || line.starts_with("rewrite"));
        (line.unwrap_or_default().to_owned(), lost.len())
    };
    let allowed = "allow = [\"10.0.0.0/8\", \"192.0.2.1/32\"]";
    let (line, lost) = access("deny 10.1.0.0/16; allow 10.0.0.0/8; allow 192.0.2.1; deny all;");
    assert!(line.contains(allowed) && line.contains("deny = [\"10.1.0.0/16\"]") && lost == 0, "{line}");
    let (line, lost) = access("deny 192.0.2.0/24;");
    assert!(line.contains("deny = [\"192.0.2.0/24\"]") && !line.contains("allow") && lost == 0, "{line}");
    assert_eq!(access("allow all;"), (String::new(), 0));
    assert_eq!(access("deny all;"), ("rewrite = \"/.denied\"".to_owned(), 0));
    for other in ["allow 10.0.0.1; deny 10.0.0.0/8;", "allow unix:; deny all;"] {
        let (line, lost) = access(other);
        assert!(line == "rewrite = \"/.denied\"" && lost > 0, "{other}: {line}");
    }
    let (sites, lost) =
        imported("http { allow 10.0.0.0/8; deny all; server { root ROOT/www; location /a/ { allow all; } } }");
    assert_eq!(lost, []);
    let site = lamna_config::render(&lamna_config::settings::Settings { sites, ..Default::default() });
    assert!(site.contains("allow = [\"10.0.0.0/8\"]") && site.contains("anyone = true"), "{site}");
}

#[test]
fn services_that_say_who_is_let_in_are_carried_over() {
    let (sites, lost) = imported(
        r#"http { upstream app { server 10.0.0.1:80; } server {
    root ROOT/www;
    auth_request /verify;
    auth_request_set $user $upstream_http_remote_user;
    location / { proxy_pass http://app; proxy_set_header Remote-User $user; }
    location /open/ { auth_request off; }
    location /office/ { allow 10.0.0.0/8; deny all; }
    location = /verify {
        internal;
        proxy_pass http://127.0.0.1:9091/api/verify;
        proxy_pass_request_body off;
        proxy_set_header Content-Length "";
        proxy_set_header X-Original-URI $request_uri;
    }
} }"#,
    );
    assert_eq!(lost, []);
    let routes: Vec<String> = sites[0].routes.iter().map(|route| format!("{:?}", route.access)).collect();
    let of = |path: &str| {
        let at = sites[0].routes.iter().position(|route| route.title().contains(path)).expect(path);
        routes[at].clone()
    };
    let text = lamna_config::render(&lamna_config::settings::Settings { sites: sites.clone(), ..Default::default() });
    assert!(text.contains("path = \"/api/verify\"") && text.contains("fields = [\"Remote-User\"]"), "{text}");
    assert!(of("/open/").contains("Anyone"), "{text}");
    assert!(of("/office/").contains("api/verify") && of("/office/").contains("allow: [Network"), "{text}");
    assert!(text.contains("/.denied"), "nobody else asks the location: {text}");
}

#[test]
fn a_service_that_cannot_be_asked_lets_nobody_in() {
    for (location, why) in [
        ("", "there is no location"),
        ("location = /verify { return 200; }", "passes no request on"),
        ("location = /verify { proxy_pass https://a; }", "does not verify"),
        ("location = /verify { proxy_pass http://a$is_args; }", "written out"),
    ] {
        let text = text_of(&format!("server {{ root /; location /in/ {{ auth_request /verify; }} {location} }}"));
        assert!(text.contains(why) && text.contains("rewrite = \"/.denied\""), "{location}: {text}");
    }
    // A password that is not asked for any more does not let other networks in.
    let text = text_of("server { root /; allow 10.0.0.0/8; deny all; location /open/ { auth_basic off; } }");
    assert!(!text.contains("anyone"), "{text}");
}

#[test]
fn what_is_restricted_for_all_sites_is_not_served() {
    let text = text_of("http { auth_basic x; auth_basic_user_file gone; server { root /; } }");
    assert!(text.contains("cannot be read") && text.contains("rewrite = \"/.denied\""), "{text}");
}

#[test]
fn how_fast_answers_are_sent_is_carried_over_where_it_means_the_same() {
    let speeds = |text: &str| {
        let (sites, lost) = imported(&format!("server {{ root ROOT/www; {text} }}"));
        let speed = |one: &lamna_config::site_limit::SiteLimit| (one.path.clone(), one.bandwidth.unwrap().to_string());
        (sites[0].limits.iter().map(speed).collect::<Vec<_>>(), lost.len())
    };
    let one = |path: &str, text: &str| vec![(path.to_owned(), text.to_owned())];
    assert_eq!(speeds("limit_rate 500k; limit_rate_after 5m;"), (one("/", "500KiB/s after 5MiB"), 0));
    assert_eq!(speeds("location /v/ { limit_rate 1m; }"), (one("/v/", "1MiB/s"), 0));
    assert_eq!(speeds("limit_rate 1m; location /v/ { limit_rate 0; }"), (vec![], 1));
    assert_eq!(speeds("limit_rate 100;"), (vec![], 1));
    assert_eq!(speeds("limit_conn a 10;"), (vec![], 1));
}

#[test]
fn limits_of_requests_are_carried_over_where_they_mean_the_same() {
    let zones = "limit_req_zone $binary_remote_addr zone=a:10m rate=10r/s; limit_req_zone $uri zone=b:1m rate=1r/s;\n";
    let rates = |text: &str| {
        let (sites, lost) = imported(&format!("http {{ {zones} server {{ root ROOT/www;\n{text} }} }}"));
        let rates: Vec<_> =
            sites[0].limits.iter().map(|one| (one.path.clone(), one.rate.unwrap().to_string())).collect();
        (rates, lost.into_iter().filter(|(line, _)| *line > 1).map(|(line, _)| line).collect::<Vec<_>>())
    };
    let limit = |path: &str, rate: &str| vec![(path.to_owned(), rate.to_owned())];
    let (login, none) = ("limit_req zone=a burst=4 nodelay;", Vec::<usize>::new());
    assert_eq!(rates("limit_req zone=a;"), (limit("/", "10/s burst 1"), none.clone()));
    assert_eq!(rates(&format!("location /login {{ {login} }}")), (limit("/login", "10/s burst 5"), none));
    // The delay is said to be none, and the limit stands.
    assert_eq!(rates("limit_req zone=a burst=4;"), (limit("/", "10/s burst 5"), vec![3]));
    // Another location is beneath it; a zone counts something else, or is not there.
    assert_eq!(rates(&format!("location / {{ {login} }} location /a/ {{ expires 1h; }}")), (vec![], vec![3]));
    assert_eq!(
        rates(&format!("limit_req zone=a; location /a/ {{\n{login} }}")),
        (limit("/a/", "10/s burst 5"), vec![3])
    );
    assert_eq!(rates("limit_req zone=b;\nlimit_req zone=c;"), (vec![], vec![3, 4]));
}

#[test]
fn what_is_no_configuration_of_nginx_is_refused_at_its_line() {
    for (text, line) in [
        ("server {\n root /a\n}", 2),
        ("server {\n root /a;\n", 1),
        ("}\n", 1),
        ("server {\n root \"a;\n}", 2),
        ("a b", 1),
        ("\n", 1),
    ] {
        assert_eq!(nginx(text, FILES).unwrap_err().line, line, "{text}");
    }
}

#[test]
fn repetitions_in_expressions_are_no_blocks() {
    let (sites, lost) =
        imported("server { root ROOT/www; location ~ \"^/[a-z]{2}/$\" { expires 1h; } rewrite ^/y[0-9]{4}$ /y last; }");
    assert_eq!((lost, sites[0].routes.len()), (Vec::new(), 2));
}

proptest::proptest! {
    #[test]
    fn any_text_is_imported_or_refused(text in "([a-z$/~^=*. ]{0,8}|[{};\"'\\\\#\n]|server |location |rewrite |return 301 ){0,24}") {
        let _ = nginx(&text, FILES);
    }
}

#[test]
fn passwords_are_carried_over_where_their_hashes_can_be_checked() {
    let site = |inner: &str| imported(&format!("server {{ root ROOT/www;\n{inner} }}"));
    let (sites, lost) = site("auth_basic x; auth_basic_user_file a;\nlocation /open/ { auth_basic off; }");
    let names: Vec<&String> = sites[0].accounts.users.keys().collect();
    assert_eq!(names, ["ada", "ivy"]);
    let text = lamna_config::render(&lamna_config::settings::Settings { sites: sites.clone(), ..Default::default() });
    assert!(text.contains("users = [\"ada\", \"ivy\"]") && text.contains("anyone = true"), "{text}");
    let words: Vec<&str> = lost.iter().map(|(_, words)| &**words).collect();
    assert_eq!(lost.len(), 4, "{words:?}");
    assert!(words.iter().any(|one| one.contains("the realm of `auth_basic x`")), "{words:?}");
    for (number, name, kind) in [(3, "bob", "bcrypt"), (4, "eve", "apr1"), (5, "zoe", "no hash")] {
        let said = format!("`{name}` in line {number} of `a`");
        assert!(words.iter().any(|one| one.starts_with(&said) && one.contains(kind)), "{name}: {words:?}");
    }
    assert!(words.iter().all(|one| !one.contains("abc")), "no hash is said: {words:?}");
    // With networks as well, both are asked for.
    let (sites, _) = site("allow 10.0.0.0/8; deny all; auth_basic x; auth_basic_user_file a;");
    let text = lamna_config::render(&lamna_config::settings::Settings { sites, ..Default::default() });
    assert!(text.contains("users = [\"ada\", \"ivy\"]") && text.contains("allow = [\"10.0.0.0/8\"]"), "{text}");
    // Where no user is left, or the same name has two passwords, no client is let in.
    for denied in
        ["auth_basic x; auth_basic_user_file old;", "auth_basic x; auth_basic_user_file gone;", "auth_basic x;"]
    {
        assert!(text_of(&format!("server {{ root /; {denied} }}")).contains("/.denied"), "{denied}");
    }
    let two = "server { root /; auth_basic x; auth_basic_user_file a; location /b/ { auth_basic_user_file ada; } }";
    assert!(text_of(two).contains("has another password elsewhere") && text_of(two).contains("/.denied"));
}

#[test]
fn connections_are_limited_where_all_sites_have_the_same_limit() {
    let zones = "limit_conn_zone $binary_remote_addr zone=a:1m; limit_conn_zone $server_name zone=b:1m;\n";
    let of = |text: &str| text_of(&format!("http {{ {zones} {text} }}"));
    let (here, other) = ("server { root /;", "server { server_name b; root /;");
    assert!(of(&format!("limit_conn a 20; {here} }} {other} }}")).contains("\nconnection_limit = 20\n"));
    assert!(of(&format!("{here} limit_conn a 20; }}")).contains("idle connections out: here they count"));
    let lost = [
        format!("{here} limit_conn a 20; }} {other} }}"),
        format!("{here} limit_conn b 20; }}"),
        format!("{here} location / {{ limit_conn a 20; }} }}"),
    ];
    for text in lost {
        let text = of(&text);
        assert!(!text.contains("connection_limit =") && text.contains("`limit_conn "), "{text}");
    }
}
