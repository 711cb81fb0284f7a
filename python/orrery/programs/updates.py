"""Calls before an optimizer changes the parameters. Imported after torch."""

from typing import Any, Callable


def closure_of(arguments: "tuple[Any, ...]", named: "dict[str, Any]") -> Any:
    """Return the closure among the arguments of an optimizer's step; None without one."""
    return named.get("closure") or (arguments[1] if len(arguments) > 1 else None)


def call_before_updates(function: "Callable[[Any], None]") -> None:
    """Calls `function(optimizer)` in each optimizer step, once the gradients are complete.

    A program may give the step a closure that runs the forward and the backward pass, as Lightning
    does. The call then comes at the end of the closure's first evaluation.
    """
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    def before_step(optimizer: Any, arguments: "tuple[Any, ...]", named: "dict[str, Any]") -> Any:
        closure = closure_of(arguments, named)
        if not callable(closure):
            function(optimizer)
            return None
        followed = _followed_once(closure, lambda: function(optimizer))
        if "closure" in named:
            return arguments, {**named, "closure": followed}
        return (arguments[0], followed, *arguments[2:]), named

    register_optimizer_step_pre_hook(before_step)


def _followed_once(closure: "Callable[..., Any]", follow: "Callable[[], None]") -> Any:
    """Return a closure like `closure`, which calls `follow` after its first evaluation."""
    is_first = True

    def evaluate(*arguments: Any, **named: Any) -> Any:
        nonlocal is_first
        result = closure(*arguments, **named)
        if is_first:
            is_first = False
            follow()
        return result

    return evaluate
