"""The exceptions of this package, one class for each exit code of the command line."""

from __future__ import annotations

import linecache
import os
import sysconfig
import traceback
from typing import Optional, Tuple


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


def raised(exception: BaseException) -> Tuple[str, str, int, str]:
    """Text and place of an exception of a policy; called by the compiled part.

    Parameters
    ----------
    exception : BaseException
        The exception, with its traceback.

    Returns
    -------
    tuple
        ``"ZeroDivisionError: division by zero"``; file, line and text of the innermost line outside
        this package, and outside other installed packages if there is one (0 and empty if all
        lines are inside).
    """
    name = type(exception).__name__
    text = f"{name}: {exception}" if str(exception) else name
    if isinstance(exception, InputError) and exception.file and exception.line:
        line = linecache.getline(exception.file, exception.line).rstrip()
        return exception.message, exception.file, exception.line, line
    package = os.path.dirname(os.path.abspath(__file__)) + os.sep
    frames = traceback.extract_tb(exception.__traceback__)
    own = [each for each in frames if not os.path.abspath(each.filename).startswith(package)]
    installed = tuple(path + os.sep for path in sysconfig.get_paths().values())
    own = [each for each in own if not each.filename.startswith(installed)] or own
    if isinstance(exception, SyntaxError) and exception.filename and exception.lineno:
        line = linecache.getline(exception.filename, exception.lineno).rstrip()
        return f"{name}: {exception.msg}", exception.filename, exception.lineno, line
    if not own or own[-1].lineno is None:
        return text, "", 0, ""
    return text, own[-1].filename, own[-1].lineno, own[-1].line or ""
