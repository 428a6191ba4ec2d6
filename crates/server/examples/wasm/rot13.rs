//! rot13 as a WebAssembly module in Rust: the example of docs/services.md.
//!
//!     rustc --edition 2024 --target wasm32-unknown-unknown --crate-type cdylib -O -C panic=abort -C strip=symbols \
//!         -C link-arg=-zstack-size=65536 -o rot13.wasm rot13.rs
//!
//! It has the functions of lamna_filter_wasm.h, and needs nothing else of Lamna.

use std::alloc::{Layout, alloc};
use std::ptr::without_provenance_mut;
use std::sync::Mutex;

/// What a call gives: bytes or an error; of `begin` nothing or a media type.
#[repr(C)]
pub struct Given {
    what: u32,
    at: *const u8,
    count: usize,
}

// SAFETY: a module has one thread.
unsafe impl Send for Given {}

const BYTES: u32 = 0;
const ERROR: u32 = 1;
const NONE: u32 = 0;
const MEDIA_TYPE: u32 = 1;

/// What the last call gave: it has to stay until the next one.
static GIVEN: Mutex<(Given, Vec<u8>)> = Mutex::new((Given { what: NONE, at: std::ptr::null(), count: 0 }, Vec::new()));

fn give(what: u32, bytes: Vec<u8>) -> *const Given {
    let mut given = GIVEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    *given = (Given { what, at: bytes.as_ptr(), count: bytes.len() }, bytes);
    &raw const given.0
}

/// Room for what the next call is given.
#[unsafe(no_mangle)]
pub extern "C" fn cabi_realloc(_: *mut u8, old_count: usize, align: usize, count: usize) -> *mut u8 {
    match Layout::from_size_align(count, align) {
        // Nothing is given that grows.
        Ok(_) if old_count > 0 => std::process::abort(),
        Ok(_) if count == 0 => without_provenance_mut(align),
        Ok(layout) => {
            // SAFETY: it is not empty.
            let room = unsafe { alloc(layout) };
            if room.is_null() { std::process::abort() } else { room }
        }
        Err(_) => std::process::abort(),
    }
}

/// The parameters, which are nobody's: an instance begins once.
#[unsafe(no_mangle)]
pub extern "C" fn init(_: *const [*const u8; 4], count: usize) -> *const Given {
    match count {
        0 => give(BYTES, Vec::new()),
        _ => give(ERROR, b"rot13 has no parameters".to_vec()),
    }
}

/// # Safety
/// So many bytes are there that `cabi_realloc` has made room for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn begin(at: *mut u8, count: usize) -> *const Given {
    // SAFETY: the caller's.
    let media_type = unsafe { Vec::from_raw_parts(at, count, count) };
    match media_type.starts_with(b"text/") {
        true => give(MEDIA_TYPE, media_type),
        false => give(NONE, Vec::new()),
    }
}

/// # Safety
/// As `begin`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn take(at: *mut u8, count: usize) -> *const Given {
    // SAFETY: the caller's.
    let mut piece = unsafe { Vec::from_raw_parts(at, count, count) };
    piece.iter_mut().for_each(|byte| *byte = turn(*byte));
    give(BYTES, piece)
}

#[unsafe(no_mangle)]
pub extern "C" fn finish() -> *const Given {
    give(BYTES, Vec::new())
}

fn turn(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => (byte - b'a' + 13) % 26 + b'a',
        b'A'..=b'Z' => (byte - b'A' + 13) % 26 + b'A',
        other => other,
    }
}
