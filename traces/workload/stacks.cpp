#include "traces/workload/stacks.hpp"

#include <algorithm>
#include <string_view>

#include "core/error.hpp"
#include "core/schema/embedded_message.hpp"

namespace orrery {

namespace embedded {
extern const std::string_view stacks_catalog;
}

namespace {
const std::string kGeneric = "generic";  // kernels as they were measured, and nothing else

bool has_runs(const StackOnGpu& on) { return !on.measured().empty(); }
}  // namespace

const StackCatalog& stack_catalog() {
  static const auto loaded = read_embedded<StackCatalog>(embedded::stacks_catalog);
  return loaded;
}

const SoftwareStack& software_stack(const std::string& name) {
  for (const SoftwareStack& each : stack_catalog().stacks()) {
    if (each.name() == name) return each;
  }
  throw Error(ErrorKind::bad_input, "job.stack: no software stack is named '" + name + "'" +
                                        did_you_mean(name, stack_names()));
}

const SoftwareStack& stack_of(const Job& job) {
  if (job.has_software()) return job.software();
  return software_stack(job.stack().empty() ? kGeneric : job.stack());
}

StackSupport support_of(const SoftwareStack& stack, const std::string& gpu,
                        const std::string& family, const std::string& run_class) {
  if (const StackOnGpu* on = stack_on_gpu(stack, gpu, family)) {
    const auto& measured = on->measured();
    if (std::find(measured.begin(), measured.end(), run_class) != measured.end()) {
      return StackSupport::measured;
    }
  }
  const bool stack_known = std::any_of(stack.on().begin(), stack.on().end(), has_runs);
  const auto& all = stack_catalog().stacks();
  const bool gpu_known = std::any_of(all.begin(), all.end(), [&](const SoftwareStack& each) {
    const StackOnGpu* here = stack_on_gpu(each, gpu, family);
    return here != nullptr && has_runs(*here);
  });
  return stack_known && gpu_known ? StackSupport::between : StackSupport::transferred;
}

bool is_generic(const SoftwareStack& stack) { return stack.name() == kGeneric; }

const StackOnGpu* stack_on_gpu(const SoftwareStack& stack, const std::string& gpu,
                               const std::string& family) {
  for (const StackOnGpu& on : stack.on()) {
    if (std::find(on.gpus().begin(), on.gpus().end(), gpu) != on.gpus().end()) return &on;
  }
  // A table's GPU with other memory or other links is named after the catalogue's.
  for (const StackOnGpu& on : stack.on()) {
    const auto is_variant = [&](const std::string& of) { return gpu.starts_with(of + "-"); };
    if (std::any_of(on.gpus().begin(), on.gpus().end(), is_variant)) return &on;
  }
  for (const StackOnGpu& on : stack.on()) {
    if (!family.empty() && on.family() == family) return &on;
  }
  return nullptr;
}

std::vector<std::string> stack_names() {
  std::vector<std::string> names;
  for (const SoftwareStack& each : stack_catalog().stacks()) names.push_back(each.name());
  return names;
}

std::string unfitted_warning(const Job& job) {
  const bool generic = job.stack().empty() || job.stack() == kGeneric;
  if (job.has_program()) return {};
  if (!generic || job.has_software() || job.has_pace() || !job.model().builtin().empty()) return {};
  return "job.stack is not given: kernels run as fast as when measured alone, which no framework "
         "reaches, so the step is too fast; name the framework, such as nemo or megatron-core "
         "(docs/scenario.md lists them)";
}

}  // namespace orrery
