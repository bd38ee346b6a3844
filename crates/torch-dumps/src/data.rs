//! Plain data of Python: nodes in one list, which refer to each other by number.

/// Number of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Id(u32);

/// A value.
#[derive(Clone, PartialEq, Debug)]
pub enum Node {
    /// `None`.
    None,
    /// A boolean.
    Bool(bool),
    /// An integer that fits in 64 bits.
    Int(i64),
    /// A larger integer.
    Large,
    /// A real number.
    Real(f64),
    /// Text.
    Text(Box<str>),
    /// Bytes, whose content is not kept.
    Bytes,
    /// A list or a set.
    List(Vec<Id>),
    /// A tuple.
    Tuple(Box<[Id]>),
    /// A dictionary. Of equal keys the last counts.
    Dict(Vec<(Id, Id)>),
}

/// All values of one document. Values may be shared and may contain themselves, so nothing here recurses.
#[derive(Clone, Debug, Default)]
pub struct Data {
    nodes: Vec<Node>,
}

impl Data {
    /// Adds a node; `None` if there are 2^32 already.
    pub(crate) fn add(&mut self, node: Node) -> Option<Id> {
        let id = Id(u32::try_from(self.nodes.len()).ok()?);
        self.nodes.push(node);
        Some(id)
    }

    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut Node> {
        self.nodes.get_mut(id.0 as usize)
    }

    /// Returns a node.
    pub fn get(&self, id: Id) -> &Node {
        self.nodes.get(id.0 as usize).unwrap_or(&Node::None)
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns `true` if there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the value of a key of a dictionary; `None` if it is absent or this is no dictionary.
    pub fn field(&self, id: Id, key: &str) -> Option<Id> {
        let pairs = self.pairs(id).iter().rev();
        let mut found = pairs.filter(|(name, _)| self.text(*name) == Some(key));
        found.next().map(|(_, value)| *value)
    }

    /// Returns the pairs of a dictionary; none of other values.
    pub fn pairs(&self, id: Id) -> &[(Id, Id)] {
        match self.get(id) {
            Node::Dict(pairs) => pairs,
            _ => &[],
        }
    }

    /// Returns the items of a list or tuple; none of other values.
    pub fn items(&self, id: Id) -> &[Id] {
        match self.get(id) {
            Node::List(items) => items,
            Node::Tuple(items) => items,
            _ => &[],
        }
    }

    /// Returns the items under a key.
    pub fn list(&self, id: Id, key: &str) -> &[Id] {
        self.field(id, key).map_or(&[], |list| self.items(list))
    }

    /// Returns a text.
    pub fn text(&self, id: Id) -> Option<&str> {
        match self.get(id) {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the text under a key.
    pub fn text_of(&self, id: Id, key: &str) -> Option<&str> {
        self.text(self.field(id, key)?)
    }

    /// Returns an integer; also of a text of digits, because some dumps write numbers as texts.
    pub fn int(&self, id: Id) -> Option<i64> {
        match self.get(id) {
            Node::Int(number) => Some(*number),
            Node::Text(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// Returns the integer under a key.
    pub fn int_of(&self, id: Id, key: &str) -> Option<i64> {
        self.int(self.field(id, key)?)
    }

    /// Returns the boolean under a key.
    pub fn bool_of(&self, id: Id, key: &str) -> Option<bool> {
        match self.get(self.field(id, key)?) {
            Node::Bool(value) => Some(*value),
            _ => None,
        }
    }
}
