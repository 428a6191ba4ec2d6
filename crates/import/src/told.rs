//! Request fields that another server writes in the place of what a client says in them.
//!
//! Owns: for which of them an application may take a client's word now. Pure.

/// Fields that say nothing of who a client is or what it may do, or that this server takes out of a request or writes
/// itself.
const PLAIN: [&str; 40] = [
    "authorization",
    "cache-control",
    "connection",
    "cookie",
    "date",
    "dnt",
    "early-data",
    "expect",
    "forwarded",
    "front-end-https",
    "host",
    "keep-alive",
    "max-forwards",
    "origin",
    "pragma",
    "priority",
    "proxy",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "referer",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "upgrade-insecure-requests",
    "user-agent",
    "via",
    "x-auth-request-redirect",
    "x-http-scheme",
    "x-https",
    "x-nginx-proxy",
    "x-powered-by",
    "x-queue-start",
    "x-real-ip",
    "x-request-id",
    "x-request-start",
    "x-requested-with",
    "x-scheme",
    "x-url-scheme",
];
/// Beginnings of further ones.
const PLAIN_BEGINNINGS: [&str; 5] = ["accept", "content-", "if-", "sec-", "x-forwarded"];

/// Whether an application may believe a field of this name that a client sends, where another server overwrites it.
pub(super) fn is_believed(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('_', "-");
    !PLAIN.contains(&&*name) && !PLAIN_BEGINNINGS.iter().any(|start| name.starts_with(start))
}

/// Why there is nothing where a client would be believed.
pub(super) const BELIEVED_WORDS: &str = "the application would believe what a client says in this field";
