"""The exceptions of this package, one class for each exit code of the command line."""

from __future__ import annotations

from typing import Optional


class Error(Exception):
    """Base of all exceptions of this package.

    Attributes
    ----------
    message : str
        Description of the error, without its place.
    exit_code : int
        Exit code of the command line for this error.
    """

    exit_code: int = 5

    def __init__(self, text: str, message: Optional[str] = None) -> None:
        super().__init__(text)
        self.message = text if message is None else message


class GoalMissed(Error):
    """A stated goal or comparison failed."""

    exit_code = 1


class UsageError(Error):
    """A call makes no sense, such as an unknown policy name."""

    exit_code = 2


class InputError(Error):
    """Error in the contents of a scenario, trace or log.

    Attributes
    ----------
    file : str or None
        Where the problem stands; ``None`` if it has no single place.
    line, column : int or None
        Counted from 1.
    """

    exit_code = 3

    def __init__(
        self,
        text: str,
        message: Optional[str] = None,
        file: Optional[str] = None,
        line: Optional[int] = None,
        column: Optional[int] = None,
    ) -> None:
        super().__init__(text, message)
        self.file = file
        self.line = line
        self.column = column


class MachineError(Error):
    """This machine lacks something: a program, a GPU, memory, a port."""

    exit_code = 4


class InternalError(Error):
    """A defect of ours."""

    exit_code = 5


class WorkerDied(InternalError):
    """The process that carried out the run ended without a result."""


_BY_EXIT_CODE = {1: GoalMissed, 2: UsageError, 4: MachineError, 5: InternalError}


def make(
    name: str,
    kind: int,
    text: str,
    message: str,
    file: Optional[str],
    line: Optional[int],
    column: Optional[int],
) -> Error:
    """The exception for an error of the compiled part; called by it.

    Parameters
    ----------
    name : str
        ``"WorkerDied"``, or empty for the class that belongs to `kind`.
    kind : int
        Exit code that the error stands for.
    text, message : str
        The error with and without its place.
    file : str or None
        File of the place.
    line, column : int or None
        Place in the file, counted from 1.

    Returns
    -------
    Error
        An instance of the subclass that fits.
    """
    if name == WorkerDied.__name__:
        return WorkerDied(text, message)
    if kind == InputError.exit_code:
        return InputError(text, message, file, line, column)
    return _BY_EXIT_CODE.get(kind, InternalError)(text, message)
