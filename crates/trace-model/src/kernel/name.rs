//! Names of kernels: demangled, and split into function and template arguments.

use std::borrow::Cow;

/// Returns the C++ name of a symbol (`_ZN…`, also with HIP's suffix `.kd`); `None` if the text is
/// not such a symbol.
///
/// ```
/// use trace_model::kernel::demangle;
///
/// let name = demangle("_Z14rmsnorm_kernelIfEvPT_S1_.kd");
/// assert_eq!(name.as_deref(), Some("void rmsnorm_kernel<float>(float*, float*)"));
/// assert_eq!(demangle("Cijk_Alik.kd"), None);
/// ```
#[must_use]
pub fn demangle(symbol: &str) -> Option<String> {
    let mangled = symbol.strip_suffix(".kd").unwrap_or(symbol);
    if !mangled.starts_with("_Z") {
        return None;
    }
    let options = cpp_demangle::DemangleOptions::new().recursion_limit(96);
    cpp_demangle::Symbol::new(mangled)
        .ok()?
        .demangle_with_options(&options)
        .ok()
}

/// Parts of a kernel's name: `void a::(anonymous namespace)::f<int, 4>(int*)` is the function
/// `a::f` with the arguments `int, 4`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct KernelName<'n> {
    /// The function with its namespaces, without return type, template arguments, parameters and unnamed namespaces.
    pub function: Cow<'n, str>,
    /// The template arguments of the function; empty without any.
    pub arguments: Cow<'n, str>,
}

impl<'n> KernelName<'n> {
    /// Splits `name`, which may be a symbol of an object file or a demangled name. A name that is
    /// not C++ becomes the function as a whole.
    ///
    /// ```
    /// use trace_model::kernel::KernelName;
    ///
    /// let name = KernelName::of("std::enable_if<(8>0), void>::type vllm::norm_kernel<c10::Half, 8>(c10::Half*)");
    /// assert_eq!(name.function, "vllm::norm_kernel");
    /// assert_eq!(name.arguments, "c10::Half, 8");
    /// assert_eq!(KernelName::of("Memcpy HtoD (Pinned -> Device)").function, "Memcpy HtoD (Pinned -> Device)");
    /// ```
    #[must_use]
    pub fn of(name: &'n str) -> Self {
        if let Some(demangled) = demangle(name) {
            let parts = parts_of(&demangled);
            return Self {
                function: Cow::Owned(parts.function),
                arguments: Cow::Owned(parts.arguments),
            };
        }
        if let Some((function, arguments)) = parts_of_symbol(name) {
            return Self {
                function: Cow::Owned(function),
                arguments: Cow::Owned(arguments),
            };
        }
        let name = name.strip_suffix(".kd").unwrap_or(name);
        if !name.contains(['<', '(', ':']) {
            let function = name.strip_prefix("void ").unwrap_or(name);
            return Self {
                function: Cow::Borrowed(function),
                arguments: Cow::Borrowed(""),
            };
        }
        let parts = parts_of(name);
        Self {
            function: Cow::Owned(parts.function),
            arguments: Cow::Owned(parts.arguments),
        }
    }
}

/// Maximum length of a list of template arguments in a symbol that is parsed, in bytes.
const MAX_ARGUMENTS: usize = 1 << 14;

/// Returns the function of a symbol that cannot be demangled as a whole, and the identifiers in its
/// template arguments, which are prefixed by their lengths.
fn parts_of_symbol(symbol: &str) -> Option<(String, String)> {
    let mut rest = symbol.strip_prefix("_Z")?;
    rest = rest.strip_prefix('N').unwrap_or(rest);
    rest = rest.trim_start_matches(['K', 'V', 'r']);
    let mut path: Vec<&str> = Vec::new();
    while let Some((part, after)) = identifier(rest) {
        if !part.starts_with("_GLOBAL__N") {
            path.push(part);
        }
        rest = after;
    }
    // Each position of the rest is tried.
    let is_template = rest.starts_with('I') && rest.len() < MAX_ARGUMENTS;
    let mut named: Vec<&str> = Vec::new();
    while is_template && !rest.is_empty() {
        if let Some((part, after)) = identifier(rest) {
            named.push(part);
            rest = after;
            continue;
        }
        // Value of a plain type: `Li64E`.
        let value = rest.strip_prefix('L').and_then(|value| {
            let value = value.strip_prefix(|c: char| c.is_ascii_lowercase())?;
            let end = value.bytes().take(24).position(|b| b == b'E')?;
            let digits = value.get(..end)?.trim_start_matches('n');
            let is_number = digits.bytes().all(|b| b.is_ascii_digit());
            is_number.then(|| value.get(end..)).flatten()
        });
        // Reference to an earlier part: `S2_`, `T_`.
        let again = rest.strip_prefix(['S', 'T']).and_then(|again| {
            let end = again.bytes().take(12).position(|b| b == b'_')?;
            let is_index = again[..end]
                .bytes()
                .all(|b| b.is_ascii_digit() || b.is_ascii_uppercase());
            is_index.then(|| &again[end + 1..])
        });
        rest = value.or(again).unwrap_or_else(|| {
            let mut chars = rest.chars();
            chars.next();
            chars.as_str()
        });
    }
    (!path.is_empty()).then(|| (path.join("::"), named.join("::")))
}

/// Returns the identifier at the start of a part of a symbol, and the rest. The last identifier of
/// a truncated symbol is incomplete.
fn identifier(text: &str) -> Option<(&str, &str)> {
    let digits = text.bytes().take(8).take_while(u8::is_ascii_digit).count();
    let length: usize = text.get(..digits)?.parse().ok()?;
    let rest = text.get(digits..)?;
    let end = length.min(rest.len());
    let part = rest.get(..end).filter(|part| !part.is_empty())?;
    let is_word = part
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'$');
    let begins = !part.as_bytes()[0].is_ascii_digit();
    (is_word && begins).then(|| (part, &rest[end..]))
}

struct Parts {
    function: String,
    arguments: String,
}

/// Scans `name` once. A stack holds the open brackets, so that a comparison within parentheses does
/// not close a template list.
fn parts_of(name: &str) -> Parts {
    const UNNAMED: [&str; 3] = ["(anonymous namespace)", "{anonymous}", "<unnamed>"];
    let whole = || Parts {
        function: name.to_owned(),
        arguments: String::new(),
    };
    let (mut function, mut arguments) = (String::new(), String::new());
    let mut open: Vec<char> = Vec::new();
    let mut inside = String::new();
    let mut at = 0;
    while let Some(c) = name.get(at..).and_then(|rest| rest.chars().next()) {
        let rest = &name[at..];
        at += c.len_utf8();
        if open.is_empty() {
            if let Some(unnamed) = UNNAMED.iter().find(|unnamed| rest.starts_with(**unnamed)) {
                at += unnamed.len() - c.len_utf8();
                if name[at..].starts_with("::") {
                    at += 2;
                }
                continue;
            }
            let is_operator = function.ends_with("operator") || function.ends_with("operator<");
            match c {
                '(' if is_operator && rest.starts_with("()") => {
                    function.push_str("()");
                    at += 1;
                    continue;
                }
                '<' | '>' | '-' if is_operator => function.push(c),
                // `f(int)::{lambda}` lies within `f`; a list at the end holds the parameters.
                '(' if function.is_empty() || function.ends_with(' ') => return whole(),
                '(' | '<' | '[' | '{' => {
                    open.push(c);
                    inside.clear();
                }
                ' ' => {
                    // The text before a space is a return type.
                    function.clear();
                    arguments.clear();
                    if name[at..].starts_with(['(', '['])
                        && !UNNAMED.iter().any(|u| name[at..].starts_with(u))
                    {
                        return whole();
                    }
                }
                ':' => {
                    // `f(int)::{lambda()#1}::operator()` becomes `f::operator()`.
                    if !function.ends_with("::") {
                        function.push(c);
                    }
                    arguments.clear();
                }
                _ => function.push(c),
            }
            continue;
        }
        let closes = match c {
            '>' if rest.len() < name.len() && name[..at - 1].ends_with('-') => false,
            '>' => open.last() == Some(&'<'),
            ')' | ']' | '}' => {
                let wanted = match c {
                    ')' => '(',
                    ']' => '[',
                    _ => '{',
                };
                // A `<` that is still open inside was a comparison.
                while open.len() > 1 && open.last() != Some(&wanted) && open.contains(&wanted) {
                    open.pop();
                }
                open.last() == Some(&wanted)
            }
            '(' | '<' | '[' | '{' => {
                open.push(c);
                false
            }
            _ => false,
        };
        if !closes {
            inside.push(c);
            continue;
        }
        let closed = open.pop();
        if !open.is_empty() {
            inside.push(c);
            continue;
        }
        match closed {
            Some('<') => arguments = std::mem::take(&mut inside),
            Some('(') => {
                let rest = &name[at..];
                let rest = rest.strip_prefix(" const").unwrap_or(rest);
                if !rest.starts_with("::") && !function.starts_with("decltype") {
                    break;
                }
            }
            _ => {}
        }
    }
    if function.is_empty() {
        whole()
    } else {
        Parts {
            function,
            arguments,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_come_apart() {
        for (name, function, arguments) in [
            ("void f<A(int)>(float*, int)", "f", "A(int)"),
            ("f(int)", "f", ""),
            ("void f", "f", ""),
            ("my kernel", "my kernel", ""),
            ("_ZN2ns1fIiEEvPT_.kd", "ns::f", "int"),
            ("Cijk_Alik_Bljk_MT64x64.kd", "Cijk_Alik_Bljk_MT64x64", ""),
            (
                "std::enable_if<!(false), void>::type a::kernel<int, true>(X<int>)",
                "a::kernel",
                "int, true",
            ),
            (
                "std::enable_if<(((8)>(0)))&&a::B<c10::Half>::ok, void>::type v::norm<c10::Half, 8>(int)",
                "v::norm",
                "c10::Half, 8",
            ),
            ("void (anonymous namespace)::g<int>(int)", "g", "int"),
            (
                "void a::(anonymous namespace)::b::g<c<d<1> >, 2>(int)",
                "a::b::g",
                "c<d<1> >, 2",
            ),
            ("decltype(f(0)) g<1>(int)", "g", "1"),
            (
                "a::f(int)::{lambda()#1}::operator()() const",
                "a::f::operator()",
                "",
            ),
            ("void a::F<int>::run(int)", "a::F::run", ""),
            (
                "Memcpy DtoD (Device -> Device)",
                "Memcpy DtoD (Device -> Device)",
                "",
            ),
            ("kernel<int", "kernel", ""),
            // Truncated, as tables show symbols.
            (
                "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalILi64ES2_9Collec",
                "cutlass::device_kernel",
                "gemm::kernel::GemmUniversal::Collec",
            ),
            ("_ZN2ns4funcILin7EXE...", "ns::func", ""),
        ] {
            let parts = KernelName::of(name);
            assert_eq!(
                (parts.function.as_ref(), parts.arguments.as_ref()),
                (function, arguments),
                "{name}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_text_has_a_function(name in "[a<>(){}\\[\\]: ,&é*-]{1,30}") {
            prop_assert!(!KernelName::of(&name).function.is_empty());
        }

        #[test]
        fn generated_names_come_apart(
            scopes in prop::collection::vec("[a-z]{1,5}", 0..3),
            function in "[a-z_]{1,8}",
            arguments in prop::collection::vec("(int|float|[a-z]{1,3}<[a-z]{1,3}, 4>|\\(int\\)7|f\\(x<int>\\))", 0..4),
            returned in "(void |int const\\* |std::enable_if<\\(8>0\\), void>::type )",
        ) {
            prop_assume!(function != "operator");
            let scope: String = scopes.iter().map(|s| format!("{s}::(anonymous namespace)::")).collect();
            let plain: String = scopes.iter().map(|s| format!("{s}::")).collect();
            let list = arguments.join(", ");
            let name = if list.is_empty() {
                format!("{returned}{scope}{function}(int*, T<3>)")
            } else {
                format!("{returned}{scope}{function}<{list}>(int*, T<3>)")
            };
            let parts = KernelName::of(&name);
            prop_assert_eq!(parts.function.as_ref(), format!("{plain}{function}"));
            prop_assert_eq!(parts.arguments.as_ref(), list);
        }
    }
}
