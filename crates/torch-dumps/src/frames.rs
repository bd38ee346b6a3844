//! Call stacks of dumps: lists of frames with function, file and line, innermost first.

use rustc_hash::FxHashMap;

use crate::data::{Data, Id};

/// Functions that belong to the recording of a stack, or to the interpreter.
const LEFT_OUT_FUNCTIONS: [&str; 7] = [
    "unwind::unwind",
    "CapturedTraceback::gather",
    "gather_with_cpp",
    "__libc_start_main",
    "PyEval_",
    "PyObject_",
    "PyFunction_",
];

/// Files of dispatchers and of the interpreter.
const LEFT_OUT_FILES: [&str; 10] = [
    "core/boxing",
    "/Register",
    "/Redispatch",
    "pythonrun.c",
    "Modules/main.c",
    "Objects/call.c",
    "Objects/methodobject.c",
    "pycore_ceval.h",
    "ceval.c",
    "cpython/abstract.h",
];

/// Number of a stack in [`Stacks`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct StackId(u32);

/// A frame. Files have no folders: these name users and machines.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Frame {
    function: String,
    file: String,
    line: i64,
    /// Python code, not C++.
    is_python: bool,
    /// A function of PyTorch itself.
    is_torch: bool,
}

impl Frame {
    fn text(&self) -> String {
        match (self.file.as_str(), self.line) {
            ("" | "??", _) => self.function.clone(),
            (file, line) => format!("{file}:{line}:{}", self.function),
        }
    }
}

/// All different stacks of a dump.
#[derive(Clone, Debug)]
pub struct Stacks {
    frames: Vec<Frame>,
    frame_of: FxHashMap<Frame, u32>,
    stacks: Vec<Box<[u32]>>,
    stack_of: FxHashMap<Box<[u32]>, StackId>,
    /// Stacks and frames by the node that holds them: most events share theirs.
    seen: FxHashMap<Id, StackId>,
    seen_frames: FxHashMap<Id, Option<u32>>,
}

impl Default for Stacks {
    fn default() -> Self {
        let none: Box<[u32]> = Box::default();
        Self {
            frames: Vec::new(),
            frame_of: FxHashMap::default(),
            stacks: vec![none.clone()],
            stack_of: FxHashMap::from_iter([(none, StackId::default())]),
            seen: FxHashMap::default(),
            seen_frames: FxHashMap::default(),
        }
    }
}

impl Stacks {
    /// The stack without frames, of events whose stack was not recorded.
    pub const NONE: StackId = StackId(0);

    /// Adds the stack that a list of frames stands for.
    pub(crate) fn add(&mut self, data: &Data, list: Option<Id>) -> StackId {
        let Some(list) = list else {
            return Self::NONE;
        };
        if let Some(known) = self.seen.get(&list) {
            return *known;
        }
        let frames = data.items(list).iter();
        let stack: Box<[u32]> = frames.filter_map(|id| self.frame(data, *id)).collect();
        let id = match self.stack_of.get(&stack) {
            Some(known) => *known,
            None => {
                let id = StackId(u32::try_from(self.stacks.len()).unwrap_or(0));
                self.stacks.push(stack.clone());
                self.stack_of.insert(stack, id);
                id
            }
        };
        self.seen.insert(list, id);
        id
    }

    fn frame(&mut self, data: &Data, id: Id) -> Option<u32> {
        if let Some(known) = self.seen_frames.get(&id) {
            return *known;
        }
        let function = data.text_of(id, "name").unwrap_or_default();
        let path = data.text_of(id, "filename").unwrap_or_default();
        let is_left_out = LEFT_OUT_FUNCTIONS
            .iter()
            .any(|name| function.contains(name))
            || function == "_start"
            || LEFT_OUT_FILES.iter().any(|file| path.contains(file));
        let number = match is_left_out || (function.is_empty() && path.is_empty()) {
            true => None,
            false => {
                let frame = Frame {
                    function: function.to_owned(),
                    file: base_name(path).to_owned(),
                    line: data.int_of(id, "line").unwrap_or(0),
                    is_python: path.ends_with(".py") || path.starts_with('<'),
                    is_torch: path.contains("/torch/") || path.starts_with("torch/"),
                };
                let next = u32::try_from(self.frames.len()).ok()?;
                let number = *self.frame_of.entry(frame.clone()).or_insert(next);
                if number == next {
                    self.frames.push(frame);
                }
                Some(number)
            }
        };
        self.seen_frames.insert(id, number);
        number
    }

    /// Forgets the nodes, once all stacks of a document are added.
    pub(crate) fn seal(&mut self) {
        self.seen = FxHashMap::default();
        self.seen_frames = FxHashMap::default();
    }

    fn of(&self, stack: StackId) -> impl DoubleEndedIterator<Item = &Frame> + Clone {
        let frames = self.stacks.get(stack.0 as usize).map_or(&[][..], |s| s);
        frames.iter().filter_map(|id| self.frames.get(*id as usize))
    }

    /// Returns the frames, outermost first, separated by `;`; empty if the stack was not recorded.
    pub fn text(&self, stack: StackId) -> String {
        let frames: Vec<String> = self.of(stack).rev().map(Frame::text).collect();
        frames.join(";")
    }

    /// Returns the innermost frame of the program's own Python code, else the innermost Python frame, else the innermost one.
    pub fn place(&self, stack: StackId) -> Option<String> {
        let frames = || self.of(stack);
        let own = frames().find(|frame| frame.is_python && !frame.is_torch);
        let python = || frames().find(|frame| frame.is_python);
        own.or_else(python)
            .or_else(|| frames().next())
            .map(Frame::text)
    }

    /// Returns `true` if `matches` accepts the function and file of a frame.
    pub(crate) fn any(&self, stack: StackId, matches: impl Fn(&str, &str) -> bool) -> bool {
        self.of(stack)
            .any(|frame| matches(&frame.function, &frame.file))
    }

    /// Returns `true` if the stack was not recorded.
    pub(crate) fn is_empty(&self, stack: StackId) -> bool {
        self.of(stack).next().is_none()
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}
