//! Configurations of HAProxy as they are written, and what comes of them.

use crate::asked::Asked;
use crate::{Files, haproxy};

/// The text that comes of a configuration.
fn imported(text: &str) -> String {
    let read = |path: &str| match path {
        "/etc/haproxy/hosts.map" => Ok("a.example app\nb.example.org api\n".to_owned()),
        "/etc/haproxy/office.lst" => Ok("# office\n10.0.0.0/8\n".to_owned()),
        _ => Err("no such file".to_owned()),
    };
    let files = Files { read: &read, list: &|_| Vec::new() };
    haproxy(text, files).unwrap_or_else(|note| panic!("{text}: {note:?}")).text
}

/// A frontend with these lines, and backends `app`, `api` and `static`.
pub(super) fn front(lines: &str) -> String {
    imported(&format!(
        "defaults\n mode http\nfrontend web\n bind :80\n{lines}\n default_backend app\nbackend app\n server a 127.0.0.1:3000\n\
         backend api\n server a 127.0.0.1:3001\nbackend static\n server a 127.0.0.1:3002\n"
    ))
}

/// The place that answers a request, or the status, or where it is led.
pub(super) fn answer(text: &str, asked: Asked<'_>, host: &str) -> String {
    asked.place(text, host)
}

#[test]
fn a_usual_configuration_is_carried_over() {
    let text = imported(
        r#"
global
    log /dev/log local0
    maxconn 4096
    user haproxy
    daemon
defaults
    log global
    mode http
    option httplog
    option forwardfor
    timeout connect 5s
    timeout client 50s
    timeout server 1m
frontend web
    bind *:80
    bind *:443 ssl crt /etc/haproxy/example.pem alpn h2,http/1.1
    http-request redirect scheme https code 301 unless { ssl_fc }
    acl is_api path_beg /api/
    acl is_static path_end .css .js
    acl is_office src 10.0.0.0/8
    http-request deny if { path_beg /admin } !is_office
    http-response set-header Strict-Transport-Security "max-age=31536000"
    use_backend api if is_api
    use_backend static if is_static
    default_backend app
backend app
    balance roundrobin
    option httpchk GET /health
    http-check expect status 200
    server a 10.0.0.1:8080 check weight 2
    server b 10.0.0.2:8080 check
    server c 10.0.0.3:8080 check backup
backend api
    balance source
    http-request set-header X-Real-IP %[src]
    http-request replace-path /api/(.*) /\1
    server a 10.0.1.1:8443 ssl verify none
    server b 10.0.1.2:8443 ssl verify none
backend static
    server a 10.0.2.1:80
"#,
    );
    for expected in [
        "certificate = \"/etc/haproxy/example.pem\"",
        "weights = [2, 1, 0]",
        "check = { path = \"/health\", status = [200] }",
        "sticky = \"client\"",
        "strip_prefix = \"/api\"",
        "verify = false",
        "body_timeout_ms = 50000",
        "timeout_ms = 60000",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains("redirect = false"), "{text}");
    for (path, client, expected) in [
        ("/", "192.0.2.7", "10.0.0.1:8080"),
        ("/api/a", "192.0.2.7", "https://10.0.1.1:8443"),
        ("/api", "192.0.2.7", "10.0.0.1:8080"),
        ("/a.css", "192.0.2.7", "10.0.2.1:80"),
        ("/admin/x", "192.0.2.7", "403"),
        ("/admin/x", "10.1.2.3", "10.0.0.1:8080"),
    ] {
        assert_eq!(answer(&text, Asked { client, ..Asked::of(path) }, ""), expected, "{path} {text}");
    }
}

#[test]
fn the_first_rule_that_fits_counts() {
    let text = front(
        " acl a hdr(host) -i a.example\n acl b hdr_end(host) .example.org\n redirect prefix https://www.example.com code 301 if { path /old }\n \
         http-request return status 200 content-type text/plain string \"up\" if { path /up }\n use_backend api if a { path_beg /v1 } or b\n \
         use_backend static if a",
    );
    for (path, host, expected) in [
        ("/v1/x", "a.example", "127.0.0.1:3001"),
        ("/x", "a.example", "127.0.0.1:3002"),
        ("/x", "x.example.org", "127.0.0.1:3001"),
        ("/x", "example.org", "127.0.0.1:3000"),
        ("/old", "a.example", "to https://www.example.com$path"),
        ("/up", "a.example", "200"),
    ] {
        assert_eq!(answer(&text, Asked::of(path), host), expected, "{path} {host} {text}");
    }
}

#[test]
fn refusals_are_for_the_same_requests_or_for_more() {
    for (lines, path, fields, client, expected) in [
        (" http-request deny if { path_beg /a } { fc_http_major 2 }", "/a", "", "192.0.2.7", "403"),
        (" http-request deny if { path_beg /a } { fc_http_major 2 }", "/b", "", "192.0.2.7", "127.0.0.1:3000"),
        (" http-request deny unless { src -f /etc/haproxy/office.lst }", "/", "", "10.1.1.1", "127.0.0.1:3000"),
        (" http-request deny unless { src -f /etc/haproxy/office.lst }", "/", "", "192.0.2.7", "403"),
        (" http-request deny unless { src -f /gone }", "/", "", "192.0.2.7", "403"),
        (" http-request deny if !{ path_beg /pub /api }", "/pub/x", "", "192.0.2.7", "127.0.0.1:3000"),
        (" http-request deny if !{ path_beg /pub /api }", "/pu", "", "192.0.2.7", "403"),
        (" http-request deny if { path_reg ^/x.*\\.php$ }", "/x/a.php\n", "", "192.0.2.7", "403"),
        (" http-request deny if { lua.bad }", "/", "", "192.0.2.7", "403"),
        (" http-request deny if no_such_list", "/", "", "192.0.2.7", "403"),
        (
            " http-request deny deny_status 429 if { sc_http_req_rate(0) gt 100 }",
            "/",
            "",
            "192.0.2.7",
            "127.0.0.1:3000",
        ),
        (" http-request allow if { path_beg /pub }\n http-request deny", "/pub", "", "192.0.2.7", "127.0.0.1:3000"),
        (" http-request allow if { path_beg /pub }\n http-request deny", "/x", "", "192.0.2.7", "403"),
        (
            " http-request allow if { path_beg /pub } { fc_rtt gt 1 }\n http-request deny",
            "/pub",
            "",
            "192.0.2.7",
            "403",
        ),
        (" use_backend api if { var(txn.x) -m found }", "/", "", "192.0.2.7", "404"),
        (" use_backend api if { nbsrv(app) lt 1 }", "/", "", "192.0.2.7", "127.0.0.1:3000"),
        (" http-request deny if { hdr_sub(user-agent) -i curl }", "/", "User-Agent: Curl/8\r\n", "192.0.2.7", "403"),
        (" http-request deny if !{ hdr(x-key) -m found }", "/", "", "192.0.2.7", "403"),
        (" http-request deny if !{ hdr(x-key) -m found }", "/", "X-Key: 1\r\n", "192.0.2.7", "127.0.0.1:3000"),
        (" redirect location /login if !{ cook(session) -m found }", "/", "", "192.0.2.7", "to /login"),
        (
            " redirect location /login if !{ cook(session) -m found }",
            "/",
            "Cookie: a=b; session=1\r\n",
            "192.0.2.7",
            "127.0.0.1:3000",
        ),
        (" tcp-request connection reject if !{ src 10.0.0.0/8 }", "/", "", "192.0.2.7", "403"),
        (" block if { path_dir cgi-bin }", "/x/cgi-bin/y", "", "192.0.2.7", "403"),
        (" http-request set-path /x%[path] if { path_beg /a }", "/a", "", "192.0.2.7", "404"),
        (" reqideny ^.*/secret", "/", "", "192.0.2.7", "403"),
    ] {
        let text = front(lines);
        assert_eq!(answer(&text, Asked { client, fields, ..Asked::of(path) }, ""), expected, "{lines} {path}: {text}");
    }
}

#[test]
fn passwords_are_asked_for_where_their_hashes_can_be_checked() {
    let list = "userlist staff\n group ops users ada\n user ada password $5$abcdefgh$ZLdkj8mkc2XVSrPVjskDAgZPGjtj1VGVaa1aUkrMTU/\n \
                user eve insecure-password secret\n";
    let text = front(&format!(" http-request auth realm x if {{ path_beg /in }} !{{ http_auth(staff) }}\n{}", ""));
    assert!(text.contains("access = \"deny\""), "{text}");
    let text = imported(&format!(
        "{list}defaults\n mode http\nfrontend web\n bind :80\n acl ok http_auth(staff)\n http-request auth realm x if {{ path_beg /in }} !ok\n \
         default_backend app\nbackend app\n server a 127.0.0.1:3000\n"
    ));
    assert!(text.contains("access = { users = [\"ada\"] }"), "{text}");
    assert!(!text.contains("secret") && text.contains("the user `eve` has a password"), "{text}");
}

#[test]
fn backends_have_their_own_rules_and_leave_others_alone() {
    let text = imported(
        "defaults\n mode http\nfrontend web\n bind :80\n use_backend api if { path_beg /api }\n default_backend app\n\
         backend api\n http-request deny if { method POST }\n http-request set-header X-A 1\n http-request del-header X-B\n \
         http-response del-header Server\n http-response set-header X-C 2\n server a 127.0.0.1:3001\n\
         backend app\n http-request set-header X-D 3 if { path_beg /d }\n http-request auth unless { http_auth(l) }\n server a 127.0.0.1:3000\n",
    );
    assert_eq!(answer(&text, Asked::of("/api/x"), ""), "127.0.0.1:3001");
    for expected in [
        "set = { \"X-A\" = \"1\" }, remove = [\"X-B\"], keep = [\"X-D\"]",
        "set = { \"X-C\" = \"2\" }",
        "access = \"anyone\"",
        "access = \"deny\"",
        "keep = [\"X-A\", \"X-B\"]",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn the_last_rule_about_a_field_counts() {
    let text = front(
        " http-request set-header X-A 1 if { path_beg /p }\n http-request set-header X-A 2\n http-request set-header X-B 3\n \
         http-request del-header X-B if { path_beg /p }",
    );
    assert!(!text.contains("\"X-A\" = \"1\"") && text.contains("\"X-A\" = \"2\""), "{text}");
    let [removed, set] = ["remove = [\"X-B\"]", "\"X-B\" = \"3\""].map(|one| text.find(one));
    assert!(removed.is_some() && removed < set, "{text}");
}

#[test]
fn backends_are_found_in_a_map_of_hosts() {
    let text = front(" use_backend %[req.hdr(host),lower,map(/etc/haproxy/hosts.map,static)]");
    for (host, expected) in [("b.example.org", "3001"), ("a.example", "3000"), ("c.example", "3002")] {
        assert_eq!(answer(&text, Asked::of("/"), host), format!("127.0.0.1:{expected}"), "{host} {text}");
    }
    let text = front(" use_backend %[req.hdr(host),lower,map(/gone)]");
    assert_eq!(answer(&text, Asked::of("/"), "a.example"), "503", "{text}");
}

#[test]
fn one_frontend_is_the_site_and_the_others_are_named() {
    let text = imported(
        "defaults\n mode http\nfrontend clear\n bind :80\n redirect scheme https code 301 if !{ ssl_fc }\nfrontend secure\n bind :443 ssl crt /a.pem\n \
         default_backend app\nlisten db\n mode tcp\n bind :3306\n server a 127.0.0.1:3307\nlisten admin\n bind 127.0.0.1:9000\n server a 127.0.0.1:9001\n\
         backend app\n server a 127.0.0.1:3000\n",
    );
    assert!(text.contains("listen = [\"0.0.0.0:443\", \"0.0.0.0:80\"]"), "{text}");
    for expected in
        ["`listen db` and all that it says", "`listen admin` and all that it says", "`frontend clear` and all"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains("9001") && !text.contains("9000\""), "{text}");
    // Nothing is served in clear text that was served over TLS.
    let text = imported(
        "defaults\n mode http\nfrontend web\n bind :443 ssl crt /no/such/folder/\n bind 127.0.0.1:80\n default_backend app\nbackend app\n server a 127.0.0.1:1\n",
    );
    assert!(!text.contains("0.0.0.0:443\""), "{text}");
}

#[test]
fn every_line_is_carried_over_or_named() {
    let files = Files { read: &|_| Err("no such file".into()), list: &|_| Vec::new() };
    for line in [
        "http-request frobnicate",
        "frob x",
        "option frob",
        "bind :81 frob",
        "server x 127.0.0.1:4 frob",
        "errorfile 503 /x",
        "stats enable",
        "acl never path /x",
        "timeout frob 3s",
    ] {
        let text = format!("defaults\n mode http\nlisten web\n bind :80\n {line}\n server a 127.0.0.1:3000\n");
        let imported = haproxy(&text, files).unwrap();
        let named = imported.lost.iter().chain(&imported.needless).any(|note| note.line == 5);
        assert!(named, "{line}: {}", imported.text);
    }
}

#[test]
fn no_refusal_is_lost_by_what_is_accepted_before_or_a_state_of_the_server() {
    let many = |number| format!(" http-request allow if {{ src 10.0.0.{number} }} {{ path /p{number} }}\n");
    let many = (0..7).map(many).collect::<String>() + " http-request deny if { path_beg /x }";
    for (lines, path, client, expected) in [
        (
            " tcp-request connection accept if { src 10.0.0.0/8 }\n tcp-request content reject if { src 10.1.0.0/16 }",
            "/",
            "10.1.2.3",
            "403",
        ),
        (
            " tcp-request content accept if { src 10.0.0.0/8 }\n tcp-request content reject if { src 10.1.0.0/16 }",
            "/",
            "10.1.2.3",
            "127.0.0.1:3000",
        ),
        (" tcp-request content accept if { src 10.0.0.0/8 }\n http-request deny", "/", "10.1.2.3", "403"),
        (" http-request deny if !{ src 10.0.0.0/8 } !{ src_get_gpc0 gt 0 }", "/", "192.0.2.7", "403"),
        (" http-request deny if !{ src 10.0.0.0/8 } !{ src_get_gpc0 gt 0 }", "/", "10.1.2.3", "127.0.0.1:3000"),
        (" http-request deny if { src_get_gpc0 eq 0 }", "/", "192.0.2.7", "403"),
        (" http-request deny unless { src_get_gpc0 gt 0 }", "/", "192.0.2.7", "403"),
        (" http-request allow if { src_get_gpc0 gt 0 }\n http-request deny", "/", "192.0.2.7", "403"),
        (" http-request deny if { nbsrv(app) gt 0 }", "/", "192.0.2.7", "403"),
        (" http-request deny if { date gt 0 }", "/", "192.0.2.7", "403"),
        (" http-request deny if { src_http_req_rate gt 100 }", "/", "192.0.2.7", "127.0.0.1:3000"),
        (" http-request deny if { nbsrv(app) lt 1 }", "/", "192.0.2.7", "127.0.0.1:3000"),
        (&many, "/x", "10.0.0.0", "403"),
    ] {
        let text = front(lines);
        let asked = Asked { client, ..Asked::of(path) };
        assert_eq!(answer(&text, asked, "a.example"), expected, "{lines} {path} {client}: {text}");
    }
}
