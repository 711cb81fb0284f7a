// Shipped software stacks (traces/catalog/stacks.yaml, embedded at build time): efficiency of a
// training framework of some year relative to the limits of kernels and links. Written by
// python/calibration/fit_stacks.py; read by the cost model and by predictions. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/schema/names.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Returns all stacks.
const StackCatalog& stack_catalog();

/// Returns a stack by name, with defaults. Throws bad_input ("job.stack: ...") with the nearest
/// name.
const SoftwareStack& software_stack(const std::string& name);

/// Returns the job's own stack, else the named one, else the generic one. Throws as
/// software_stack() does. The reference may point into `job`.
const SoftwareStack& stack_of(const Job& job);

/// Returns the stack's factors for a GPU model, by name or else by family; null if none exist.
const StackOnGpu* stack_on_gpu(const SoftwareStack& stack, const std::string& gpu,
                               const std::string& family = {});

/// Support of a stack on a GPU model by fitted runs. measured: runs of the class were fitted;
/// between: others of the stack were, and others on the GPU, of any stack; transferred: the stack
/// or the GPU has none.
enum class StackSupport : std::uint8_t { measured, between, transferred };
constexpr std::array<std::string_view, 3> names_of(StackSupport) {
  return {"measured", "between", "transferred"};
}

/// Returns the support of a class of runs, for example "dense 16" (StackOnGpu.measured), on a GPU
/// model, by name or else by family.
StackSupport support_of(const SoftwareStack& stack, const std::string& gpu,
                        const std::string& family, const std::string& run_class);

/// Returns true for the stack without factors: kernels as fast as when measured alone.
bool is_generic(const SoftwareStack& stack);

/// Returns the names of all stacks.
std::vector<std::string> stack_names();

/// Returns the warning for a job whose prices include no framework: its step time is a lower bound.
/// Empty if a stack, a pace or a model of live mode gives the cost of the software.
std::string unfitted_warning(const Job& job);

}  // namespace orrery
