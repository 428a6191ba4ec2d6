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
