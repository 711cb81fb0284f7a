"""Prices that the user registers for operators that the kernel tables lack (`--prices FILE`).

One operator a line: its name, then ``time_s=`` or ``flops=`` and ``bytes=`` with a formula of the
shapes. ``in0[1]`` is dimension 1 of the first tensor input, ``out0[0]`` dimension 0 of the first
output, ``in_bytes`` and ``out_bytes`` are the bytes of all inputs and outputs::

    mylib::swiglu      bytes=in_bytes+out_bytes
    mylib::moe_gemm    flops=2*in0[0]*in0[1]*in1[2]  bytes=in_bytes+out_bytes
    host               time_s=6e-6
"""

import ast
import operator
from typing import Any, Callable, Mapping, Sequence

Shape = Sequence[int]
KEYS = ("time_s", "flops", "bytes")
_BINARY: "dict[type[ast.operator], Callable[[Any, Any], Any]]" = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}


class PriceFileError(ValueError):
    """Line of a price file that is not a price; the message has the place."""


def _value(node: ast.AST, names: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_value(node.left, names), _value(node.right, names))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, names)
    if isinstance(node, ast.Subscript):
        return _value(node.value, names)[_value(node.slice, names)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        called = {"min": min, "max": max}.get(node.func.id)
        if called is not None:
            return called(*(_value(each, names) for each in node.args))
    raise ValueError(f"'{ast.unparse(node)}' is no number, shape or operation of a formula")


class RegisteredPrice:
    """Formulas of one operator.

    Parameters
    ----------
    formulas : mapping of str to str
        Formula of ``time_s``, or of ``flops`` and ``bytes``.
    """

    def __init__(self, formulas: Mapping[str, str]) -> None:
        self._trees = {key: ast.parse(text, mode="eval").body for key, text in formulas.items()}

    def values(
        self, inputs: Sequence[Shape], outputs: Sequence[Shape], in_bytes: int, out_bytes: int
    ) -> "dict[str, float]":
        """Return the values of the formulas, by key.

        Raises
        ------
        ValueError, IndexError
            If a formula names a tensor or a dimension that the call lacks.
        """
        names: "dict[str, Any]" = {"in_bytes": in_bytes, "out_bytes": out_bytes}
        names.update({f"in{i}": shape for i, shape in enumerate(inputs)})
        names.update({f"out{i}": shape for i, shape in enumerate(outputs)})
        return {key: float(_value(tree, names)) for key, tree in self._trees.items()}


def read_prices(text: str, file: str) -> "dict[str, RegisteredPrice]":
    """Return the prices of a file by operator.

    Parameters
    ----------
    text, file : str
        Content and name of the file.

    Raises
    ------
    PriceFileError
        If a line is not an operator with formulas; with ``file:line``.
    """
    prices = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        formulas = dict(word.partition("=")[::2] for word in words[1:])
        if not formulas or not set(formulas) <= set(KEYS) or not all(formulas.values()):
            raise PriceFileError(
                f"{file}:{number}: expected NAME time_s=FORMULA or NAME flops=FORMULA "
                f"bytes=FORMULA without spaces in a formula, found '{line.strip()}'"
            )
        try:
            prices[words[0]] = RegisteredPrice(formulas)
        except SyntaxError:
            raise PriceFileError(
                f"{file}:{number}: expected arithmetic of shapes, found '{line.strip()}'"
            ) from None
    return prices
