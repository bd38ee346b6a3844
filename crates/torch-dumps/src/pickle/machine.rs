//! The stack machine.

use std::io::Read;

use rustc_hash::FxHashMap;

use super::Limits;
use super::input::Input;
use super::text::{number, quoted, raw_unicode};
use crate::data::{Data, Id, Node};
use crate::error::{Error, Result};

/// Memory of a node with its place on the stack and in the memo.
const NODE_BYTES: u64 = std::mem::size_of::<Node>() as u64 + 12;
/// Longest line of a number or a name.
const NAME_BYTES: u64 = 4096;

pub(super) struct Machine<'n, R> {
    input: Input<'n, R>,
    data: Data,
    stack: Vec<Id>,
    /// Heights of the stack at the marks.
    marks: Vec<usize>,
    /// Values by number: those that count up from 0, and others.
    memo: Vec<Id>,
    far_memo: FxHashMap<u64, Id>,
    /// Offset of the instruction.
    at: u64,
    used_bytes: u64,
    limit_bytes: u64,
    line: Vec<u8>,
}

impl<'n, R: Read> Machine<'n, R> {
    pub(super) fn new(name: &'n str, reader: R, limits: &Limits) -> Self {
        Self {
            input: Input::new(name, reader),
            data: Data::default(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Vec::new(),
            far_memo: FxHashMap::default(),
            at: 0,
            used_bytes: 0,
            limit_bytes: limits.memory_bytes,
            line: Vec::new(),
        }
    }

    pub(super) fn run(mut self) -> Result<(Data, Id)> {
        loop {
            self.at = self.input.offset();
            self.input.within = "the next instruction";
            let code = self.input.byte()?;
            if code == b'.' {
                let root = self.pop()?;
                return Ok((self.data, root));
            }
            self.step(code)?;
        }
    }

    fn step(&mut self, code: u8) -> Result<()> {
        match code {
            // frames
            0x80 => {
                self.input.within = "PROTO";
                let version = self.input.byte()?;
                if version > 5 {
                    return Err(self.damaged(format!("protocol {version} is unknown")));
                }
                Ok(())
            }
            0x95 => {
                self.input.within = "FRAME";
                self.input.array::<8>().map(|_| ())
            }
            // the stack
            b'(' => {
                self.charge(8)?;
                self.marks.push(self.stack.len());
                Ok(())
            }
            b'0' => {
                if self.marks.last() == Some(&self.stack.len()) {
                    self.marks.pop();
                    return Ok(());
                }
                self.pop().map(|_| ())
            }
            b'1' => self.above_mark().map(|_| ()),
            b'2' => {
                let top = self.top()?;
                self.push_id(top)
            }
            // the memo
            b'p' | b'q' | b'r' | 0x94 => self.put(code),
            b'g' | b'h' | b'j' => self.get(code),
            // constants and numbers
            b'N' => self.push(Node::None),
            0x88 => self.push(Node::Bool(true)),
            0x89 => self.push(Node::Bool(false)),
            b'I' | b'L' | b'F' => self.number_line(code),
            b'J' => {
                self.input.within = "BININT";
                let number = i32::from_le_bytes(self.input.array()?);
                self.push(Node::Int(number.into()))
            }
            b'K' => {
                self.input.within = "BININT1";
                let number = self.input.byte()?;
                self.push(Node::Int(number.into()))
            }
            b'M' => {
                self.input.within = "BININT2";
                let number = u16::from_le_bytes(self.input.array()?);
                self.push(Node::Int(number.into()))
            }
            0x8a | 0x8b => self.long(code),
            b'G' => {
                self.input.within = "BINFLOAT";
                let number = f64::from_be_bytes(self.input.array()?);
                self.push(Node::Real(number))
            }
            // texts and bytes
            b'S' | b'V' => self.text_line(code),
            b'T' | b'U' | b'X' | 0x8c | 0x8d => self.text(code),
            b'B' | b'C' | 0x8e | 0x96 => self.bytes(code),
            // containers
            b']' | 0x8f => self.push(Node::List(Vec::new())),
            b'}' => self.push(Node::Dict(Vec::new())),
            b')' => self.push(Node::Tuple(Box::default())),
            b'l' | 0x91 => {
                let items = self.above_mark()?;
                self.push(Node::List(items))
            }
            b't' => {
                let items = self.above_mark()?;
                self.push(Node::Tuple(items.into()))
            }
            0x85..=0x87 => {
                let count = usize::from(code - 0x84);
                let mut items = vec![self.pop()?; count];
                for item in items.iter_mut().rev().skip(1) {
                    *item = self.pop()?;
                }
                self.push(Node::Tuple(items.into()))
            }
            b'd' => {
                let items = self.above_mark()?;
                let pairs = self.pairs(&items)?;
                self.push(Node::Dict(pairs))
            }
            b'a' => {
                let item = self.pop()?;
                self.extend(&[item])
            }
            b'e' | 0x90 => {
                let items = self.above_mark()?;
                self.extend(&items)
            }
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.set(vec![(key, value)])
            }
            b'u' => {
                let items = self.above_mark()?;
                let pairs = self.pairs(&items)?;
                self.set(pairs)
            }
            other => self.refuse(other),
        }
    }

    /// Returns the error for an instruction that would import or call something, or that does not exist.
    fn refuse(&mut self, code: u8) -> Result<()> {
        let what = match code {
            b'c' | b'i' => {
                self.input.within = "GLOBAL";
                let mut names = Vec::new();
                for _ in 0..2 {
                    self.input.line(&mut self.line, NAME_BYTES)?;
                    names.push(shown(&self.line));
                }
                names.join(".")
            }
            0x93 => {
                let mut names = Vec::new();
                for at in [2, 1] {
                    let id = self.stack.len().checked_sub(at);
                    let id = id.and_then(|at| self.stack.get(at));
                    let name = id.and_then(|id| self.data.text(*id));
                    names.push(name.map_or("?".to_owned(), |name| shown(name.as_bytes())));
                }
                names.join(".")
            }
            b'R' => "a call (REDUCE)".to_owned(),
            b'b' => "the state of an object (BUILD)".to_owned(),
            b'o' => "an object (OBJ)".to_owned(),
            0x81 => "an object (NEWOBJ)".to_owned(),
            0x92 => "an object (NEWOBJ_EX)".to_owned(),
            0x82..=0x84 => "a registered extension (EXT)".to_owned(),
            b'P' | b'Q' => "an object outside of the file (PERSID)".to_owned(),
            0x97 | 0x98 => "a buffer outside of the file (NEXT_BUFFER)".to_owned(),
            other => return Err(self.damaged(format!("no instruction has the code 0x{other:02x}"))),
        };
        Err(Error::Refused {
            name: self.input.name().to_owned(),
            byte: self.at,
            what,
        })
    }

    fn damaged(&self, what: impl Into<String>) -> Error {
        self.input.damaged(self.at, what)
    }

    /// Accounts for memory.
    fn charge(&mut self, bytes: u64) -> Result<()> {
        self.used_bytes = self.used_bytes.saturating_add(bytes);
        match self.used_bytes > self.limit_bytes {
            true => Err(self.too_large()),
            false => Ok(()),
        }
    }

    fn too_large(&self) -> Error {
        Error::TooLarge {
            name: self.input.name().to_owned(),
            byte: self.at,
            limit_bytes: self.limit_bytes,
        }
    }

    fn push(&mut self, node: Node) -> Result<()> {
        self.charge(NODE_BYTES)?;
        match self.data.add(node) {
            Some(id) => {
                self.stack.push(id);
                Ok(())
            }
            None => Err(self.too_large()),
        }
    }

    fn push_id(&mut self, id: Id) -> Result<()> {
        self.charge(4)?;
        self.stack.push(id);
        Ok(())
    }

    fn top(&self) -> Result<Id> {
        let floor = self.marks.last().copied().unwrap_or(0);
        match self.stack.last() {
            Some(top) if self.stack.len() > floor => Ok(*top),
            _ => Err(self.damaged("an instruction without its operand")),
        }
    }

    fn pop(&mut self) -> Result<Id> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    /// Removes the values above the last mark, and the mark.
    fn above_mark(&mut self) -> Result<Vec<Id>> {
        let Some(mark) = self.marks.pop() else {
            return Err(self.damaged("a container without its mark"));
        };
        let items = self.stack.split_off(mark.min(self.stack.len()));
        self.charge(4 * items.len() as u64)?;
        Ok(items)
    }

    fn pairs(&self, items: &[Id]) -> Result<Vec<(Id, Id)>> {
        let (pairs, rest) = items.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(self.damaged("a key without its value"));
        }
        Ok(pairs.iter().map(|[key, value]| (*key, *value)).collect())
    }

    /// Appends items to the list on top.
    fn extend(&mut self, items: &[Id]) -> Result<()> {
        let list = self.top()?;
        self.charge(8 * items.len() as u64)?;
        match self.data.get_mut(list) {
            Some(Node::List(all)) => {
                all.extend_from_slice(items);
                Ok(())
            }
            _ => Err(self.damaged("items for something that is no list")),
        }
    }

    /// Adds pairs to the dictionary on top.
    fn set(&mut self, pairs: Vec<(Id, Id)>) -> Result<()> {
        let dict = self.top()?;
        self.charge(16 * pairs.len() as u64)?;
        match self.data.get_mut(dict) {
            Some(Node::Dict(all)) => {
                match all.is_empty() {
                    true => *all = pairs,
                    false => all.extend(pairs),
                }
                Ok(())
            }
            _ => Err(self.damaged("a key for something that is no dictionary")),
        }
    }

    fn put(&mut self, code: u8) -> Result<()> {
        self.input.within = "PUT";
        let at = match code {
            b'q' => self.input.byte()?.into(),
            b'r' => u32::from_le_bytes(self.input.array()?).into(),
            b'p' => self.index()?,
            _ => (self.memo.len() + self.far_memo.len()) as u64,
        };
        let top = self.top()?;
        match usize::try_from(at) {
            Ok(at) if at < self.memo.len() => {
                if let Some(slot) = self.memo.get_mut(at) {
                    *slot = top;
                }
            }
            Ok(at) if at == self.memo.len() && self.far_memo.is_empty() => {
                self.charge(4)?;
                self.memo.push(top);
            }
            _ => {
                self.charge(32)?;
                self.far_memo.insert(at, top);
            }
        }
        Ok(())
    }

    fn get(&mut self, code: u8) -> Result<()> {
        self.input.within = "GET";
        let at = match code {
            b'h' => self.input.byte()?.into(),
            b'j' => u32::from_le_bytes(self.input.array()?).into(),
            _ => self.index()?,
        };
        let near = usize::try_from(at).ok().and_then(|at| self.memo.get(at));
        match near.or_else(|| self.far_memo.get(&at)) {
            Some(id) => self.push_id(*id),
            None => Err(self.damaged(format!("value {at} is used and was not stored"))),
        }
    }

    fn index(&mut self) -> Result<u64> {
        self.input.line(&mut self.line, NAME_BYTES)?;
        let text = std::str::from_utf8(&self.line).ok();
        match text.and_then(|text| text.trim().parse().ok()) {
            Some(index) => Ok(index),
            None => Err(self.damaged("a number that is none")),
        }
    }

    fn number_line(&mut self, code: u8) -> Result<()> {
        self.input.within = "a number";
        self.input.line(&mut self.line, NAME_BYTES)?;
        let text = std::str::from_utf8(&self.line).unwrap_or_default().trim();
        let digits = text.strip_suffix('L').unwrap_or(text);
        let is_whole = || {
            let digits = digits.strip_prefix(['-', '+']).unwrap_or(digits);
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        let node = match (code, text) {
            (b'I', "00") => Node::Bool(false),
            (b'I', "01") => Node::Bool(true),
            (b'F', text) => match text.parse() {
                Ok(number) => Node::Real(number),
                Err(_) => return Err(self.damaged("a real number that is none")),
            },
            _ => match digits.parse() {
                Ok(number) => Node::Int(number),
                Err(_) if is_whole() => Node::Large,
                Err(_) => return Err(self.damaged("a number that is none")),
            },
        };
        self.push(node)
    }

    /// LONG1 and LONG4.
    fn long(&mut self, code: u8) -> Result<()> {
        self.input.within = "LONG";
        let length = match code {
            0x8a => i32::from(self.input.byte()?),
            _ => i32::from_le_bytes(self.input.array()?),
        };
        let Ok(length) = u64::try_from(length) else {
            return Err(self.damaged("a number of negative length"));
        };
        // Longer numbers are no numbers of a dump.
        const MOST: u64 = 1024;
        if length > MOST {
            self.input.skip(length)?;
            return self.push(Node::Large);
        }
        let mut bytes = Vec::new();
        let read = self
            .input
            .pieces(length, |piece| bytes.extend_from_slice(piece));
        read?;
        self.push(number(&bytes).map_or(Node::Large, Node::Int))
    }

    fn text_line(&mut self, code: u8) -> Result<()> {
        self.input.within = "a text";
        let room = self.limit_bytes.saturating_sub(self.used_bytes);
        self.input.line(&mut self.line, room)?;
        let text = match code {
            b'S' => quoted(&self.line),
            _ => raw_unicode(&self.line),
        };
        let Some(text) = text else {
            return Err(self.damaged("a text that is not written as one"));
        };
        self.charge(text.len() as u64)?;
        self.push(Node::Text(text.into()))
    }

    fn length(&mut self, code: u8) -> Result<u64> {
        Ok(match code {
            b'U' | b'C' | 0x8c => self.input.byte()?.into(),
            0x8d | 0x8e | 0x96 => u64::from_le_bytes(self.input.array()?),
            _ => u32::from_le_bytes(self.input.array()?).into(),
        })
    }

    fn text(&mut self, code: u8) -> Result<()> {
        self.input.within = "a text";
        let length = self.length(code)?;
        self.charge(length)?;
        let mut bytes = Vec::new();
        let read = self
            .input
            .pieces(length, |piece| bytes.extend_from_slice(piece));
        read?;
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        self.push(Node::Text(text.into()))
    }

    fn bytes(&mut self, code: u8) -> Result<()> {
        self.input.within = "bytes";
        let length = self.length(code)?;
        self.input.skip(length)?;
        self.push(Node::Bytes)
    }
}

/// Returns a name of the input for a message: short and without control characters.
fn shown(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let text: String = text.chars().take(80).collect();
    report::text::printable(&text).into_owned()
}
