"""Programs that need what does not exist: values that no kernel computed, operators without a fake
kernel, memory of the device, extensions that are called by address. `refusals.py` runs each as one
function and prints, as JSON, how each ends: exit code, message, and lines of the function.

The rehearsal ends a program by os._exit, which this file replaces, so that one process is enough.
"""

import collections
import contextlib
import copy
import fractions
import functools
import inspect
import io
import json
import math
import os
import statistics
import sys

import torch
import torch.distributed as dist

N = 1 << 15


class Ended(BaseException):
    """End of a program; its exit code is in ENDS."""


def unknown():
    """A number on the device that no kernel computed."""
    return torch.randn(N, device="cuda").mean()


def mask():
    return torch.randn(N, device="cuda") > 0


def whole():
    return torch.randn(N, device="cuda").sum().long()


def define(name, schema):
    torch.library.define(f"absent::{name}", schema)
    return getattr(torch.ops.absent, name)


def program(function):
    PROGRAMS[function.__name__] = function
    return function


PROGRAMS, ENDS = {}, []

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


# Unknown values behind conversions, functions of C, text, and tensors of the CPU.


@program
def float_of_a_value():
    if float(unknown().item()) < 3:
        pass


@program
def float_of_a_tensor():
    if float(unknown()) < 3:
        pass


@program
def floats_of_values():
    max(map(float, [unknown(), whole().item()]))


@program
def perplexity():
    if math.exp(unknown().item()) < 3:
        pass


@program
def norm_of_norms():
    if math.sqrt(math.fsum(each**2 for each in [unknown().item()])) > 3:
        pass


@program
def close_by_math():
    if math.isclose(unknown().item(), 1):
        pass


@program
def mean_by_numpy():
    import numpy

    if numpy.mean([unknown().item(), 2.0]) < 3:
        pass


@program
def window_by_numpy():
    import numpy

    if numpy.median(collections.deque([unknown().item()], maxlen=9)) < 3:
        pass


@program
def array_of_numbers():
    import numpy

    numpy.array([unknown().item(), 2.0])


@program
def function_of_numpy():
    import numpy

    if numpy.exp(unknown().item()) < 3:
        pass


@program
def number_of_numpy():
    import numpy

    if numpy.float64(2) * unknown().item() < numpy.float32(3):
        pass


@program
def added_to_an_array():
    import numpy

    total = numpy.zeros(2)
    total += unknown().item()


@program
def not_a_number_by_numpy():
    import numpy

    if numpy.isnan(unknown().item()):
        pass


@program
def rounded_by_text():
    if float(f"{unknown().item():.3f}") < 3:
        pass


@program
def integer_by_text():
    range(int(f"{unknown().item():.0f}"))


@program
def tensor_of_a_number():
    if torch.tensor(unknown().item()) < 3:
        pass


@program
def tensor_of_numbers():
    losses = torch.tensor([unknown().item() for _ in range(3)])
    if losses.mean() < 3:
        pass


@program
def tensor_on_the_device():
    if (torch.tensor(unknown().item(), device="cuda") + 1).item() < 3:
        pass


@program
def filled_tensor():
    if torch.full((2,), unknown().item()).sum().item() < 3:
        pass


@program
def filled_in_place():
    if torch.zeros(2).fill_(unknown().item())[0] < 3:
        pass


@program
def assigned_to_an_element():
    losses = torch.zeros(3)
    losses[1] = unknown().item()
    if losses[1] < 3:
        pass


@program
def assigned_as_a_tensor():
    losses = torch.zeros(3)
    losses[1] = unknown()
    if losses.max() < 3:
        pass


@program
def assigned_on_the_device():
    losses = torch.zeros(3, device="cuda")
    losses[1] = unknown().item()
    if losses.max() < 3:
        pass


@program
def sum_on_the_cpu():
    total = torch.zeros(1)
    total += unknown().item()
    if total.item() < 3:
        pass


@program
def product_with_a_tensor_of_the_cpu():
    if 2 - torch.ones(1) * unknown().item() < 3:
        pass


@program
def number_before_a_tensor_of_the_cpu():
    if (unknown().item() / torch.ones(1)).item() < 3:
        pass


@program
def known_tensor_of_the_device():
    if torch.ones(1, device="cuda") * unknown().item() < 3:
        pass


@program
def comparison_with_a_tensor_of_the_cpu():
    if torch.ones(1) < unknown().item():
        pass


@program
def limit_of_a_tensor():
    if torch.ones(2).clamp(max=unknown().item()).sum() < 3:
        pass


@program
def copied_to_the_cpu():
    host = torch.empty(1)
    host.copy_(unknown())
    if host.item() < 3:
        pass


@program
def view_of_a_tensor_of_the_cpu():
    losses = torch.zeros(4)
    losses.view(2, 2)[1].add_(unknown().item())
    losses.numpy()


@program
def moved_to_the_device():
    host = torch.tensor([unknown().item()])
    if host.cuda().item() < 3:
        pass


@program
def shape_by_a_tensor_of_the_cpu():
    torch.ones(int(torch.tensor(whole().item()) * 2))


@program
def reduced_on_the_cpu():
    if sum(torch.tensor([unknown().item(), 1.0]).tolist()) < 3:
        pass


@program
def bits_of_a_value():
    if whole().item() & 1:
        pass


@program
def shifted_value():
    range(whole().item() << 2)


@program
def inverted_value():
    range(~whole().item() ^ 7)


@program
def view_of_a_shape():
    torch.ones(4, device="cuda").view(-1, whole().item())


@program
def reshape_by_a_list():
    torch.ones(4).reshape([whole().item(), 4])


@program
def expansion():
    torch.ones(1, device="cuda").expand(whole().item())


@program
def repeated_list():
    [0] * whole().item()


@program
def narrow_tensor():
    torch.ones(8, device="cuda").narrow(0, 0, whole().item())


@program
def top_values():
    torch.ones(8, device="cuda").topk(whole().item())


@program
def size_of_a_filled_tensor():
    torch.full((whole().item(),), 1.0)


@program
def end_of_a_range():
    torch.arange(unknown().item())


@program
def element_by_a_value():
    torch.ones(4)[whole().item()]


@program
def element_that_is_assigned():
    torch.ones(4)[whole().item()] = 1


@program
def mean_of_floats_by_statistics():
    if statistics.fmean([unknown().item()]) < 3:
        pass


@program
def fraction_of_a_value():
    fractions.Fraction(unknown().item())


@program
def complex_of_a_value():
    if complex(unknown().item()) == 1:
        pass


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


# Collectives of unknown values. The last programs: a process group replaces sys.excepthook.


@functools.cache
def hosts():
    """Returns the group of the CPU; makes all groups at the first call."""
    dist.init_process_group("nccl")
    return dist.new_group(backend="gloo")


@program
def reduced_among_ranks():
    hosts()
    loss = torch.tensor(unknown().item(), device="cuda")
    dist.all_reduce(loss)
    if loss < 3:
        pass


@program
def reduced_among_hosts():
    loss = torch.tensor([unknown().item()])
    dist.all_reduce(loss, group=hosts())
    if loss.item() < 3:
        pass


@program
def gathered_among_hosts():
    hosts()
    losses = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(losses, torch.tensor([unknown().item()]), group=hosts())
    if losses[0].item() < 3:
        pass


@program
def gathered_objects():
    hosts()
    losses = [None] * dist.get_world_size()
    dist.all_gather_object(losses, {"loss": unknown().item()})
    if losses[1]["loss"] < 3:
        pass


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
