//! Caches texts that many slices share.

use rocpd_db::{Agent, Dispatch, KernelNames};
use rustc_hash::FxHashMap;

use super::Options;
use crate::AgentIndex;

/// Maximum number of texts; beyond it all are dropped, so that memory stays bounded.
const MOST: usize = 1 << 14;

/// Key of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Of {
    /// Partition and agent: `Agent 1`.
    Agent(usize, i64),
    /// Partition and agent: `Agent-1`.
    Dashed(usize, i64),
    /// Sizes in x, y and z.
    Shape([i64; 3]),
    /// Partition and kernel.
    Kernel(usize, i64),
}

/// Cache of texts that many slices share.
#[derive(Debug)]
pub(super) struct Texts {
    index: AgentIndex,
    names: KernelNames,
    /// Begin and end of texts.
    places: FxHashMap<Of, Text>,
    bytes: String,
}

/// A cached text: its bytes in [`Texts`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Text(usize, usize);

impl Texts {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            index: options.agents,
            names: options.kernels,
            places: FxHashMap::default(),
            bytes: String::new(),
        }
    }

    /// Drops all texts if there are too many; earlier texts are then invalid. To be called between
    /// slices.
    pub(super) fn trim(&mut self) {
        if self.places.len() > MOST {
            self.places.clear();
            self.bytes.clear();
        }
    }

    pub(super) fn get(&self, text: Text) -> &str {
        self.bytes.get(text.0..text.1).unwrap_or_default()
    }

    fn made(&mut self, of: Of, make: impl FnOnce() -> String) -> Text {
        if let Some(known) = self.places.get(&of) {
            return *known;
        }
        let start = self.bytes.len();
        self.bytes += &make();
        let text = Text(start, self.bytes.len());
        self.places.insert(of, text);
        text
    }

    /// Returns `Agent 1`; empty without an agent.
    pub(super) fn agent(&mut self, partition: usize, agent: Option<&Agent>) -> Text {
        let index = self.index;
        agent.map_or_else(Text::default, |agent| {
            self.made(Of::Agent(partition, agent.id), || index.label(agent))
        })
    }

    /// Returns `Agent-1`; empty without an agent.
    pub(super) fn dashed(&mut self, partition: usize, agent: Option<&Agent>) -> Text {
        let index = self.index;
        agent.map_or_else(Text::default, |agent| {
            self.made(Of::Dashed(partition, agent.id), || index.dashed(agent))
        })
    }

    /// Returns `512 (x=256, y=2, z=1)`.
    pub(super) fn shape(&mut self, sizes: [Option<i64>; 3]) -> Text {
        let sizes = sizes.map(|size| size.unwrap_or(0));
        self.made(Of::Shape(sizes), || {
            let [x, y, z] = sizes;
            format!(
                "{} (x={x}, y={y}, z={z})",
                x.saturating_mul(y).saturating_mul(z)
            )
        })
    }

    /// Returns the kernel's name, from the cache unless the recording has it in this form.
    pub(super) fn kernel(&mut self, dispatch: &Dispatch<'_>) -> KernelName {
        let names = self.names;
        if names.plain(dispatch).is_some() {
            return KernelName::Plain;
        }
        let id = dispatch.symbol.map_or(i64::MIN, |symbol| symbol.id);
        let of = Of::Kernel(dispatch.process.partition, id);
        if dispatch.symbol.is_none() {
            // Named after its own id, since it has no symbol.
            let of = Of::Kernel(usize::MAX, dispatch.kernel_id.unwrap_or_default());
            return KernelName::Made(self.made(of, || names.of(dispatch)));
        }
        KernelName::Made(self.made(of, || names.of(dispatch)))
    }

    pub(super) fn kernel_text<'t>(&'t self, name: KernelName, dispatch: &Dispatch<'t>) -> &'t str {
        match name {
            KernelName::Plain => self.names.plain(dispatch).unwrap_or("?"),
            KernelName::Made(text) => self.get(text),
        }
    }
}

/// Location of the name of a kernel.
#[derive(Debug, Clone, Copy)]
pub(super) enum KernelName {
    /// In the recording.
    Plain,
    /// In the cache.
    Made(Text),
}
