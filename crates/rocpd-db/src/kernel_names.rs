//! How kernels are called.

use std::borrow::Cow;

use trace_model::kernel::demangle;

use crate::records::Dispatch;

/// How kernels are called; by default as the recording displays them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KernelNames {
    /// By the region (ROCTx range) they were launched in, where that has a name.
    pub by_region: bool,
    /// By the name in the object file.
    pub mangled: bool,
    /// Demangled here from the name in the object file, whatever the recording displays.
    pub demangle: bool,
    /// Without template arguments' parameters: cut before the parameter list.
    pub truncate: bool,
}

impl KernelNames {
    /// The name where it is a text of the recording as it is; that in the object file where there is none for people.
    #[inline]
    #[must_use]
    pub fn plain<'a>(&self, dispatch: &Dispatch<'a>) -> Option<&'a str> {
        if self.by_region
            && let Some(region) = dispatch.region
            && !region.is_empty()
        {
            return Some(region);
        }
        let symbol = dispatch.symbol?;
        match self {
            Self { demangle: true, .. } | Self { truncate: true, .. } => None,
            Self { mangled: true, .. } => symbol.kernel_name.as_deref(),
            _ => symbol
                .display_name
                .as_deref()
                .or(symbol.kernel_name.as_deref()),
        }
    }

    /// The name as the view `kernels` has it: none where the recording has none of that kind.
    #[inline]
    #[must_use]
    pub fn in_view<'a>(&self, dispatch: &Dispatch<'a>) -> Option<Cow<'a, str>> {
        if self.by_region
            && let Some(region) = dispatch.region
            && !region.is_empty()
        {
            return Some(region.into());
        }
        let symbol = dispatch.symbol?;
        let mangled = symbol.kernel_name.as_deref();
        if self.mangled {
            return mangled.map(Cow::Borrowed);
        }
        let demangled = mangled.filter(|_| self.demangle).and_then(demangle);
        let name = match demangled {
            Some(name) => Cow::Owned(name),
            None => Cow::Borrowed(symbol.display_name.as_deref()?),
        };
        Some(match name {
            name if !self.truncate => name,
            Cow::Borrowed(name) => truncate(name).into(),
            Cow::Owned(name) => truncate(&name).to_owned().into(),
        })
    }

    /// The name, made if need be; that in the object file where there is none for people.
    #[must_use]
    pub fn of(&self, dispatch: &Dispatch<'_>) -> String {
        if let Some(plain) = self.plain(dispatch) {
            return plain.to_owned();
        }
        let Some(symbol) = dispatch.symbol else {
            return format!("kernel {}", dispatch.kernel_id.unwrap_or_default());
        };
        let name = if self.mangled {
            symbol.kernel_name.clone().unwrap_or_default()
        } else if self.demangle {
            let mangled = symbol.kernel_name.as_deref().unwrap_or_default();
            demangle(mangled).unwrap_or_else(|| symbol.display_name.clone().unwrap_or_default())
        } else {
            let shown = symbol.display_name.as_ref();
            shown
                .or(symbol.kernel_name.as_ref())
                .cloned()
                .unwrap_or_default()
        };
        if self.truncate && !self.mangled {
            return truncate(&name).to_owned();
        }
        name
    }
}

/// A C++ name without its parameter list.
///
/// ```
/// assert_eq!(rocpd_db::truncate("void f<A(int)>(float*, int)"), "void f<A(int)>");
/// assert_eq!(rocpd_db::truncate("(anonymous namespace)::g(int) const"), "(anonymous namespace)::g");
/// assert_eq!(rocpd_db::truncate("operator()"), "operator()");
/// ```
#[must_use]
pub fn truncate(name: &str) -> &str {
    let mut depth = 0_i32;
    let bytes = name.as_bytes();
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'<' if !name[..at].ends_with("operator") && !name[..at].ends_with("operator<") => {
                depth += 1;
            }
            b'>' if depth > 0 && (at == 0 || bytes[at - 1] != b'-') => depth -= 1,
            b'(' if depth == 0 && at > 0 => {
                let before = &name[..at];
                let rest = &name[at..];
                if before.ends_with("operator")
                    || rest.starts_with("(anonymous namespace)")
                    || before.ends_with([' ', ':'])
                {
                    continue;
                }
                return before;
            }
            _ => {}
        }
    }
    name
}
