//! Directives of nginx that need nothing here, each with the reason. They are listed, apart from what is lost.
//!
//! Owns: the list. A directive stands in it only if answers are the same without it.

use super::syntax::Directive;
use super::tls;

const OWN: &str = "how work is divided and what the kernel is asked for is the server's own business";
const ANSWERS: &str = "answers of applications are passed on as they come";
const KEPT: &str = "kept answers are in memory, and one request fetches for all";

/// Why a directive needs nothing; none if it needs something.
pub(super) fn why(directive: &Directive) -> Option<&'static str> {
    let first = directive.argument(0);
    Some(match &*directive.name {
        "user" => "the server runs as the user that starts it; `user` names another (docs/security.md)",
        "pid"
        | "daemon"
        | "events"
        | "worker_processes"
        | "worker_connections"
        | "worker_rlimit_nofile"
        | "worker_cpu_affinity"
        | "multi_accept"
        | "use"
        | "sendfile"
        | "tcp_nopush"
        | "tcp_nodelay"
        | "aio"
        | "directio"
        | "pcre_jit"
        | "types_hash_max_size"
        | "types_hash_bucket_size"
        | "server_names_hash_bucket_size"
        | "server_names_hash_max_size"
        | "variables_hash_max_size"
        | "map_hash_bucket_size"
        | "open_file_cache"
        | "open_file_cache_valid"
        | "open_file_cache_min_uses"
        | "open_file_cache_errors"
        | "output_buffers"
        | "postpone_output"
        | "reset_timedout_connection"
        | "lingering_close" => OWN,
        "server_tokens" => "no version is told",
        "etag" if first == "on" => "entity tags are sent",
        "gzip_static" => "files beside others that are compressed already are sent",
        "gzip_vary" | "gzip_types" | "gzip_comp_level" | "gzip_min_length" | "gzip_proxied" | "gzip_disable"
        | "gzip_buffers" | "gzip_http_version" => {
            "what is compressed, and how, is decided by media type, size and what a client takes"
        }
        "log_not_found" => "files that are not found are not in the error log",
        "types" if directive.block.as_ref().is_some_and(Vec::is_empty) => "media types are known",
        "default_type" if first == "application/octet-stream" => "that is what is sent for an unknown type",
        "charset" if first.eq_ignore_ascii_case("utf-8") => "texts are sent as UTF-8",
        "map" if first == "$http_upgrade" => "upgrades are passed on",
        "http2" if first == "on" => "HTTP/2 is spoken",
        "limit_conn_status" | "limit_conn_log_level" | "limit_req_status" | "limit_req_log_level" => {
            "clients over a limit are answered with 429"
        }
        "proxy_http_version" => "connections to applications are kept, with HTTP/1.1",
        "proxy_buffering"
        | "proxy_buffers"
        | "proxy_buffer_size"
        | "proxy_busy_buffers_size"
        | "proxy_max_temp_file_size"
        | "proxy_temp_file_write_size"
        | "fastcgi_buffers"
        | "fastcgi_buffer_size"
        | "fastcgi_buffering"
        | "fastcgi_busy_buffers_size"
        | "fastcgi_temp_file_write_size"
        | "uwsgi_buffers"
        | "uwsgi_buffer_size"
        | "uwsgi_buffering"
        | "uwsgi_busy_buffers_size"
        | "uwsgi_temp_file_write_size"
        | "scgi_buffers"
        | "scgi_buffer_size"
        | "scgi_buffering"
        | "scgi_busy_buffers_size"
        | "scgi_temp_file_write_size" => ANSWERS,
        "proxy_cache_path"
        | "fastcgi_cache_path"
        | "proxy_cache_lock"
        | "proxy_cache_lock_age"
        | "proxy_cache_lock_timeout"
        | "fastcgi_cache_lock"
        | "uwsgi_cache_path"
        | "uwsgi_cache_lock"
        | "scgi_cache_path"
        | "scgi_cache_lock"
        | "proxy_cache_revalidate"
        | "proxy_cache_background_update" => KEPT,
        "proxy_send_timeout" | "fastcgi_send_timeout" | "uwsgi_send_timeout" | "scgi_send_timeout" => {
            "the time for reading is for both"
        }
        "fastcgi_param" | "uwsgi_param" | "scgi_param" if first == "HTTPS" && directive.argument(1) == "on" => {
            "an application is told so over TLS, and where a trusted proxy says so (`trusted_proxies`)"
        }
        "fastcgi_param" if is_usual(directive) => "it is told so by itself",
        "uwsgi_param" | "scgi_param" if is_usual_of_application(directive) => "it is told so by itself",
        "uwsgi_modifier1" | "uwsgi_modifier2" if first == "0" => "it is told so by itself",
        "fastcgi_index" if first == "index.php" => "`index.php` stands for a directory where scripts are run",
        "fastcgi_split_path_info" => "what follows a script is found from the root down",
        "fastcgi_intercept_errors" | "proxy_intercept_errors" | "uwsgi_intercept_errors" | "scgi_intercept_errors"
            if first == "off" =>
        {
            "answers of applications are passed on"
        }
        "set" if first == "$path_info" => "what follows a script is found from the root down",
        "fastcgi_keep_conn" => OWN,
        _ if tls::is_needless(directive) => "TLS has the versions and ciphers that are safe today",
        _ => return None,
    })
}

/// Whether it is one of the usual variables of an application that runs no files: its path is that of the request.
fn is_usual_of_application(directive: &Directive) -> bool {
    match (directive.argument(0), directive.argument(1)) {
        ("SCRIPT_NAME", value) => value.is_empty(),
        ("PATH_INFO", value) => matches!(value, "$document_uri" | "$uri"),
        ("UWSGI_SCHEME", value) => value == "$scheme",
        // No file is run, and none is named.
        ("SCRIPT_FILENAME" | "PATH_TRANSLATED" | "DOCUMENT_ROOT" | "DOCUMENT_URI", _) => false,
        _ => is_usual(directive),
    }
}

/// Whether it is one of the usual variables, with its usual value.
fn is_usual(directive: &Directive) -> bool {
    let (name, value) = (directive.argument(0), directive.argument(1));
    match name {
        "SCRIPT_FILENAME" => matches!(
            value,
            "$document_root$fastcgi_script_name" | "$realpath_root$fastcgi_script_name" | "$request_filename"
        ),
        "DOCUMENT_ROOT" => matches!(value, "$document_root" | "$realpath_root"),
        "PATH_INFO" | "PATH_TRANSLATED" => value.contains("path_info"),
        "HTTPS" => value == "$https",
        "HTTP_PROXY" => value.is_empty(),
        "SERVER_NAME" => matches!(value, "$server_name" | "$host" | "$http_host"),
        "QUERY_STRING" | "REQUEST_METHOD" | "CONTENT_TYPE" | "CONTENT_LENGTH" | "SCRIPT_NAME" | "REQUEST_URI"
        | "DOCUMENT_URI" | "SERVER_PROTOCOL" | "REQUEST_SCHEME" | "GATEWAY_INTERFACE" | "SERVER_SOFTWARE"
        | "REMOTE_ADDR" | "REMOTE_PORT" | "SERVER_ADDR" | "SERVER_PORT" | "REDIRECT_STATUS" => true,
        _ => false,
    }
}
