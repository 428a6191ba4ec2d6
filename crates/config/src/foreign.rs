//! Keys of other servers, in the words of this configuration.
//!
//! Owns: the list, and the advice for each key. A key of nginx, Caddy, Apache or HAProxy that is written into a
//! configuration of Lamna is answered with the key that does the same here, or with what there is instead.

/// Keys of other servers, and the advice for each.
const FOREIGN: &[(&[&str], &str)] = &[
    (
        &["gzip", "gzip_types", "gzip_static", "brotli", "zstd", "encode", "compression", "mod_deflate"],
        "text is compressed unless that is switched off: `compress` at the top of the file says into which codings; answers of \
         applications are with filters = [\"compress\"] on a route",
    ),
    (
        &["proxy_pass", "reverse_proxy", "proxypass", "upstream", "backend", "default_backend"],
        "requests are passed on by `proxy` on a route, as in route = [{ match = \"/*\", proxy = \"http://127.0.0.1:3000\" }]",
    ),
    (
        &["proxy_set_header", "header_up", "request_header", "fastcgi_param"],
        "fields of what an application is sent are `request_headers` on a route, as in request_headers = { X-Real-IP = \"$client\" }",
    ),
    (
        &["ip_hash", "least_conn", "balance", "lb_policy", "sticky_session"],
        "the less busy of two places is asked; clients are kept to one by the key sticky in the table of `proxy`, as in \
         proxy = { to = [...], sticky = \"client\" }",
    ),
    (
        &["fastcgi_pass", "php_fastcgi", "php"],
        "PHP is run by `fastcgi` on a route, as in route = [{ match = \"/*\", fastcgi = \"unix:/run/php/php-fpm.sock\" }]",
    ),
    (
        &["uwsgi_pass", "scgi_pass"],
        "applications are asked over uwsgi (`uwsgi`) and SCGI (`scgi`) on a route, as in uwsgi = \"unix:/run/app.sock\"",
    ),
    (&["grpc_pass"], "applications are asked over HTTP/1.1 (`proxy`), FastCGI, SCGI or uwsgi, on a route"),
    (
        &["server_name", "servername", "serveralias", "server_alias", "host", "hostname", "domain", "domains"],
        "a site says its names as hosts = [\"example.com\", \"www.example.com\"]",
    ),
    (&["server", "virtualhost", "vhost", "sites"], "a site is a table [[site]]"),
    (
        &["location", "handle", "handle_path", "directory_match", "routes"],
        "rules for some paths are tables [[site.route]], with `match` for the paths",
    ),
    (
        &["document_root", "documentroot", "docroot", "www", "directory", "dir", "path_root"],
        "the directory of a site is its `root`",
    ),
    (
        &["try_files", "fallbackresource"],
        "paths that are tried in turn are `try` on a route, as in try = [\"$path\", \"/index.html\"]",
    ),
    (
        &["return", "redir", "redirects", "rewriterule"],
        "a route leads elsewhere with `redirect`, answers with `respond`, and looks for another path with `rewrite`",
    ),
    (
        &["autoindex", "file_server", "listing", "dirlist", "directory_listing"],
        "files of `root` are served by themselves; directories are listed with browse = true",
    ),
    (&["directoryindex", "index_files"], "files for a directory are index = [\"index.html\"]"),
    (
        &["add_header", "header", "more_set_headers"],
        "fields of answers are `headers` of a site or route, as in headers = { X-Frame-Options = \"DENY\" }",
    ),
    (
        &["expires", "cache_control"],
        "how long caches keep files is headers = { Cache-Control = \"max-age=3600\" }, or immutable = true for names with a hash",
    ),
    (
        &["proxy_cache", "proxy_cache_valid", "proxy_cache_path", "fastcgi_cache"],
        "answers of an application are kept with cache = true on its route",
    ),
    (
        &["error_page", "errordocument", "handle_errors"],
        "pages for errors are error_pages = { \"404\" = \"/404.html\" }",
    ),
    (
        &["auth_basic", "auth_basic_user_file", "basic_auth", "basicauth", "htpasswd", "authuserfile", "require"],
        "who may read is `access` of a site or route, with the names of `users` or of `users_file`",
    ),
    (&["allow", "deny", "satisfy"], "networks are let in by access = { allow = [\"10.0.0.0/8\"] } of a site or route"),
    (
        &["ssl", "ssl_certificate", "ssl_certificate_key", "sslcertificatefile", "ssl_cert", "cert", "tls_cert", "crt"],
        "TLS is `certificate` and `key` of a site, or tls = \"auto\" for one that is ordered",
    ),
    (
        &["ssl_protocols", "ssl_ciphers", "ciphers"],
        "TLS 1.2 and 1.3 are spoken, with the suites that are safe; there is nothing to choose",
    ),
    (
        &["letsencrypt", "auto_https", "certbot", "email", "tls_email"],
        "certificates are ordered with tls = \"auto\" of a site; `acme_contact` at the top of the file is the address for the authority",
    ),
    (
        &["http2", "http3", "quic", "protocols"],
        "HTTP/2 is spoken over TLS by itself, and in clear text with h2c = true; there is no HTTP/3",
    ),
    (
        &["port", "ports", "bind", "address", "addresses"],
        "where to listen is listen = [\"0.0.0.0:443\", \"0.0.0.0:80\"] at the top of the file",
    ),
    (
        &["worker_processes", "worker_connections", "nbthread", "threads_per_child"],
        "`workers` at the top of the file is how many workers serve; connections are bounded by memory and descriptors",
    ),
    (
        &["client_max_body_size", "max_body_size", "request_body", "limitrequestbody"],
        "bytes of content for an application are in the table of `proxy`, as in proxy = { to = \"http://127.0.0.1:3000\", body_bytes_max = \"64 MiB\" }; those of uploads are `upload_bytes_max`",
    ),
    (
        &["limit_req", "limit_req_zone", "rate_limit", "ratelimit", "limit_conn"],
        "requests of a client are bounded by `request_limit` at the top of the file and by tables [[site.limit]]; connections by `connection_limit`",
    ),
    (
        &["access_log", "accesslog", "customlog", "log_file", "logging"],
        "the access log is `log` at the top of the file",
    ),
    (&["error_log", "errorlog", "log_level", "loglevel"], "`error_log` at the top of the file is where messages go"),
    (
        &["keepalive_timeout", "timeout", "timeouts"],
        "times are in the table [limits], as in idle_timeout_ms = 75000: lamna check prints them all; those of applications are timeout_ms in the table of `proxy`",
    ),
    (
        &["set_real_ip_from", "real_ip_header", "forwarded_headers", "remoteip"],
        "proxies whose word counts are trusted_proxies = [\"10.0.0.1\"] at the top of the file",
    ),
    (
        &["cors_origins", "access_control_allow_origin", "allow_origin"],
        "other origins read what `cors` of a route says",
    ),
    (
        &["user", "group", "daemon", "pid"],
        "a server that is started by root says `user`; it stays in the foreground, for a service manager",
    ),
    (
        &["include", "import", "snippet"],
        "a configuration is one file; what several routes share is said once by a route with a wider `match`",
    ),
];

/// The advice for `key`, if it is one of another server's.
pub(super) fn advice(key: &str) -> Option<&'static str> {
    let key = key.to_ascii_lowercase().replace('-', "_");
    FOREIGN.iter().find(|(names, _)| names.contains(&&*key)).map(|(_, advice)| *advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::KEYS;

    #[test]
    fn a_key_of_another_server_is_answered_with_ours() {
        assert!(advice("proxy_pass").unwrap().contains("`proxy`"));
        assert!(advice("Gzip").unwrap().contains("`compress`"));
        assert!(advice("server-name").unwrap().contains("hosts"));
        assert_eq!(advice("root"), None);
    }

    #[test]
    fn names_stand_once_and_the_advice_names_keys_that_there_are() {
        let mut names: Vec<&str> = FOREIGN.iter().flat_map(|(names, _)| *names).copied().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        let known: Vec<&str> = KEYS.iter().flat_map(|(_, keys)| keys.iter().copied()).collect();
        for (_, advice) in FOREIGN {
            for quoted in advice.split('`').skip(1).step_by(2) {
                assert!(known.contains(&quoted), "`{quoted}` is no key: {advice}");
            }
        }
    }
}
