//! Filters in WebAssembly (`lamna_filter.wit`).
//!
//! ```text
//! file ──> component (a module is put into a shell of one) ──> compiled once ──> an instance for each stream: init, begin, take, take, finish
//! ```
//!
//! Owns: from what is configured to what makes filters, and what an instance may use. Guarantees: a component has no
//! imports, so it reaches nothing but what it is given; its memory, its stack and the instructions of each call are
//! bounded; what it does wrong ends its stream and nothing else. The name of what it makes has a digest of the file.
//! Starts no threads that go on.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::thread;

use lamna_config::service::WasmSettings;
use lamna_filter::{Content, Fault, Filter, Make, PIECE_BYTES};
use wasmtime::component::{Component, Instance, InstancePre, Linker, TypedFunc};
use wasmtime::{Config, Engine, Error, ResourceLimiter, Store, Trap};

use crate::service::file;
use crate::service::guard::Broken;

/// The stack of a call. Threads of engines have stacks of 256 KiB.
const STACK_BYTES_MAX: usize = 64 << 10;
/// The stack of the compiling thread, which recurs as deep as code is nested.
const COMPILER_STACK_BYTES: usize = 16 << 20;
/// Elements of all tables: functions that are called by number.
const TABLE_ELEMENTS_MAX: usize = 100_000;

/// The component around modules that come without one.
const SHELL: &str = include_str!("../../wasm_shell.wat");

/// Functions that a component must export.
const EXPORTS: [&str; 4] = ["init", "begin", "take", "finish"];

/// `take`.
type Take = TypedFunc<(&'static [u8],), (Result<Vec<u8>, String>,)>;
/// `finish`.
type Finish = TypedFunc<(), (Result<Vec<u8>, String>,)>;

/// Compiles and initialises a component: the factory of its filters, and their name.
///
/// # Errors
/// Why it cannot be used, in words.
pub(super) fn load(settings: &WasmSettings) -> Result<(Arc<dyn Make>, String), String> {
    let path = settings.component.display();
    let bytes = file::read(&settings.component)?;
    let name = format!("wasm {:016x} {:?}", file::digest(&bytes), settings.parameters);
    let component = compile(&bytes).map_err(|why| format!("{path}: {why}"))?;
    let component = Wasm { component, settings: settings.clone() };
    // What does not begin now does not begin later.
    component.begin("application/octet-stream").map_err(|why| format!("{path}: it does not begin: {why}"))?;
    Ok((Arc::new(component), name))
}

/// The engine of this process.
fn engine() -> Result<&'static Engine, String> {
    static ENGINE: OnceLock<Result<Engine, String>> = OnceLock::new();
    let engine = ENGINE.get_or_init(|| {
        let mut config = Config::new();
        // Traps are found by the code itself: signals are the server's. Memory is taken as it is used.
        config.consume_fuel(true).signals_based_traps(false).max_wasm_stack(STACK_BYTES_MAX);
        config.memory_reservation(0).memory_guard_size(0).memory_reservation_for_growth(0);
        Engine::new(&config).map_err(|error| in_words(&error))
    });
    engine.as_ref().map_err(Clone::clone)
}

/// Compiles the component that is instantiated for each stream.
fn compile(bytes: &[u8]) -> Result<InstancePre<Limits>, String> {
    let engine = engine()?;
    let bytes = match bytes {
        // A module, of version 1.
        [b'\0', b'a', b's', b'm', 1, 0, 0, 0, ..] => in_shell(bytes)?,
        _ => bytes.to_vec(),
    };
    let work = move || Component::new(engine, &bytes).map_err(|error| in_words(&error));
    let compiler =
        thread::Builder::new().name("lamna-compiler".to_owned()).stack_size(COMPILER_STACK_BYTES).spawn(work);
    let compiler = compiler.map_err(|error| format!("no thread can be started: {error}"))?;
    let component = compiler.join().map_err(|_| "it cannot be compiled".to_owned())??;
    if let Some(missing) = EXPORTS.iter().find(|name| component.get_export_index(None, name).is_none()) {
        return Err(format!("it has no function `{missing}`"));
    }
    // Nothing is there to be imported.
    Linker::new(engine).instantiate_pre(&component).map_err(|error| in_words(&error))
}

/// `module` as a component: the shell has an empty module as its first section, in whose place it comes.
fn in_shell(module: &[u8]) -> Result<Vec<u8>, String> {
    const PREAMBLE_BYTES: usize = 8;
    let shell = wat::parse_str(SHELL).map_err(|error| format!("the shell of modules cannot be made: {error}"))?;
    let (preamble, sections) = shell.split_at(PREAMBLE_BYTES);
    let rest = match sections {
        [1, bytes, rest @ ..] => rest.get(usize::from(*bytes)..),
        _ => None,
    };
    let rest = rest.ok_or("the shell of modules cannot be made")?;
    Ok([preamble, &[1], &leb128(module.len()), module, rest].concat())
}

/// A number as WebAssembly writes it (core specification, 5.2.2).
fn leb128(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        bytes.push(if number == 0 { low } else { low | 0x80 });
        if number == 0 {
            return bytes;
        }
    }
}

struct Wasm {
    component: InstancePre<Limits>,
    settings: WasmSettings,
}

impl fmt::Debug for Wasm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Wasm").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Wasm {
    /// A stream of content of this media type, and of what it becomes; none if the component has nothing to do with it.
    fn begin(&self, media_type: &str) -> Result<Option<(Stream, String)>, String> {
        self.try_begin(media_type).map_err(|error| self.why(&error))?
    }

    fn try_begin(&self, media_type: &str) -> Result<Result<Option<(Stream, String)>, String>, Error> {
        let WasmSettings { parameters, memory_bytes_max, fuel_max, .. } = &self.settings;
        // A memory is no larger than the address space, in which there is room for more than the bound.
        let limits = Limits { memory_bytes_max: *memory_bytes_max as usize, memory_bytes: 0, table_elements: 0 };
        let mut store = Store::new(self.component.engine(), limits);
        store.limiter(|limits| limits);
        store.set_fuel(*fuel_max)?;
        let instance = self.component.instantiate(&mut store)?;
        let parameters: Vec<(String, String)> = parameters.clone().into_iter().collect();
        type Init = TypedFunc<(Vec<(String, String)>,), (Result<(), String>,)>;
        let init: Init = instance.get_typed_func(&mut store, "init")?;
        if let (Err(why),) = init.call(&mut store, (parameters,))? {
            return Ok(Err(why));
        }
        let begin: TypedFunc<(&str,), (Option<String>,)> = instance.get_typed_func(&mut store, "begin")?;
        let (made,) = begin.call(&mut store, (media_type,))?;
        let (take, finish) = functions(&instance, &mut store)?;
        let stream = Stream { store, take, finish, fuel_max: *fuel_max };
        Ok(Ok(made.map(|media_type| (stream, media_type))))
    }

    fn why(&self, error: &Error) -> String {
        why(error, self.settings.fuel_max)
    }
}

fn functions(instance: &Instance, store: &mut Store<Limits>) -> Result<(Take, Finish), Error> {
    Ok((instance.get_typed_func(&mut *store, "take")?, instance.get_typed_func(&mut *store, "finish")?))
}

impl Make for Wasm {
    fn start(&self, content: &mut Content) -> Option<Box<dyn Filter>> {
        // It is given bytes as they are meant, under no coding.
        if !content.is_plain() {
            return None;
        }
        match self.begin(&content.media_type) {
            Ok(None) => None,
            Ok(Some((stream, media_type))) => {
                // It goes into a head.
                let is_plain = media_type.bytes().all(|byte| (0x20..0x7f).contains(&byte));
                if !is_plain || media_type.is_empty() {
                    return Some(Box::new(Broken(Fault::Failed("it gives no media type".to_owned()))));
                }
                content.media_type = media_type;
                Some(Box::new(stream))
            }
            Err(why) => Some(Box::new(Broken(Fault::Failed(why)))),
        }
    }
}

/// An instance, and what it does for one stream.
struct Stream {
    store: Store<Limits>,
    take: Take,
    finish: Finish,
    fuel_max: u64,
}

impl Stream {
    fn judge(&self, done: Result<(Result<Vec<u8>, String>,), Error>, out: &mut Vec<u8>) -> Result<(), Fault> {
        match done {
            Ok((Ok(given),)) => {
                out.extend_from_slice(&given);
                Ok(())
            }
            Ok((Err(why),)) => Err(Fault::Content(format!("the service does not take this content: {why}"))),
            Err(error) => Err(Fault::Failed(why(&error, self.fuel_max))),
        }
    }

    fn refuel(&mut self) -> Result<(), Fault> {
        self.store.set_fuel(self.fuel_max).map_err(|error| Fault::Failed(in_words(&error)))
    }
}

impl Filter for Stream {
    fn take(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        for part in piece.chunks(PIECE_BYTES) {
            self.refuel()?;
            let done = self.call_take(part);
            self.judge(done, out)?;
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        self.refuel()?;
        let done = self.finish.call(&mut self.store, ());
        self.judge(done, out)
    }
}

impl Stream {
    fn call_take(&mut self, part: &[u8]) -> Result<(Result<Vec<u8>, String>,), Error> {
        self.take.call(&mut self.store, (part,))
    }
}

/// The resources of an instance, and their bounds.
#[derive(Debug)]
struct Limits {
    memory_bytes_max: usize,
    /// Bytes of all its memories.
    memory_bytes: usize,
    /// Elements of all its tables.
    table_elements: usize,
}

impl ResourceLimiter for Limits {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> Result<bool, Error> {
        self.memory_bytes += desired.saturating_sub(current);
        if self.memory_bytes > self.memory_bytes_max {
            return Err(Error::msg(format!("it needs more than {} bytes of memory", self.memory_bytes_max)));
        }
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> Result<bool, Error> {
        self.table_elements += desired.saturating_sub(current);
        if self.table_elements > TABLE_ELEMENTS_MAX {
            return Err(Error::msg(format!("its tables need more than {TABLE_ELEMENTS_MAX} elements")));
        }
        Ok(true)
    }
}

/// Why a call has failed.
fn why(error: &Error, fuel_max: u64) -> String {
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => format!("a call took more than {fuel_max} units of fuel"),
        Some(trap) => trap.to_string(),
        None => in_words(error),
    }
}

/// An error with its causes, in one line.
fn in_words(error: &Error) -> String {
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    causes.join(": ").split_whitespace().collect::<Vec<_>>().join(" ")
}
