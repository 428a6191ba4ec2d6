//! Shared objects over `lamna_filter.h`: loading, calling, letting go.
//!
//! Owns: the C ABI and every promise about it. Guarantees: an object of another version, or without the symbol, is
//! refused before anything of it but its initialisers has run; it stays mapped as long as a stream or the service uses
//! it. What is loaded are the bytes that were handed in: they are in a file without a name, so that an object is
//! another one for the linker when the file of that path has changed.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;

/// The version that is spoken: `LAMNA_FILTER_ABI`.
const ABI: u32 = 1;

/// `struct lamna_parameter`
#[repr(C)]
struct Parameter {
    name: *const c_char,
    name_bytes: usize,
    value: *const c_char,
    value_bytes: usize,
}

/// `struct lamna_output`
#[repr(C)]
struct Output {
    state: *mut c_void,
    write: unsafe extern "C" fn(*mut c_void, *const u8, usize) -> c_int,
}

/// `struct lamna_filter`
#[repr(C)]
#[derive(Clone, Copy)]
struct Table {
    abi: u32,
    size: u32,
    init: Option<unsafe extern "C" fn(*const Parameter, usize, *mut c_char, usize) -> *mut c_void>,
    fini: Option<unsafe extern "C" fn(*mut c_void)>,
    start: Option<unsafe extern "C" fn(*mut c_void, *mut c_char, usize) -> *mut c_void>,
    take: Option<unsafe extern "C" fn(*mut c_void, *const u8, usize, *const Output) -> c_int>,
    finish: Option<unsafe extern "C" fn(*mut c_void, *const Output) -> c_int>,
    end: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// The functions of a table, of which none is missing.
#[derive(Clone, Copy)]
struct Functions {
    fini: unsafe extern "C" fn(*mut c_void),
    start: unsafe extern "C" fn(*mut c_void, *mut c_char, usize) -> *mut c_void,
    take: unsafe extern "C" fn(*mut c_void, *const u8, usize, *const Output) -> c_int,
    finish: unsafe extern "C" fn(*mut c_void, *const Output) -> c_int,
    end: unsafe extern "C" fn(*mut c_void),
}

/// A service of a shared object, begun.
#[derive(Clone)]
pub struct NativeObject(Arc<Begun>);

struct Begun {
    service: NonNull<c_void>,
    functions: Functions,
    /// Dropped after the service has ended: fields are dropped after `drop`, in their order.
    _library: Library,
    /// The linker knows an object by the number of this file: it stays open so that no other gets the number.
    _file: OwnedFd,
}

// SAFETY: `lamna_filter.h` says that streams of a service may begin in any threads at the same time, and that it ends
// once, in any thread.
unsafe impl Send for Begun {}
// SAFETY: as above.
unsafe impl Sync for Begun {}

/// A stream that is filtered.
pub struct NativeStream {
    stream: NonNull<c_void>,
    service: Arc<Begun>,
}

// SAFETY: `lamna_filter.h` says that a stream may go from one thread to another between two calls.
unsafe impl Send for NativeStream {}

impl fmt::Debug for NativeObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("NativeObject")
    }
}

/// Bytes for the media type, and for the sentence of an object that cannot begin.
const TEXT_BYTES: usize = 256;
/// The most bytes that one call may write.
const WRITTEN_BYTES_MAX: usize = 4 << 20;

impl NativeObject {
    /// Loads the shared object that `bytes` are, and begins it with `parameters`.
    ///
    /// # Errors
    /// Why it cannot be used, in words.
    pub fn load(bytes: &[u8], parameters: &[(&str, &str)]) -> Result<NativeObject, String> {
        let file = file_of(bytes).map_err(|error| format!("it cannot be kept in memory: {error}"))?;
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        // SAFETY: the initialisers of the object run. The operator who has allowed shared objects trusts them
        // (`native_services`).
        let library = unsafe { Library::open(Some(&name), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|error| format!("it is no shared object that can be loaded: {error}"))?;
        // SAFETY: the symbol is used as the address of a table, of which nothing is read but the version before that
        // has been compared.
        let symbol = unsafe { library.get::<*const u32>(b"lamna_filter\0") };
        let symbol = symbol.map_err(|_| "it has no symbol `lamna_filter`: see lamna_filter.h".to_owned())?;
        let address: *const u32 = *symbol;
        // SAFETY: `lamna_filter.h` says that the symbol is a table that begins with its version, in every version.
        let abi = unsafe { address.read_unaligned() };
        if abi != ABI {
            return Err(format!("it speaks version {abi} of lamna_filter.h, and this server version {ABI}"));
        }
        // SAFETY: a table of this version has these fields.
        let table = unsafe { address.cast::<Table>().read_unaligned() };
        if (table.size as usize) < size_of::<Table>() {
            return Err(format!("its table has {} bytes, and {} are needed", table.size, size_of::<Table>()));
        }
        let (init, functions) = functions_of(&table).ok_or("its table lacks a function")?;
        let service = begin(init, parameters)?;
        Ok(NativeObject(Arc::new(Begun { service, functions, _library: library, _file: file })))
    }

    /// Begins a stream of this media type: that, and another media type if the filter says one. None if it passes by.
    pub fn start(&self, media_type: &str) -> Option<(NativeStream, Option<String>)> {
        let mut text = [0_u8; TEXT_BYTES];
        let length = media_type.len().min(TEXT_BYTES - 1);
        text[..length].copy_from_slice(&media_type.as_bytes()[..length]);
        let before = text;
        // SAFETY: the service has begun and not ended; the text is as long as is said, and ends with a zero.
        let stream = unsafe { (self.0.functions.start)(self.0.service.as_ptr(), text.as_mut_ptr().cast(), TEXT_BYTES) };
        let stream = NativeStream { stream: NonNull::new(stream)?, service: self.0.clone() };
        let is_field = |text: &str| !text.is_empty() && text.bytes().all(|byte| (b' '..0x7f).contains(&byte));
        let said = if text == before { None } else { text_of(&text).filter(|text| is_field(text)) };
        Some((stream, said))
    }
}

impl NativeStream {
    /// Takes a piece, and writes behind `out`. What the object has returned.
    pub fn take(&mut self, piece: &[u8], out: &mut Vec<u8>) -> i32 {
        let mut sink = Sink::of(out);
        // SAFETY: the stream has begun and not ended, and is this thread's alone; piece and output live until the call
        // returns.
        unsafe { (self.service.functions.take)(self.stream.as_ptr(), piece.as_ptr(), piece.len(), &sink.output()) }
    }

    /// There are no more pieces. What the object has returned.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> i32 {
        let mut sink = Sink::of(out);
        // SAFETY: as in `take`.
        unsafe { (self.service.functions.finish)(self.stream.as_ptr(), &sink.output()) }
    }
}

impl Drop for NativeStream {
    fn drop(&mut self) {
        // SAFETY: nothing else is done with it.
        unsafe { (self.service.functions.end)(self.stream.as_ptr()) }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        // SAFETY: streams hold the service: none is left.
        unsafe { (self.functions.fini)(self.service.as_ptr()) }
    }
}

type Init = unsafe extern "C" fn(*const Parameter, usize, *mut c_char, usize) -> *mut c_void;

fn functions_of(table: &Table) -> Option<(Init, Functions)> {
    let Table { fini, start, take, finish, end, .. } = *table;
    Some((table.init?, Functions { fini: fini?, start: start?, take: take?, finish: finish?, end: end? }))
}

fn begin(init: Init, parameters: &[(&str, &str)]) -> Result<NonNull<c_void>, String> {
    let parameter = |(name, value): &(&str, &str)| Parameter {
        name: name.as_ptr().cast(),
        name_bytes: name.len(),
        value: value.as_ptr().cast(),
        value_bytes: value.len(),
    };
    let given: Vec<Parameter> = parameters.iter().map(parameter).collect();
    let mut error = [0_u8; TEXT_BYTES];
    // SAFETY: the parameters and the room for the sentence are as long as is said, and live until the call returns.
    let service = unsafe { init(given.as_ptr(), given.len(), error.as_mut_ptr().cast(), TEXT_BYTES) };
    NonNull::new(service).ok_or_else(|| match text_of(&error).filter(|text| !text.is_empty()) {
        Some(why) => format!("it does not begin: {why}"),
        None => "it does not begin, and does not say why".to_owned(),
    })
}

/// A text that ends with a zero.
fn text_of(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

/// Where a call writes.
struct Sink<'a> {
    out: &'a mut Vec<u8>,
    room: usize,
}

impl<'a> Sink<'a> {
    fn of(out: &'a mut Vec<u8>) -> Sink<'a> {
        Sink { out, room: WRITTEN_BYTES_MAX }
    }

    fn output(&mut self) -> Output {
        Output { state: std::ptr::from_mut(self).cast(), write }
    }
}

/// `write` of `struct lamna_output`
///
/// # Safety
/// As `lamna_filter.h` says: `state` is that of the output, and `count` bytes can be read at `bytes`.
unsafe extern "C" fn write(state: *mut c_void, bytes: *const u8, count: usize) -> c_int {
    // SAFETY: the state is that of `Sink::output`, which lives as long as the call that it was made for, and is
    // borrowed by no other code meanwhile.
    let sink = unsafe { &mut *state.cast::<Sink<'_>>() };
    if count > sink.room {
        return 1;
    }
    if count > 0 {
        // SAFETY: the caller says that so many bytes are there.
        sink.out.extend_from_slice(unsafe { std::slice::from_raw_parts(bytes, count) });
    }
    sink.room -= count;
    0
}

/// A file without a name that holds `bytes`.
fn file_of(bytes: &[u8]) -> std::io::Result<OwnedFd> {
    let create = |flags| memfd_create("lamna-service", flags);
    let file = match create(MemfdFlags::CLOEXEC | MemfdFlags::EXEC) {
        // Kernels before 6.3 do not know the flag, and do without.
        Err(Errno::INVAL) => create(MemfdFlags::CLOEXEC),
        created => created,
    }?;
    let mut file = File::from(file);
    file.write_all(bytes)?;
    Ok(file.into())
}
