//! Tests of `[[service]]`: what is wrong with one is said, and what is written is read as the same.

use std::path::Path;

use lamna_filter::{Parameters, Step};
use proptest::prelude::*;

use super::service::{NativeSettings, OnFailure, ServiceDefinition, WasmSettings, What, check_name};
use super::validate::{FUEL, MEMORY_BYTES, TIME_MS};
use super::{parse_services, render_services};

fn parsed(text: &str) -> Result<Vec<ServiceDefinition>, String> {
    parse_services(text, Path::new("/base"), true)
}

#[test]
fn what_is_wrong_with_a_service_is_said() {
    for (text, said) in [
        ("filters = []", "has no `name`"),
        ("name = \"markdown\"", "is a filter of the server"),
        ("name = \"A\"", "is not a name"),
        ("name = \"a\"\nfilters = [\"nothing\"]", "there is no filter `nothing`"),
        ("name = \"a\"\nfilters = [\"images\"]", "name it in the route itself"),
        ("name = \"a\"\nfilters = []\nnative = \"b\"", "a service is one of"),
        ("name = \"a\"\non_failure = \"x\"", "is \"error\" or \"pass\""),
        ("name = \"a\"\ntime_max_ms = 5", "are for services with `native` or `wasm`"),
        ("name = \"a\"\nnative = \"b\"\nwasm = \"c\"", "a service is one of"),
        ("name = \"a\"\nnative = \"b\"\nfuel_max = 5000", "are for services with `wasm`"),
        ("name = \"a\"\nwasm = \"b\"\nfuel_max = 5", "fuel_max"),
        ("name = \"a\"\nwasm = \"b\"\nmemory_bytes_max = \"2 GiB\"", "memory_bytes_max"),
        ("name = \"/a/*\"\ngateway = true\nwasm = \"b\"", "a gateway is none of"),
        ("name = \"/a/*\"\ngateway = true\non_failure = \"pass\"", "is for filters"),
        ("name = \"a\"\n[[service]]\nname = \"a\"", "there are two services `a`"),
    ] {
        let error = parsed(&format!("[[service]]\n{text}")).unwrap_err();
        assert!(error.contains(said), "{text}: {error}");
    }
    let untrusted = parse_services("[[service]]\nname = \"a\"\nnative = \"b.so\"", Path::new("/"), false).unwrap_err();
    assert!(untrusted.contains("native_services = true"), "{untrusted}");
}

#[test]
fn paths_are_relative_to_the_file() {
    let services = parsed("[[service]]\nname = \"a\"\nnative = \"b.so\"").unwrap();
    let What::Native(native) = &services[0].what else { panic!("{services:?}") };
    assert_eq!(native.object, Path::new("/base/b.so"));
}

proptest! {
    #[test]
    fn what_is_rendered_is_parsed_to_the_same(
        name in "[a-z][a-z0-9_-]{0,9}", from in "\\PC{1,8}", time_max_ms in TIME_MS, pass: bool, is_suspended: bool,
        which in 0..5, title in "\\PC{1,12}", memory_bytes_max in MEMORY_BYTES, fuel_max in FUEL,
    ) {
        prop_assume!(check_name(&name).is_ok());
        let parameters: Parameters = [("from".to_owned(), from), ("to".to_owned(), String::new())].into();
        let what = match which {
            0 => What::Absent,
            1 => What::Chain(vec![Step { name: "substitute".into(), parameters }]),
            4 => What::Gateway,
            2 => What::Wasm(WasmSettings { component: "/a.wasm".into(), parameters, time_max_ms, memory_bytes_max, fuel_max }),
            _ => What::Native(NativeSettings { object: "/a 'b\".so".into(), parameters, time_max_ms }),
        };
        let on_failure = if pass && which != 4 { OnFailure::Pass } else { OnFailure::Error };
        let name = if which == 4 { title } else { name };
        let services = [ServiceDefinition { name, what, on_failure, is_suspended }];
        prop_assert_eq!(parsed(&render_services(&services)).unwrap(), services);
    }
}
