//! Compiles pcap filter expressions by the system's libpcap, which is loaded when an expression is compiled first, so that
//! Weir runs without it.

/// What provides the library.
pub const LIBRARY: &str = "libpcap (Debian: libpcap0.8)";

/// Why an expression was not compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The library can't be loaded; the loader's message.
    #[error("{LIBRARY} can't be loaded: {0}")]
    NoLibrary(String),
    /// libpcap refuses the expression; its message.
    #[error("libpcap: {0}")]
    Expression(String),
}

#[cfg(unix)]
pub use loaded::compile;

/// Compiles an expression for Ethernet frames.
///
/// # Errors
/// [`CompileError::NoLibrary`]: this system has none that Weir can load.
#[cfg(not(unix))]
pub fn compile(_: &str) -> Result<Vec<weir_wire::bpf::Instruction>, CompileError> {
    Err(CompileError::NoLibrary("not available on this system".into()))
}

#[cfg(unix)]
mod loaded {
    use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
    use std::ptr;
    use std::sync::{Mutex, PoisonError};

    use weir_wire::bpf::Instruction;

    use super::CompileError;

    /// Names of the library: Debian's versions of its interface, and others'.
    pub(super) const NAMES: [&CStr; 2] = [c"libpcap.so.0.8", c"libpcap.so.1"];
    /// `DLT_EN10MB`.
    const ETHERNET: c_int = 1;
    /// Maximum length of a packet, which a program returns for one that matches.
    const SNAPSHOT_LENGTH: c_int = 65_535;
    /// `PCAP_NETMASK_UNKNOWN`: only `ip broadcast` needs a netmask.
    const NETMASK_UNKNOWN: c_uint = u32::MAX;

    /// `struct bpf_program`; `struct bpf_insn` is as [`RawInstruction`].
    #[repr(C)]
    pub(super) struct RawProgram {
        pub(super) length: c_uint,
        pub(super) instructions: *mut RawInstruction,
    }

    /// `struct bpf_insn`.
    #[repr(C)]
    #[derive(Clone, Copy)]
    pub(super) struct RawInstruction {
        pub(super) code: u16,
        pub(super) jt: u8,
        pub(super) jf: u8,
        pub(super) k: u32,
    }

    /// `pcap_t`, of which only libpcap knows the fields.
    type Handle = c_void;

    type OpenDead = unsafe extern "C" fn(c_int, c_int) -> *mut Handle;
    type Compile =
        unsafe extern "C" fn(*mut Handle, *mut RawProgram, *const c_char, c_int, c_uint) -> c_int;
    type LastError = unsafe extern "C" fn(*mut Handle) -> *const c_char;
    type FreeCode = unsafe extern "C" fn(*mut RawProgram);
    type Close = unsafe extern "C" fn(*mut Handle);

    /// The functions of libpcap. The library is never unloaded.
    #[derive(Clone, Copy)]
    pub(super) struct Libpcap {
        open_dead: OpenDead,
        compile: Compile,
        error: LastError,
        free_code: FreeCode,
        close: Close,
    }

    /// Loads a library, and returns its handle.
    pub(super) fn load(names: &[&CStr]) -> Result<*mut c_void, CompileError> {
        let mut reason = String::new();
        for name in names {
            // SAFETY: the name ends with a zero byte. The initialisers of libpcap have no requirements.
            let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
            if !library.is_null() {
                return Ok(library);
            }
            reason = loader_message();
        }
        Err(CompileError::NoLibrary(reason))
    }

    fn loader_message() -> String {
        // SAFETY: the message is a C string that is valid until this thread's next call of the loader.
        unsafe {
            match libc::dlerror() {
                message if message.is_null() => "unknown reason".into(),
                message => CStr::from_ptr(message).to_string_lossy().into_owned(),
            }
        }
    }

    /// The address of a function, never null.
    pub(super) fn symbol(library: *mut c_void, name: &CStr) -> Result<*mut c_void, CompileError> {
        // SAFETY: the library is loaded and is never unloaded; the name ends with a zero byte.
        let address = unsafe { libc::dlsym(library, name.as_ptr()) };
        if address.is_null() {
            return Err(CompileError::NoLibrary(loader_message()));
        }
        Ok(address)
    }

    impl Libpcap {
        pub(super) fn load(names: &[&CStr]) -> Result<Self, CompileError> {
            let library = load(names)?;
            let function = |name| symbol(library, name);
            // SAFETY: these are the types by which pcap.h declares the functions, the same in all versions since 1.0.
            unsafe {
                Ok(Self {
                    open_dead: std::mem::transmute::<*mut c_void, OpenDead>(function(
                        c"pcap_open_dead",
                    )?),
                    compile: std::mem::transmute::<*mut c_void, Compile>(function(
                        c"pcap_compile",
                    )?),
                    error: std::mem::transmute::<*mut c_void, LastError>(function(c"pcap_geterr")?),
                    free_code: std::mem::transmute::<*mut c_void, FreeCode>(function(
                        c"pcap_freecode",
                    )?),
                    close: std::mem::transmute::<*mut c_void, Close>(function(c"pcap_close")?),
                })
            }
        }

        fn compile(self, expression: &CStr) -> Result<Vec<Instruction>, CompileError> {
            // SAFETY: the functions are used as pcap(3PCAP) states. `handle` is not null and is closed once, after its error
            // message was copied. A compiled program has `length` instructions until it is freed, which happens once. The
            // caller's lock keeps other threads out, which versions before 1.8 need.
            unsafe {
                let handle = (self.open_dead)(ETHERNET, SNAPSHOT_LENGTH);
                if handle.is_null() {
                    return Err(CompileError::Expression("out of memory".into()));
                }
                let mut program = RawProgram { length: 0, instructions: ptr::null_mut() };
                let optimized = 1;
                let outcome = (self.compile)(
                    handle,
                    &mut program,
                    expression.as_ptr(),
                    optimized,
                    NETMASK_UNKNOWN,
                );
                let compiled = if outcome != 0 {
                    let message = CStr::from_ptr((self.error)(handle));
                    Err(CompileError::Expression(message.to_string_lossy().trim().to_owned()))
                } else {
                    let instructions = match program.instructions.is_null() {
                        true => &[],
                        false => std::slice::from_raw_parts(
                            program.instructions,
                            program.length as usize,
                        ),
                    };
                    let copied = instructions.iter().map(|i| Instruction {
                        code: i.code,
                        jt: i.jt,
                        jf: i.jf,
                        k: i.k,
                    });
                    let copied = copied.collect();
                    (self.free_code)(&mut program);
                    Ok(copied)
                };
                (self.close)(handle);
                compiled
            }
        }
    }

    /// Compiles an expression for Ethernet frames. Names of hosts, networks, ports and protocols are resolved now, which may
    /// wait for a name server.
    ///
    /// # Errors
    /// [`CompileError`]; the next call looks for a missing library again.
    pub fn compile(expression: &str) -> Result<Vec<Instruction>, CompileError> {
        // The functions once loaded, and the lock of their use.
        static LIBPCAP: Mutex<Option<Libpcap>> = Mutex::new(None);
        let Ok(expression) = CString::new(expression) else {
            return Err(CompileError::Expression("a zero byte".into()));
        };
        let mut libpcap = LIBPCAP.lock().unwrap_or_else(PoisonError::into_inner);
        let functions = match *libpcap {
            Some(functions) => functions,
            None => *libpcap.insert(Libpcap::load(&NAMES)?),
        };
        functions.compile(&expression)
    }
}

#[cfg(all(test, unix))]
mod tests;
