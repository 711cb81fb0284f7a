"""Programs that decide by an unknown value behind a conversion, a function of C, a text, a tensor
of the CPU or a collective. `refusals.py` runs them.
"""

import collections
import fractions
import functools
import math
import statistics

import torch
import torch.distributed as dist
from refused import program, unknown, whole


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
def slope_of_a_value():
    torch.nn.functional.leaky_relu(torch.ones(4), whole().item())


@program
def fraction_of_a_value():
    fractions.Fraction(unknown().item())


@program
def complex_of_a_value():
    if complex(unknown().item()) == 1:
        pass


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
