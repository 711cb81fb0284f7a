"""Configurations of torchtitan 0.3 and later, Python functions that are read and not run.

A file such as ``torchtitan/models/llama3/config_registry.py`` has one function for each
configuration. The reader follows the syntax tree of one function: calls of other functions of the
file, and assignments to attributes of a configuration. All other values are unknown, and an unknown
value is refused only where Orrery needs it. Versions differ by the names of the batch: sequences
(``local_batch_size``), later tokens (``num_tokens_per_microbatch_per_dp_rank``).
"""

from __future__ import annotations

import ast
import operator
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, NoReturn, Optional, Tuple, Union

from orrery._errors import InputError, UsageError

PathLike = Union[str, "os.PathLike[str]"]

_TRAINING = {
    "seq_len": "sequence_length",
    "local_batch_size": "local_batch",
    "global_batch_size": "global_batch",
}
_DEGREES = tuple(
    f"{name}_degree"
    for name in (
        "data_parallel_replicate",
        "data_parallel_shard",
        "tensor_parallel",
        "pipeline_parallel",
        "context_parallel",
        "expert_parallel",
    )
)
_MOST_DEPTH = 20
_OPERATORS = {ast.Mult: operator.mul, ast.Add: operator.add, ast.FloorDiv: operator.floordiv}


@dataclass(frozen=True)
class TorchtitanConfig:
    """Configuration of torchtitan; made by `orrery.torchtitan`. ``None``: the file has no value.

    Attributes
    ----------
    name, model, flavor : str
        Function of the file, and model and flavor as torchtitan names them: ``"llama3"``,
        ``"8B"``.
    sequence_length, local_batch, global_batch : int or None
        Tokens of a sequence, and sequences of a micro-batch and of a step.
    degrees : dict
        Degrees of parallelism that the file names, for example
        ``{"tensor_parallel_degree": 8}``.
    """

    name: str
    model: str
    flavor: str
    sequence_length: Optional[int] = None
    local_batch: Optional[int] = None
    global_batch: Optional[int] = None
    degrees: Dict[str, int] = field(default_factory=dict)

    def to_toml(self) -> str:
        """The configuration as TOML of torchtitan 0.2.

        Returns
        -------
        str
            TOML that ``orrery describe`` and ``--model`` read.
        """
        lines = ["[model]", f'name = "{self.model}"', f'flavor = "{self.flavor}"', "", "[training]"]
        for key, attribute in _TRAINING.items():
            value = getattr(self, attribute)
            if value is not None:
                lines.append(f"{key} = {value}")
        if self.degrees:
            lines += ["", "[parallelism]", *(f"{k} = {v}" for k, v in self.degrees.items())]
        return "\n".join(lines) + "\n"

    def save(self, file: PathLike) -> str:
        """Write the configuration as TOML.

        Parameters
        ----------
        file : path
            The file to write, for example ``"llama3_8b.toml"``.

        Returns
        -------
        str
            The path of the file, for ``orrery.plan(model=...)``.
        """
        Path(file).write_text(self.to_toml(), encoding="utf-8")
        return os.fspath(file)


@dataclass
class _Unknown:
    """Value that the reader does not follow, with its place in the syntax tree and, for the call of
    a function of the file, the reason."""

    node: ast.expr
    reason: Optional[InputError] = None


@dataclass
class _Registry:
    """Imported function ``model_registry`` of a model."""

    model: str


@dataclass
class _Literal:
    """Number, text, list or ``None`` of the file."""

    value: Any
    node: ast.expr


@dataclass
class _Spec:
    """Call of ``model_registry``: the model's sizes by the name of their flavor."""

    model: str  #: empty if the file does not say which
    flavor: Any
    node: ast.expr


@dataclass
class _Config:
    """Call of a configuration class with named values, which later assignments may replace."""

    values: Dict[str, Any]
    node: ast.expr
    is_whole: bool  #: the call is that of a class, with named values alone


class _Reader:
    """Reader of one file."""

    def __init__(self, file: str, tree: ast.Module) -> None:
        self.file = file
        functions = [each for each in tree.body if isinstance(each, ast.FunctionDef)]
        self.functions = {each.name: each for each in functions}
        self.globals: Dict[str, Any] = {}
        for each in tree.body:
            if isinstance(each, ast.ImportFrom):
                self.note_import(each, self.globals)
            elif isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
                self.globals[each.targets[0].id] = self.value_of(each.value, {}, 0)

    def note_import(self, node: ast.ImportFrom, known: Dict[str, Any]) -> None:
        """Remember under which name a function imports the registry of which model."""
        for each in node.names:
            if each.name == "model_registry":
                # A relative import without a module is one of the folder of the file.
                folder = Path(self.file).resolve().parent.name
                model = node.module.split(".")[-1] if node.module else folder
                known[each.asname or each.name] = _Registry(model)

    def named(self, node: ast.Name, known: Mapping[str, Any]) -> Any:
        return known.get(node.id, self.globals.get(node.id, _Unknown(node)))

    def refuse(self, node: Any, message: str) -> NoReturn:
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1
        raise InputError(
            f"{self.file}:{line}:{column}: error: {message}", message, self.file, line, column
        )

    def run(self, function: ast.FunctionDef, known: Dict[str, Any], depth: int = 0) -> Any:
        """Follow a function with the values of its parameters to its return value."""
        if depth > _MOST_DEPTH:
            self.refuse(function, f"expected a configuration, found that {function.name}() calls "
                                  "itself")  # fmt: skip
        for statement in function.body:
            if isinstance(statement, ast.Return):
                if statement.value is None:
                    self.refuse(statement, "expected a configuration to be returned, found none")
                return self.value_of(statement.value, known, depth)
            self.follow(statement, known, depth)
        self.refuse(function, f"expected {function.name}() to return a configuration, found no "
                              "return")  # fmt: skip

    def follow(self, statement: ast.stmt, known: Dict[str, Any], depth: int) -> None:
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        ignored = (ast.Import, ast.ImportFrom, ast.Assert, ast.FunctionDef, ast.Pass)
        if isinstance(statement, ast.ImportFrom):
            self.note_import(statement, known)
        if is_text or isinstance(statement, ignored):
            return
        if isinstance(statement, ast.AnnAssign) and statement.value is not None:
            self.assign(statement.target, self.value_of(statement.value, known, depth), known)
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            self.assign(statement.targets[0], self.value_of(statement.value, known, depth), known)
        else:
            self.refuse(
                statement,
                "expected assignments of literal values and a return, found a statement "
                f"({type(statement).__name__}) that only running the file can follow; write the "
                "values as literals",
            )

    def assign(self, target: ast.expr, value: Any, known: Dict[str, Any]) -> None:
        if isinstance(target, ast.Name):
            known[target.id] = value
            return
        if not isinstance(target, ast.Attribute):
            self.refuse(target, "expected an assignment to a name or an attribute of one")
        holder = self.attribute_of(target.value, known)
        if isinstance(holder, _Config):
            holder.values[target.attr] = value
        elif isinstance(holder, _Spec):
            self.refuse(target, "expected the sizes of the flavor, found a change of its model; "
                                "write the model as a config.json")  # fmt: skip

    def attribute_of(self, node: ast.expr, known: Mapping[str, Any]) -> Any:
        """Return the value of a name or of an attribute of a known value. A configuration that the
        file has not named begins without values."""
        if isinstance(node, ast.Name):
            return self.named(node, known)
        if not isinstance(node, ast.Attribute):
            return _Unknown(node)
        holder = self.attribute_of(node.value, known)
        if isinstance(holder, _Spec):
            return holder
        if not isinstance(holder, _Config):
            return _Unknown(node)
        default = _Config({}, node, True)
        return holder.values.setdefault(node.attr, default)

    def value_of(self, node: ast.expr, known: Dict[str, Any], depth: int) -> Any:
        try:
            return _Literal(ast.literal_eval(node), node)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            pass
        if isinstance(node, ast.Name):
            return self.named(node, known)
        if isinstance(node, ast.Attribute):
            holder = self.attribute_of(node.value, known)
            is_part = isinstance(holder, _Config) and node.attr in holder.values
            return holder.values[node.attr] if is_part else _Unknown(node)
        if isinstance(node, ast.BinOp):
            return self.product(node, known, depth)
        return self.call(node, known, depth) if isinstance(node, ast.Call) else _Unknown(node)

    def product(self, node: ast.BinOp, known: Dict[str, Any], depth: int) -> Any:
        """Return the value of ``4 * 8192`` and the like."""
        sides = [self.value_of(each, known, depth) for each in (node.left, node.right)]
        numbers = [each.value for each in sides
                   if isinstance(each, _Literal) and type(each.value) is int]  # fmt: skip
        operation = _OPERATORS.get(type(node.op))
        if operation is None or len(numbers) != 2 or isinstance(node.op, ast.FloorDiv) and (
                numbers[1] == 0):  # fmt: skip
            return _Unknown(node)
        return _Literal(operation(*numbers), node)

    def call(self, node: ast.Call, known: Dict[str, Any], depth: int) -> Any:
        function = self.named(node.func, known) if isinstance(node.func, ast.Name) else None
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        given = [self.value_of(each, known, depth) for each in node.args]
        named = {each.arg: self.value_of(each.value, known, depth) for each in node.keywords}
        if name == "model_registry" or isinstance(function, _Registry):
            flavor = given[0] if given else named.get("flavor", _Unknown(node))
            return _Spec(function.model if isinstance(function, _Registry) else "", flavor, node)
        if name in self.functions:
            return self.call_own(self.functions[name], node, given, named, depth)
        last = node.func.attr if isinstance(node.func, ast.Attribute) else name
        is_whole = last[:1].isupper() and not given and None not in named
        return _Config({k: v for k, v in named.items() if k is not None}, node, is_whole)

    def call_own(
        self,
        function: ast.FunctionDef,
        node: ast.Call,
        given: List[Any],
        named: Dict[Optional[str], Any],
        depth: int,
    ) -> Any:
        """Follow a call of a function of the file. The value of a function that cannot be followed
        is unknown, unless the function may have changed a configuration."""
        try:
            return self.run(*self.bound(function, node, given, named), depth + 1)
        except InputError as reason:
            changes = any(isinstance(each, (_Config, _Spec)) for each in [*given, *named.values()])
            if changes or depth >= _MOST_DEPTH:
                raise
            return _Unknown(node, reason)

    def bound(
        self,
        function: ast.FunctionDef,
        node: ast.Call,
        given: List[Any],
        named: Dict[Optional[str], Any],
    ) -> Tuple[ast.FunctionDef, Dict[str, Any]]:
        """Return the function and the values of its parameters for a call."""
        of = function.args
        names = [each.arg for each in of.args]
        is_plain = not (of.posonlyargs or of.vararg or of.kwarg)
        if not is_plain or None in named or len(given) > len(names):
            self.refuse(node, f"expected a call of {function.name}() with plain parameters")
        values: Dict[str, Any] = {}
        pairs = [*zip(names[len(names) - len(of.defaults) :], of.defaults)]
        pairs += [(each.arg, default) for each, default in zip(of.kwonlyargs, of.kw_defaults)
                  if default is not None]  # fmt: skip
        for name, default in pairs:
            values[name] = self.value_of(default, {}, 0)
        values.update(zip(names, given))
        values.update({k: v for k, v in named.items() if k is not None})
        return function, values

    def part_of(self, config: _Config, name: str) -> Optional[_Config]:
        """Return a part of a configuration, such as ``training``; ``None`` if the file has none."""
        part = config.values.get(name)
        if part is None or isinstance(part, _Literal) and part.value is None:
            return None
        return self.whole(part, f"{name}=")

    def whole(self, value: Any, of: str) -> _Config:
        """Return a value that must be the call of a class with named values."""
        if isinstance(value, _Unknown) and value.reason is not None:
            raise value.reason
        if not isinstance(value, _Config) or not value.is_whole:
            self.refuse(value.node, f"expected {of} as a configuration class with named literal "
                                    f"values, found '{_words(value.node)}'")  # fmt: skip
        return value

    def whole_number(self, part: Optional[_Config], key: str) -> Optional[int]:
        """Return a whole number of a part; ``None`` for no number and for one below 1, which
        torchtitan computes."""
        value = part.values.get(key) if part is not None else None
        if value is None:
            return None
        if isinstance(value, _Unknown) and value.reason is not None:
            raise value.reason
        number = value.value if isinstance(value, _Literal) else None
        if not isinstance(number, int) or isinstance(number, bool):
            self.refuse(value.node, f"expected a whole number for {key}, found "
                                    f"'{ast.unparse(value.node)}'; write the number")  # fmt: skip
        return number if number > 0 else None

    def sequences(self, training: Optional[_Config], key: str, length: Optional[int]
                  ) -> Optional[int]:  # fmt: skip
        """Return a number of tokens in sequences; ``None`` if the file has no such number."""
        tokens = self.whole_number(training, key)
        if tokens is None or training is None:
            return None
        if length is None or tokens % length != 0:
            self.refuse(training.values[key].node, f"expected {key} in whole sequences of "
                        f"max_context_length, found {tokens} for {length or 'no length'}"
                        )  # fmt: skip
        return tokens // length

    def spec_of(self, config: _Config) -> Tuple[str, str]:
        """Return the model, empty if the file does not name it, and the flavor."""
        spec = config.values.get("model_spec")
        if spec is None:
            self.refuse(config.node, "expected model_spec=model_registry(\"8B\") or another "
                                     "flavor, found no model_spec")  # fmt: skip
        if not isinstance(spec, _Spec):
            self.refuse(spec.node, "expected model_spec=model_registry(\"8B\") or another flavor, "
                                   f"found '{ast.unparse(spec.node)}'")  # fmt: skip
        flavor = spec.flavor.value if isinstance(spec.flavor, _Literal) else None
        if not isinstance(flavor, str):
            self.refuse(spec.flavor.node, "expected the flavor as a text, found "
                                          f"'{ast.unparse(spec.flavor.node)}'")  # fmt: skip
        return spec.model, flavor


def _words(node: ast.expr) -> str:
    """The source of an expression, cut after 60 characters."""
    text = ast.unparse(node)
    return text if len(text) <= 60 else text[:57] + "..."


def _chosen(reader: _Reader, config: Optional[str]) -> ast.FunctionDef:
    known = [name for name in reader.functions if not name.startswith("_")]
    if config in reader.functions:
        return reader.functions[config]
    if config is None and len(known) == 1:
        return reader.functions[known[0]]
    listed = ", ".join(known) or "none"
    found = "no name" if config is None else f"'{config}'"
    raise UsageError(f"torchtitan: expected a configuration of {reader.file} ({listed}), "
                     f"found {found}")  # fmt: skip


def torchtitan(
    file: PathLike, config: Optional[str] = None, *, model: Optional[str] = None
) -> TorchtitanConfig:
    """Read a configuration of torchtitan 0.3 or later, a Python file, without running the file.

    Parameters
    ----------
    file : path
        A file of functions that return a configuration, such as
        ``torchtitan/models/llama3/config_registry.py``.
    config : str, optional
        The function, as torchtitan's ``--config``. Needed where the file has several.
    model : str, optional
        The model as torchtitan names it. By default that of the module from which the file imports
        ``model_registry``.

    Returns
    -------
    TorchtitanConfig
        Model, batch and degrees of parallelism. Everything else in the file is ignored.

    Raises
    ------
    InputError
        If a value that Orrery needs is no literal, with file, line and column.
    UsageError
        If the file has no such function.

    Examples
    --------
    >>> found = orrery.torchtitan("llama3/config_registry.py", "llama3_8b")
    >>> orrery.plan(found.save("llama3_8b.toml"), "dgx-h100", gpus=512, tokens=2e12)
    """
    path = os.fspath(file)
    try:
        text = Path(path).read_text(encoding="utf-8")
        tree = ast.parse(text, path)
    except OSError as problem:
        raise InputError(f"{path}: error: cannot be read: {problem.strerror}") from None
    except (SyntaxError, ValueError) as problem:
        line, column = getattr(problem, "lineno", 1) or 1, getattr(problem, "offset", 1) or 1
        message = f"expected a Python file, found: {getattr(problem, 'msg', problem)}"
        raise InputError(f"{path}:{line}:{column}: error: {message}", message, path, line, column
                         ) from None  # fmt: skip
    reader = _Reader(path, tree)
    function = _chosen(reader, config)
    found = reader.whole(reader.run(function, {}), f"the result of {function.name}()")
    named, flavor = reader.spec_of(found)
    if not model and not named:
        reader.refuse(found.values["model_spec"].node, "expected an import of model_registry, "
                      "found none: pass model=, for example model=\"llama3\"")  # fmt: skip
    training = reader.part_of(found, "training")
    parallel = reader.part_of(found, "parallelism")
    degrees = {each: reader.whole_number(parallel, each) for each in _DEGREES}
    number = reader.whole_number
    length = number(training, "max_context_length") or number(training, "seq_len")
    return TorchtitanConfig(
        name=function.name,
        model=model or named,
        flavor=flavor,
        sequence_length=length,
        local_batch=number(training, "local_batch_size")
        or reader.sequences(training, "num_tokens_per_microbatch_per_dp_rank", length),
        global_batch=number(training, "global_batch_size")
        or reader.sequences(training, "num_tokens_per_train_step", length),
        degrees={key: value for key, value in degrees.items() if value is not None},
    )
