//! The OTF2 C library: what of it is needed, behind safe calls.
//!
//! Written after the headers of OTF2 3.0, whose archives later releases read. Handles belong to their archive, which
//! closes them all; the library keeps no pointer that it is given except the flush callbacks, which are static.
#![expect(
    unsafe_code,
    reason = "the OTF2 format is written by a C library; all calls of it are in this module"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::{self, NonNull};

/// Opaque handles.
#[repr(C)]
struct RawArchive([u8; 0]);
#[repr(C)]
struct RawEvents([u8; 0]);
#[repr(C)]
struct RawDefinitions([u8; 0]);
#[repr(C)]
struct RawGlobalDefinitions([u8; 0]);
#[repr(C)]
struct RawAttributes([u8; 0]);

#[repr(C)]
struct FlushCallbacks {
    pre: Option<unsafe extern "C" fn(*mut c_void, u8, u64, *mut c_void, bool) -> u8>,
    post: Option<unsafe extern "C" fn(*mut c_void, u8, u64) -> u64>,
}

/// Full buffers go to their files.
unsafe extern "C" fn flush(_: *mut c_void, _: u8, _: u64, _: *mut c_void, _: bool) -> u8 {
    1
}

static FLUSH: FlushCallbacks = FlushCallbacks {
    pre: Some(flush),
    post: None,
};

#[link(name = "otf2")]
unsafe extern "C" {
    fn OTF2_Error_GetDescription(code: c_int) -> *const c_char;
    fn OTF2_Archive_Open(
        path: *const c_char,
        name: *const c_char,
        mode: u8,
        event_chunk: u64,
        definition_chunk: u64,
        substrate: u8,
        compression: u8,
    ) -> *mut RawArchive;
    fn OTF2_Archive_Close(archive: *mut RawArchive) -> c_int;
    fn OTF2_Archive_SetFlushCallbacks(
        archive: *mut RawArchive,
        callbacks: *const FlushCallbacks,
        data: *mut c_void,
    ) -> c_int;
    fn OTF2_Archive_SetSerialCollectiveCallbacks(archive: *mut RawArchive) -> c_int;
    fn OTF2_Archive_SetCreator(archive: *mut RawArchive, creator: *const c_char) -> c_int;
    fn OTF2_Archive_OpenEvtFiles(archive: *mut RawArchive) -> c_int;
    fn OTF2_Archive_CloseEvtFiles(archive: *mut RawArchive) -> c_int;
    fn OTF2_Archive_OpenDefFiles(archive: *mut RawArchive) -> c_int;
    fn OTF2_Archive_CloseDefFiles(archive: *mut RawArchive) -> c_int;
    fn OTF2_Archive_GetEvtWriter(archive: *mut RawArchive, location: u64) -> *mut RawEvents;
    fn OTF2_Archive_CloseEvtWriter(archive: *mut RawArchive, writer: *mut RawEvents) -> c_int;
    fn OTF2_Archive_GetDefWriter(archive: *mut RawArchive, location: u64) -> *mut RawDefinitions;
    fn OTF2_Archive_CloseDefWriter(archive: *mut RawArchive, writer: *mut RawDefinitions) -> c_int;
    fn OTF2_Archive_GetGlobalDefWriter(archive: *mut RawArchive) -> *mut RawGlobalDefinitions;
    fn OTF2_EvtWriter_Enter(
        writer: *mut RawEvents,
        attributes: *mut RawAttributes,
        time: u64,
        region: u32,
    ) -> c_int;
    fn OTF2_EvtWriter_Leave(
        writer: *mut RawEvents,
        attributes: *mut RawAttributes,
        time: u64,
        region: u32,
    ) -> c_int;
    fn OTF2_AttributeList_New() -> *mut RawAttributes;
    fn OTF2_AttributeList_Delete(attributes: *mut RawAttributes) -> c_int;
    fn OTF2_AttributeList_AddStringRef(
        attributes: *mut RawAttributes,
        attribute: u32,
        string: u32,
    ) -> c_int;
    fn OTF2_GlobalDefWriter_WriteClockProperties(
        writer: *mut RawGlobalDefinitions,
        ticks_per_second: u64,
        offset: u64,
        length: u64,
        realtime: u64,
    ) -> c_int;
    fn OTF2_GlobalDefWriter_WriteString(
        writer: *mut RawGlobalDefinitions,
        own: u32,
        text: *const c_char,
    ) -> c_int;
    fn OTF2_GlobalDefWriter_WriteAttribute(
        writer: *mut RawGlobalDefinitions,
        own: u32,
        name: u32,
        description: u32,
        kind: u8,
    ) -> c_int;
    fn OTF2_GlobalDefWriter_WriteSystemTreeNode(
        writer: *mut RawGlobalDefinitions,
        own: u32,
        name: u32,
        class: u32,
        parent: u32,
    ) -> c_int;
    fn OTF2_GlobalDefWriter_WriteLocationGroup(
        writer: *mut RawGlobalDefinitions,
        own: u32,
        name: u32,
        kind: u8,
        node: u32,
        creator: u32,
    ) -> c_int;
    fn OTF2_GlobalDefWriter_WriteLocation(
        writer: *mut RawGlobalDefinitions,
        own: u64,
        name: u32,
        kind: u8,
        events: u64,
        group: u32,
    ) -> c_int;
    fn OTF2_GlobalDefWriter_WriteRegion(
        writer: *mut RawGlobalDefinitions,
        own: u32,
        name: u32,
        canonical: u32,
        description: u32,
        role: u8,
        paradigm: u8,
        flags: u32,
        file: u32,
        first_line: u32,
        last_line: u32,
    ) -> c_int;
}

const MODE_WRITE: u8 = 0;
const SUBSTRATE_POSIX: u8 = 1;
const COMPRESSION_NONE: u8 = 1;
/// The least the library takes: memory is one chunk a location.
const EVENT_CHUNK: u64 = 256 << 10;
const DEFINITION_CHUNK: u64 = 4 << 20;
const TYPE_STRING: u8 = 11;
const UNDEFINED: u32 = u32::MAX;
const TICKS_PER_SECOND: u64 = 1_000_000_000;

/// A call of the library failed.
#[derive(Debug)]
pub(super) struct Failed {
    call: &'static str,
    why: String,
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OTF2 library: {}: {}", self.call, self.why)
    }
}

impl std::error::Error for Failed {}

type Result<T> = std::result::Result<T, Failed>;

fn check(call: &'static str, code: c_int) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: the library answers every code with a static text, or null.
    let text = unsafe { OTF2_Error_GetDescription(code) };
    let why = if text.is_null() {
        format!("code {code}")
    } else {
        // SAFETY: not null, and a static text that ends in zero.
        unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned()
    };
    Err(Failed { call, why })
}

fn some<T>(call: &'static str, pointer: *mut T) -> Result<NonNull<T>> {
    NonNull::new(pointer).ok_or_else(|| Failed {
        call,
        why: "it gave nothing back".to_owned(),
    })
}

/// A text without zeros in it, which C cannot have.
fn c_text(text: &str) -> CString {
    let clean: Vec<u8> = text.bytes().filter(|byte| *byte != 0).collect();
    CString::new(clean).unwrap_or_default()
}

/// What a place of events is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LocationKind {
    Thread = 1,
    DeviceStream = 2,
}

/// What a group of such places is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupKind {
    Process = 1,
    Device = 2,
}

/// What a region does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Role {
    Function = 1,
    DataTransfer = 30,
    Allocate = 35,
    Deallocate = 36,
}

/// Where events of one place go; good as long as the archive they came from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Events(NonNull<RawEvents>);

/// An archive that is written.
#[derive(Debug)]
pub(super) struct Archive {
    raw: NonNull<RawArchive>,
    attributes: NonNull<RawAttributes>,
    definitions: Option<NonNull<RawGlobalDefinitions>>,
    events: Vec<NonNull<RawEvents>>,
    closed: bool,
}

impl Archive {
    /// Makes `<folder>/<name>.otf2` and what belongs to it.
    pub(super) fn create(folder: &Path, name: &str) -> Result<Self> {
        let path = c_text(&folder.to_string_lossy());
        let name = c_text(name);
        // SAFETY: both texts end in zero and outlive the call; the numbers are those of the headers.
        let raw = unsafe {
            OTF2_Archive_Open(
                path.as_ptr(),
                name.as_ptr(),
                MODE_WRITE,
                EVENT_CHUNK,
                DEFINITION_CHUNK,
                SUBSTRATE_POSIX,
                COMPRESSION_NONE,
            )
        };
        let raw = some("OTF2_Archive_Open", raw)?;
        // SAFETY: takes nothing.
        let attributes = some("OTF2_AttributeList_New", unsafe {
            OTF2_AttributeList_New()
        });
        let archive = Self {
            raw,
            attributes: match attributes {
                Ok(attributes) => attributes,
                Err(error) => {
                    // SAFETY: the archive is open and not used again.
                    unsafe { OTF2_Archive_Close(raw.as_ptr()) };
                    return Err(error);
                }
            },
            definitions: None,
            events: Vec::new(),
            closed: false,
        };
        let creator = c_text(concat!("inferscope rocpd ", env!("CARGO_PKG_VERSION")));
        let raw = archive.raw.as_ptr();
        // SAFETY: the archive is open, the callbacks are static, the text outlives its call.
        unsafe {
            check(
                "OTF2_Archive_SetFlushCallbacks",
                OTF2_Archive_SetFlushCallbacks(raw, &raw const FLUSH, ptr::null_mut()),
            )?;
            check(
                "OTF2_Archive_SetSerialCollectiveCallbacks",
                OTF2_Archive_SetSerialCollectiveCallbacks(raw),
            )?;
            check(
                "OTF2_Archive_SetCreator",
                OTF2_Archive_SetCreator(raw, creator.as_ptr()),
            )?;
            check("OTF2_Archive_OpenEvtFiles", OTF2_Archive_OpenEvtFiles(raw))?;
        }
        Ok(archive)
    }

    /// The writer of a location.
    pub(super) fn events(&mut self, location: u64) -> Result<Events> {
        // SAFETY: the archive is open for events.
        let raw = unsafe { OTF2_Archive_GetEvtWriter(self.raw.as_ptr(), location) };
        let raw = some("OTF2_Archive_GetEvtWriter", raw)?;
        self.events.push(raw);
        Ok(Events(raw))
    }

    /// A region begins. Times of a location never go back.
    pub(super) fn enter(
        &mut self,
        events: Events,
        time: u64,
        region: u32,
        attribute: Option<(u32, u32)>,
    ) -> Result<()> {
        let attributes = match attribute {
            Some((attribute, string)) => {
                // SAFETY: the list is alive as long as the archive; writing an event empties it.
                let code = unsafe {
                    OTF2_AttributeList_AddStringRef(self.attributes.as_ptr(), attribute, string)
                };
                check("OTF2_AttributeList_AddStringRef", code)?;
                self.attributes.as_ptr()
            }
            None => ptr::null_mut(),
        };
        // SAFETY: writers live until the event files are closed, which takes the archive away from the caller.
        let code = unsafe { OTF2_EvtWriter_Enter(events.0.as_ptr(), attributes, time, region) };
        check("OTF2_EvtWriter_Enter", code)
    }

    /// A region ends.
    pub(super) fn leave(&mut self, events: Events, time: u64, region: u32) -> Result<()> {
        // SAFETY: as in `enter`.
        let code =
            unsafe { OTF2_EvtWriter_Leave(events.0.as_ptr(), ptr::null_mut(), time, region) };
        check("OTF2_EvtWriter_Leave", code)
    }

    /// Ends the events; definitions follow.
    pub(super) fn define(
        &mut self,
        locations: impl Iterator<Item = u64>,
        first: u64,
        last: u64,
    ) -> Result<()> {
        let raw = self.raw.as_ptr();
        for writer in std::mem::take(&mut self.events) {
            // SAFETY: the writer came from this archive and is closed once.
            let code = unsafe { OTF2_Archive_CloseEvtWriter(raw, writer.as_ptr()) };
            check("OTF2_Archive_CloseEvtWriter", code)?;
        }
        // SAFETY: the archive is open; the order of the calls is that of the library's examples.
        unsafe {
            check(
                "OTF2_Archive_CloseEvtFiles",
                OTF2_Archive_CloseEvtFiles(raw),
            )?;
            check("OTF2_Archive_OpenDefFiles", OTF2_Archive_OpenDefFiles(raw))?;
            // Readers look for a file of definitions for each location, empty as it is.
            for location in locations {
                let writer = some(
                    "OTF2_Archive_GetDefWriter",
                    OTF2_Archive_GetDefWriter(raw, location),
                )?;
                check(
                    "OTF2_Archive_CloseDefWriter",
                    OTF2_Archive_CloseDefWriter(raw, writer.as_ptr()),
                )?;
            }
            check(
                "OTF2_Archive_CloseDefFiles",
                OTF2_Archive_CloseDefFiles(raw),
            )?;
            let definitions = some(
                "OTF2_Archive_GetGlobalDefWriter",
                OTF2_Archive_GetGlobalDefWriter(raw),
            )?;
            self.definitions = Some(definitions);
            check(
                "OTF2_GlobalDefWriter_WriteClockProperties",
                OTF2_GlobalDefWriter_WriteClockProperties(
                    definitions.as_ptr(),
                    TICKS_PER_SECOND,
                    first,
                    last.saturating_sub(first),
                    u64::MAX,
                ),
            )
        }
    }

    fn definitions(&self) -> Result<*mut RawGlobalDefinitions> {
        self.definitions.map(NonNull::as_ptr).ok_or_else(|| Failed {
            call: "definitions",
            why: "they come after the events".to_owned(),
        })
    }

    pub(super) fn string(&mut self, own: u32, text: &str) -> Result<()> {
        let text = c_text(text);
        let to = self.definitions()?;
        // SAFETY: the writer lives as long as the archive, the text outlives the call.
        let code = unsafe { OTF2_GlobalDefWriter_WriteString(to, own, text.as_ptr()) };
        check("OTF2_GlobalDefWriter_WriteString", code)
    }

    pub(super) fn attribute(&mut self, own: u32, name: u32, description: u32) -> Result<()> {
        let to = self.definitions()?;
        // SAFETY: the writer lives as long as the archive.
        let code =
            unsafe { OTF2_GlobalDefWriter_WriteAttribute(to, own, name, description, TYPE_STRING) };
        check("OTF2_GlobalDefWriter_WriteAttribute", code)
    }

    pub(super) fn node(&mut self, own: u32, name: u32, class: u32) -> Result<()> {
        let to = self.definitions()?;
        // SAFETY: the writer lives as long as the archive.
        let code =
            unsafe { OTF2_GlobalDefWriter_WriteSystemTreeNode(to, own, name, class, UNDEFINED) };
        check("OTF2_GlobalDefWriter_WriteSystemTreeNode", code)
    }

    pub(super) fn group(&mut self, own: u32, name: u32, kind: GroupKind, node: u32) -> Result<()> {
        let to = self.definitions()?;
        // SAFETY: the writer lives as long as the archive.
        let code = unsafe {
            OTF2_GlobalDefWriter_WriteLocationGroup(to, own, name, kind as u8, node, UNDEFINED)
        };
        check("OTF2_GlobalDefWriter_WriteLocationGroup", code)
    }

    pub(super) fn location(
        &mut self,
        own: u64,
        name: u32,
        kind: LocationKind,
        events: u64,
        group: u32,
    ) -> Result<()> {
        let to = self.definitions()?;
        // SAFETY: the writer lives as long as the archive.
        let code =
            unsafe { OTF2_GlobalDefWriter_WriteLocation(to, own, name, kind as u8, events, group) };
        check("OTF2_GlobalDefWriter_WriteLocation", code)
    }

    pub(super) fn region(&mut self, own: u32, name: u32, role: Role) -> Result<()> {
        let to = self.definitions()?;
        // SAFETY: the writer lives as long as the archive.
        let code = unsafe {
            OTF2_GlobalDefWriter_WriteRegion(
                to, own, name, name, name, role as u8, 0, 0, UNDEFINED, 0, 0,
            )
        };
        check("OTF2_GlobalDefWriter_WriteRegion", code)
    }

    /// Writes what is held back and closes all files.
    pub(super) fn close(mut self) -> Result<()> {
        self.closed = true;
        // SAFETY: open, and not used again: this takes the archive by value.
        check("OTF2_Archive_Close", unsafe {
            OTF2_Archive_Close(self.raw.as_ptr())
        })
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        // SAFETY: the list is this archive's own; the archive is closed once only.
        unsafe {
            OTF2_AttributeList_Delete(self.attributes.as_ptr());
            if !self.closed {
                OTF2_Archive_Close(self.raw.as_ptr());
            }
        }
    }
}
