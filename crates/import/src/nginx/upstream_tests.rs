//! Upstreams of nginx, and which of their places a client gets to.

use super::tests::text_of;

#[test]
fn clients_get_to_the_same_place_as_with_nginx() {
    for (says, sticky) in [
        ("ip_hash", Some("\"client\"")),
        ("hash $binary_remote_addr consistent", Some("\"client\"")),
        ("hash $cookie_JSESSIONID", Some("{ cookie = \"JSESSIONID\" }")),
        ("hash $http_x_user consistent", Some("{ header = \"x-user\" }")),
        ("hash $request_uri", None),
        ("least_conn", None),
    ] {
        let text = text_of(&format!(
            "upstream app {{ {says}; server 10.0.0.1:1; server 10.0.0.2:1; }}\nserver {{ location / {{ proxy_pass http://app; }} }}"
        ));
        let found = text.split_once("sticky = ").map(|(_, rest)| rest);
        assert_eq!(found.is_some(), sticky.is_some(), "{says}: {text}");
        assert!(sticky.is_none_or(|sticky| found.unwrap().starts_with(sticky)), "{says}: {text}");
        assert!(says != "hash $request_uri" || text.contains("`hash $request_uri`"), "{text}");
    }
}

#[test]
fn answers_that_nginx_keeps_apart_are_not_kept() {
    for (says, is_kept) in [
        ("", true),
        ("proxy_cache_key $scheme$proxy_host$request_uri;", true),
        ("proxy_cache_key \"$uri$http_x_token\";", false),
        ("proxy_no_cache $http_x_private;", false),
        ("proxy_cache_bypass $cookie_session;", false),
    ] {
        let text = text_of(&format!(
            "server {{ location / {{ proxy_pass http://a:1; proxy_cache c; proxy_cache_valid 1m; {says} }} }}"
        ));
        assert_eq!(text.contains("cache = "), is_kept, "{says}: {text}");
        assert!(is_kept || text.contains(says.trim_end_matches(';').split(' ').next().unwrap()), "{says}: {text}");
    }
}
