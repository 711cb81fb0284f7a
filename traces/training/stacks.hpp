// The shipped software stacks (traces/catalog/stacks.yaml, embedded at build time): how well a
// training framework of some year uses what kernels and links can do. Written by
// python/calibration/fit_stacks.py; read by the cost model and by predictions. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "traces/scenario.pb.h"

namespace orrery {

const StackCatalog& stack_catalog();

/// A stack by name, defaults filled in. Throws bad_input ("job.stack: ...") with the nearest name.
const SoftwareStack& software_stack(const std::string& name);

/// The job's own, else the one it names, else the generic one.
const SoftwareStack& stack_of(const Job& job);

/// What the stack says of a GPU model, by name or else by family; null if nothing.
const StackOnGpu* stack_on_gpu(const SoftwareStack& stack, const std::string& gpu,
                               const std::string& family = {});

std::vector<std::string> stack_names();

/// What is to be said of a job whose prices know no framework: its step time is a lower bound.
/// Empty where a stack, a pace or the model live mode trains says what the software costs.
std::string unfitted_warning(const Job& job);

}  // namespace orrery
