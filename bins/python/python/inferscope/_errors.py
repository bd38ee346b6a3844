"""Errors: one hierarchy, each with the file, the place in it and the remedy, as far as they are known."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class InferscopeError(Exception):
    """Base of all errors of this package.

    `message` is the whole sentence, `file` the input it is about, `place` where in it (`byte 4096`, `line 12`), `remedy` what to
    do, `notes` the warnings before it, and `exit_code` that of the command line. What is not known is None.
    """

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        place: str | None = None,
        remedy: str | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.place = place
        self.remedy = remedy
        self.notes = tuple(notes)

    def __reduce__(self) -> tuple[object, ...]:
        return (_again, (type(self), self.message, self.file, self.place, self.remedy, self.notes))


class UsageError(InferscopeError, ValueError):
    """An argument is wrong, or does not go with another."""

    exit_code = 2


class InputError(InferscopeError, OSError):
    """An input is missing, unreadable, or not of the expected kind."""

    exit_code = 3


class NoAnswerError(InferscopeError, LookupError):
    """The inputs do not hold what is asked for."""

    exit_code = 4


class OutputError(InferscopeError, OSError):
    """A result cannot be written."""

    exit_code = 5


class DefectError(InferscopeError, RuntimeError):
    """A defect of Inferscope. Please report it with the input."""

    exit_code = 101


class InferscopeWarning(UserWarning):
    """A part of the inputs could not be used; the result is made of the rest."""


_CLASSES = {cls.exit_code: cls for cls in (UsageError, InputError, NoAnswerError, OutputError, DefectError)}

_PLACE = (
    r"\b(?:byte|line|offset|row|record|event|page|chunk|member) (?:offset )?\d[\d,]*(?: \(line \d+, column \d+\))?"
)

#: What the command line adds to the errors of its options, which says nothing to a caller from Python.
_HELP = " For more information, try '--help'."


def _again(
    cls: type[InferscopeError],
    message: str,
    file: str | None,
    place: str | None,
    remedy: str | None,
    notes: tuple[str, ...],
) -> InferscopeError:
    return cls(message, file=file, place=place, remedy=remedy, notes=notes)


def error_of(code: int, message: str, words: Sequence[str], notes: Sequence[str]) -> InferscopeError:
    """Return the error of a call that ended with an exit code and a sentence `file: what is wrong: what to do`."""
    # Imported where it is needed: most programs see no error, and it takes longer to import than the rest.
    import re

    message = message.removesuffix(_HELP)
    named = [word for word in words if len(word) > 1 and word in message]
    file = max(named, key=len, default=None)
    if file is None or f"{file}:" not in message:
        # A file below a folder that was given.
        begin = message.split(": ", 1)[0]
        file = begin if "/" in begin or any(begin.startswith(word) for word in named) else file
    found = re.search(_PLACE, message)
    remedy = None
    if " tip: " in message:
        remedy = message.split(" tip: ", 1)[1]
    else:
        parts = message.replace("; ", ": ").split(": ")
        if len(parts) >= (3 if file else 2):
            remedy = parts[-1]
    cls = _CLASSES.get(code, DefectError if code >= 100 else InferscopeError)
    return cls(message, file=file, place=found.group() if found else None, remedy=remedy, notes=notes)
