"""Programs that need what does not exist: values that no kernel computed, operators without a fake
kernel, memory of the device, extensions that are called by address. hidden_values.py has more.
`refusals.py` runs each as one function and prints, as JSON, how each ends: exit code, message, and
lines of the function.

The rehearsal ends a program by os._exit, which this file replaces, so that one process is enough.
"""

import contextlib
import copy
import inspect
import io
import json
import math
import os
import statistics
import sys

import torch
from refused import N, PROGRAMS, mask, program, unknown, whole

ENDS = []


class Ended(BaseException):
    """End of a program; its exit code is in ENDS."""


def define(name, schema):
    torch.library.define(f"absent::{name}", schema)
    return getattr(torch.ops.absent, name)


# Branches and shapes.


@program
def branch_on_a_loss():
    if unknown().item() < 3:
        pass


@program
def truth_of_a_tensor():
    if unknown():
        pass


@program
def comparison_of_tensors():
    if unknown() < 3:
        pass


@program
def loop_until_converged():
    while unknown() > 1:
        pass


@program
def assertion_on_a_loss():
    assert unknown().item() == 1


@program
def maximum_of_losses():
    max(unknown().item(), unknown().item())


@program
def sorted_losses():
    sorted([unknown().item(), unknown().item()])


@program
def integer_of_a_value():
    int(whole().item())


@program
def integer_of_a_tensor():
    int(whole())


@program
def range_of_a_value():
    range(whole().item())


@program
def floor_of_a_value():
    range(math.floor(unknown().item()))


@program
def ceiling_of_a_value():
    [1, 2][math.ceil(whole().item())]


@program
def truncated_value():
    [1, 2][math.trunc(unknown().item())]


@program
def remainder_of_a_value():
    int(divmod(unknown().item(), 2)[1])


@program
def sign_of_a_value():
    bool(+unknown().item() > 2)


@program
def copied_losses():
    bool(copy.deepcopy({"loss": unknown().item()})["loss"] > 2)


@program
def whole_number_by_its_value():
    unknown().item().is_integer()


@program
def mean_by_statistics():
    bool(statistics.mean([unknown().item()]) > 2)


@program
def not_a_number_by_math():
    if math.isnan(unknown().item()):
        pass


@program
def finite_by_math():
    if not math.isfinite(unknown().item()):
        pass


@program
def index_of_a_list():
    [1, 2][whole().item()]


@program
def slice_of_a_value():
    torch.ones(4, device="cuda")[: whole().item()]


@program
def slice_of_a_tensor():
    torch.ones(4, device="cuda")[: whole()]


@program
def shape_of_a_value():
    torch.ones(whole().item(), device="cuda")


@program
def view_of_a_value():
    torch.ones(4, device="cuda").view(whole().item(), -1)


@program
def array_of_values():
    torch.randn(N, device="cuda").cpu().numpy()


@program
def iteration_over_values():
    for each in torch.randn(N, device="cuda")[:2]:
        bool(each > 0)


@program
def allclose():
    torch.allclose(torch.randn(N, device="cuda"), torch.randn(N, device="cuda"))


@program
def equal():
    torch.equal(torch.randn(N, device="cuda"), torch.randn(N, device="cuda"))


@program
def any_not_finite():
    if torch.isnan(torch.randn(N, device="cuda")).any():
        pass


@program
def membership():
    3 in torch.randn(N, device="cuda")


@program
def learning_rate_by_loss():
    weight = torch.nn.Parameter(torch.ones(4, device="cuda"))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    schedule.step(unknown().item())


@program
def gradient_norm_decides():
    weight = torch.nn.Parameter(torch.randn(N, device="cuda"))
    weight.square().sum().backward()
    if torch.nn.utils.clip_grad_norm_([weight], 1.0).item() > 10:
        pass


@program
def error_if_not_finite():
    weight = torch.nn.Parameter(torch.randn(N, device="cuda"))
    weight.square().sum().backward()
    torch.nn.utils.clip_grad_norm_([weight], 1.0, error_if_nonfinite=True)


@program
def anomaly_detection():
    with torch.autograd.detect_anomaly(check_nan=True):
        weight = torch.nn.Parameter(torch.randn(N, device="cuda"))
        weight.square().sum().backward()


@program
def line_search():
    weight = torch.nn.Parameter(torch.randn(N, device="cuda"))
    optimizer = torch.optim.LBFGS([weight])

    def closure():
        optimizer.zero_grad()
        loss = weight.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)


@program
def early_stopping():
    best = min(float("inf"), unknown().item())
    str(best)


@program
def loss_is_a_number():
    loss = unknown().item()
    if loss != loss:
        pass


@program
def check_of_a_test():
    torch.testing.assert_close(torch.randn(N, device="cuda"), torch.randn(N, device="cuda"))


@program
def all_are_positive():
    assert (torch.randn(N, device="cuda") > 0).all()


@program
def array_by_numpy():
    import numpy

    numpy.asarray(torch.randn(N, device="cuda").cpu())


@program
def sorted_list_of_values():
    sorted(torch.randn(N, device="cuda")[:4].tolist())


@program
def length_of_a_sequence():
    torch.arange(whole(), device="cuda")


# Shapes that depend on values.


@program
def nonzero():
    mask().nonzero()


@program
def boolean_mask():
    torch.randn(N, device="cuda")[mask()]


@program
def masked_select():
    torch.masked_select(torch.randn(N, device="cuda"), mask())


@program
def where_of_a_mask():
    torch.where(mask())


@program
def unique():
    torch.unique(torch.randn(N, device="cuda"))


@program
def unique_consecutive():
    torch.unique_consecutive(torch.randn(N, device="cuda"))


@program
def repeats():
    counts = torch.randint(3, (N,), device="cuda")
    torch.repeat_interleave(torch.randn(N, device="cuda"), counts)


@program
def counts():
    torch.bincount(torch.randint(3, (N,), device="cuda"))


@program
def split_by_counts():
    sizes = torch.randint(3, (N,), device="cuda")
    torch.randn(N, device="cuda").split(sizes.tolist())


@program
def tokens_of_experts():
    choice = torch.randn(N // 8, 8, device="cuda").argmax(1)
    [torch.randn(N // 8, 4, device="cuda")[choice == each] for each in range(8)]


@program
def packed_sequences():
    lengths = torch.randint(1, 9, (N,), device="cuda")
    torch.nn.utils.rnn.pack_padded_sequence(
        torch.randn(N, 8, 1, device="cuda"), lengths, batch_first=True
    )


@program
def classes_of_labels():
    torch.nn.functional.one_hot(torch.randint(3, (N,), device="cuda"))


@program
def argwhere():
    torch.argwhere(mask())


@program
def rows_of_experts():
    choice = torch.randn(N, 8, device="cuda").argmax(1)
    counts = torch.histc(choice.float(), bins=8, min=0, max=7)
    torch.empty(int(counts.view(2, 4).sum(1)[0]), device="cuda")


@program
def sizes_of_an_exchange():
    choice = torch.randn(N, 8, device="cuda").argmax(1)
    counts = torch.histc(choice.float(), bins=8, min=0, max=7).int()
    torch.randn(N, device="cuda").split(counts.tolist())


# Operators without a fake kernel.


@program
def operator_without_a_fake_kernel():
    define("swish", "(Tensor x) -> Tensor")(torch.ones(4, device="cuda"))


@program
def operator_with_a_cuda_kernel_only():
    call = define("gelu", "(Tensor x) -> Tensor")
    torch.library.impl("absent::gelu", "CUDA", lambda x: x.clone())
    call(torch.ones(4, device="cuda"))


@program
def custom_op_without_a_fake_kernel():
    @torch.library.custom_op("absent::norm", mutates_args=())
    def norm(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    norm(torch.ones(4, device="cuda"))


@program
def operator_in_a_backward_pass():
    call = define("backward_part", "(Tensor x) -> Tensor")

    class Own(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x.clone()

        @staticmethod
        def backward(context, gradient):
            return call(gradient)

    Own.apply(torch.nn.Parameter(torch.ones(4, device="cuda"))).sum().backward()


@program
def operator_of_several_results():
    define("route", "(Tensor x) -> (Tensor, Tensor)")(torch.ones(4, device="cuda"))


@program
def operator_of_a_list():
    define("pack", "(Tensor[] x) -> Tensor")([torch.ones(4, device="cuda")])


# Extensions that read memory of the device.


@program
def array_interface():
    torch.randn(N, device="cuda").__cuda_array_interface__


@program
def dlpack():
    torch.utils.dlpack.to_dlpack(torch.randn(N, device="cuda"))


@program
def dlpack_of_the_protocol():
    torch.randn(N, device="cuda").__dlpack__()


@program
def storage_of_bytes():
    bytes(torch.randn(N, device="cuda").untyped_storage())


@program
def shared_memory_between_processes():
    torch.randn(N, device="cuda").untyped_storage()._share_cuda_()


@program
def source_compiled_at_run_time():
    from torch.cuda import _compile_kernel

    _compile_kernel("extern \"C\" __global__ void f(float* x) {}", "f")


@program
def kernel_package_without_a_stand_in():
    from flash_attn.flash_attn_interface import flash_attn_with_kvcache

    flash_attn_with_kvcache(torch.randn(N, device="cuda"))


import hidden_values  # noqa: E402, F401: its process group replaces sys.excepthook


def end_of(call):
    """Returns how a program ends: exit code and the text that it prints to standard error."""
    said = io.StringIO()
    ENDS.clear()
    with contextlib.redirect_stderr(said):
        try:
            try:
                call()
            except Exception as error:
                sys.excepthook(type(error), error, error.__traceback__)
                finish(1)
        except Ended:  # a call in C++ may have replaced an earlier one
            pass
    return ENDS[0] if ENDS else 0, said.getvalue()


def lines_of(call):
    """Returns the first and the last line of a function, functions inside included."""
    found = inspect.getsourcelines(call)
    return found[1], found[1] + len(found[0]) - 1


def finish(code):
    ENDS.append(code)
    raise Ended


real_exit, os._exit = os._exit, finish
sys.modules["orrery_programs.session"].Session.send_report = lambda session: None
chosen = sys.argv[1:] or list(PROGRAMS)
print(json.dumps({name: [*end_of(PROGRAMS[name]), *lines_of(PROGRAMS[name])] for name in chosen}))
os._exit = real_exit
