//! rot13 as a shared object in Rust: the example of docs/services.md.
//!
//!     rustc --edition 2024 --crate-type cdylib -O -C panic=abort -o rot13.so rot13.rs
//!
//! It speaks lamna_filter.h, and needs nothing else of Lamna.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

#[repr(C)]
pub struct Parameter {
    name: *const c_char,
    name_bytes: usize,
    value: *const c_char,
    value_bytes: usize,
}

#[repr(C)]
pub struct Output {
    state: *mut c_void,
    write: unsafe extern "C" fn(*mut c_void, *const u8, usize) -> c_int,
}

#[repr(C)]
pub struct Filter {
    abi: u32,
    size: u32,
    init: unsafe extern "C" fn(*const Parameter, usize, *mut c_char, usize) -> *mut c_void,
    fini: unsafe extern "C" fn(*mut c_void),
    start: unsafe extern "C" fn(*mut c_void, *mut c_char, usize) -> *mut c_void,
    take: unsafe extern "C" fn(*mut c_void, *const u8, usize, *const Output) -> c_int,
    finish: unsafe extern "C" fn(*mut c_void, *const Output) -> c_int,
    end: unsafe extern "C" fn(*mut c_void),
}

const OK: c_int = 0;
const FAILED: c_int = 2;

/// What the server looks for.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static lamna_filter: Filter =
    Filter { abi: 1, size: size_of::<Filter>() as u32, init, fini, start, take, finish, end };

/// Nothing is kept for a service or a stream: any address will do.
static BEGUN: u8 = 0;

unsafe extern "C" fn init(_: *const Parameter, count: usize, error: *mut c_char, error_bytes: usize) -> *mut c_void {
    const WHY: &[u8] = b"rot13 has no parameters\0";
    if count == 0 {
        return (&raw const BEGUN).cast_mut().cast();
    }
    if error_bytes >= WHY.len() {
        // SAFETY: there is room for so many bytes.
        unsafe { std::ptr::copy_nonoverlapping(WHY.as_ptr().cast(), error, WHY.len()) };
    }
    null_mut()
}

unsafe extern "C" fn fini(_: *mut c_void) {}

unsafe extern "C" fn start(service: *mut c_void, media_type: *mut c_char, _: usize) -> *mut c_void {
    // SAFETY: it ends with a zero.
    let media_type = unsafe { std::ffi::CStr::from_ptr(media_type) };
    if media_type.to_bytes().starts_with(b"text/") { service } else { null_mut() }
}

unsafe extern "C" fn take(_: *mut c_void, piece: *const u8, count: usize, output: *const Output) -> c_int {
    if count == 0 {
        return OK;
    }
    // SAFETY: so many bytes are there, and the output lives until this returns.
    let (piece, output) = unsafe { (std::slice::from_raw_parts(piece, count), &*output) };
    let turned: Vec<u8> = piece.iter().map(|byte| turn(*byte)).collect();
    // SAFETY: so many bytes are there.
    let written = unsafe { (output.write)(output.state, turned.as_ptr(), turned.len()) };
    if written == 0 { OK } else { FAILED }
}

unsafe extern "C" fn finish(_: *mut c_void, _: *const Output) -> c_int {
    OK
}

unsafe extern "C" fn end(_: *mut c_void) {}

fn turn(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => (byte - b'a' + 13) % 26 + b'a',
        b'A'..=b'Z' => (byte - b'A' + 13) % 26 + b'A',
        other => other,
    }
}

