//! Data types of tensors as profilers name them: size, category, promotion.

/// Data type of the elements of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Dtype {
    /// Truth value, one byte.
    Bool,
    /// Unsigned 8-bit integer; also the storage of packed and of 8-bit floating-point values.
    UInt8,
    /// Signed 8-bit integer.
    Int8,
    /// 16-bit integer.
    Int16,
    /// 32-bit integer.
    Int32,
    /// 64-bit integer.
    Int64,
    /// Two 4-bit floating-point values in one byte.
    Fp4x2,
    /// 8-bit floating point of any format.
    Fp8,
    /// IEEE binary16.
    Fp16,
    /// bfloat16.
    Bf16,
    /// IEEE binary32.
    Fp32,
    /// IEEE binary64.
    Fp64,
    /// Two binary16.
    Complex32,
    /// Two binary32.
    Complex64,
    /// Two binary64.
    Complex128,
}

/// Category of a type in type promotion, ascending.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Category {
    Bool,
    Integer,
    Float,
    Complex,
}

impl Dtype {
    /// Returns the type that PyTorch's profiler, older profilers of clang builds or the collectives name so; `None` for
    /// names of other things (`Scalar`, `TensorList`, the empty string).
    ///
    /// ```
    /// use roofline::Dtype;
    /// assert_eq!(Dtype::of_name("c10::BFloat16"), Some(Dtype::Bf16));
    /// assert_eq!(Dtype::of_name("long"), Some(Dtype::Int64));
    /// assert_eq!(Dtype::of_name("Scalar"), None);
    /// ```
    pub fn of_name(name: &str) -> Option<Self> {
        Some(match name.strip_prefix("c10::").unwrap_or(name) {
            "bool" | "Bool" => Self::Bool,
            "unsigned char" | "Byte" | "uint8_t" => Self::UInt8,
            "signed char" | "char" | "Char" | "int8_t" => Self::Int8,
            "short int" | "short" | "Short" | "unsigned short" | "UInt16"
            | "short unsigned int" => Self::Int16,
            "int" | "Int" | "unsigned int" | "UInt32" => Self::Int32,
            "long int" | "long" | "Long" | "long long" | "unsigned long" | "UInt64"
            | "long unsigned int" | "long long int" => Self::Int64,
            "Float4_e2m1fn_x2" => Self::Fp4x2,
            "Float8_e4m3fn" | "Float8_e4m3fnuz" | "Float8_e5m2" | "Float8_e5m2fnuz"
            | "Float8_e8m0fnu" => Self::Fp8,
            "Half" => Self::Fp16,
            "BFloat16" => Self::Bf16,
            "float" | "Float" => Self::Fp32,
            "double" | "Double" => Self::Fp64,
            "complex<c10::Half>" | "complex<Half>" | "ComplexHalf" => Self::Complex32,
            "complex<float>" | "ComplexFloat" => Self::Complex64,
            "complex<double>" | "ComplexDouble" => Self::Complex128,
            _ => return None,
        })
    }

    /// Returns the type that PyTorch gives this number (`c10::ScalarType`), which is how a type argument is recorded.
    pub fn of_number(number: i64) -> Option<Self> {
        Some(match number {
            0 => Self::UInt8,
            1 => Self::Int8,
            2 => Self::Int16,
            3 => Self::Int32,
            4 => Self::Int64,
            5 => Self::Fp16,
            6 => Self::Fp32,
            7 => Self::Fp64,
            8 => Self::Complex32,
            9 => Self::Complex64,
            10 => Self::Complex128,
            11 => Self::Bool,
            15 => Self::Bf16,
            23..=26 | 44 => Self::Fp8,
            27 => Self::Int16,
            28 => Self::Int32,
            29 => Self::Int64,
            45 => Self::Fp4x2,
            _ => return None,
        })
    }

    /// Size of an element in bytes.
    pub fn size(self) -> u128 {
        match self {
            Self::Bool | Self::UInt8 | Self::Int8 | Self::Fp4x2 | Self::Fp8 => 1,
            Self::Int16 | Self::Fp16 | Self::Bf16 => 2,
            Self::Int32 | Self::Fp32 | Self::Complex32 => 4,
            Self::Int64 | Self::Fp64 | Self::Complex64 => 8,
            Self::Complex128 => 16,
        }
    }

    pub(crate) fn category(self) -> Category {
        match self {
            Self::Bool => Category::Bool,
            Self::UInt8 | Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64 => Category::Integer,
            Self::Fp4x2 | Self::Fp8 | Self::Fp16 | Self::Bf16 | Self::Fp32 | Self::Fp64 => {
                Category::Float
            }
            Self::Complex32 | Self::Complex64 | Self::Complex128 => Category::Complex,
        }
    }

    /// The type of the parts of a complex number; others as they are.
    pub(crate) fn real(self) -> Self {
        match self {
            Self::Complex32 => Self::Fp16,
            Self::Complex64 => Self::Fp32,
            Self::Complex128 => Self::Fp64,
            other => other,
        }
    }

    /// Returns the type that a pointwise operator of PyTorch computes with for operands of these two types.
    pub(crate) fn promote(self, other: Self) -> Self {
        use Dtype::{Bf16, Complex64, Complex128, Fp16, Fp32, Fp64, Int8, Int16, UInt8};
        let (low, high) = match self.category() <= other.category() {
            true => (self, other),
            false => (other, self),
        };
        match (low, high) {
            (a, b) if a == b => a,
            (Fp64, Complex64 | Self::Complex32) => Complex128,
            (Fp32, Self::Complex32) => Complex64,
            (a, b) if a.category() != b.category() => b,
            (Fp16, Bf16) | (Bf16, Fp16) => Fp32,
            // The smallest signed type that holds both.
            (UInt8, Int8) | (Int8, UInt8) => Int16,
            (a, b) if a.size() == b.size() => a.max(b),
            (a, b) => match a.size() > b.size() {
                true => a,
                false => b,
            },
        }
    }
}

/// Arithmetic for which a device has a peak rate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Precision {
    /// Binary64.
    Fp64,
    /// Binary32.
    Fp32,
    /// Binary32 operands rounded to 10 bits of mantissa in the matrix units.
    Tf32,
    /// Binary16.
    Fp16,
    /// bfloat16.
    Bf16,
    /// 8-bit floating point.
    Fp8,
    /// 4-bit floating point.
    Fp4,
    /// 8-bit integers.
    Int8,
}

impl Precision {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 8] = [
        Self::Fp64,
        Self::Fp32,
        Self::Tf32,
        Self::Fp16,
        Self::Bf16,
        Self::Fp8,
        Self::Fp4,
        Self::Int8,
    ];

    /// The name in tables and of a peak.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fp64 => "fp64",
            Self::Fp32 => "fp32",
            Self::Tf32 => "tf32",
            Self::Fp16 => "fp16",
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
            Self::Fp4 => "fp4",
            Self::Int8 => "int8",
        }
    }

    /// The arithmetic of a matrix product of elements of this type.
    pub(crate) fn of(dtype: Dtype) -> Self {
        match dtype {
            Dtype::Fp64 | Dtype::Complex128 => Self::Fp64,
            Dtype::Fp32 | Dtype::Complex64 | Dtype::Int16 | Dtype::Int32 | Dtype::Int64 => {
                Self::Fp32
            }
            Dtype::Fp16 | Dtype::Complex32 => Self::Fp16,
            Dtype::Bf16 => Self::Bf16,
            Dtype::Fp8 => Self::Fp8,
            Dtype::Fp4x2 => Self::Fp4,
            Dtype::Bool | Dtype::UInt8 | Dtype::Int8 => Self::Int8,
        }
    }

    /// The type that a device without units for this one computes with, if it has those.
    pub(crate) fn falls_back_to(self) -> Option<Self> {
        match self {
            Self::Fp4 => Some(Self::Fp8),
            Self::Fp8 => Some(Self::Bf16),
            Self::Bf16 | Self::Int8 => Some(Self::Fp16),
            Self::Tf32 => Some(Self::Fp32),
            Self::Fp64 | Self::Fp32 | Self::Fp16 => None,
        }
    }
}
