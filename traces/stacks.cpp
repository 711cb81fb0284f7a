#include "traces/stacks.hpp"

#include <algorithm>
#include <string_view>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"

namespace orrery {

namespace embedded {
extern const std::string_view stacks_yaml;
}

const StackCatalog& stack_catalog() {
  static const StackCatalog loaded = [] {
    StackCatalog stacks;
    load_yaml(embedded::stacks_yaml, "traces/catalog/stacks.yaml", stacks);
    for (SoftwareStack& stack : *stacks.mutable_stacks()) fill_defaults(stack);
    return stacks;
  }();
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
  return software_stack(job.stack().empty() ? "generic" : job.stack());
}

const StackOnGpu* stack_on_gpu(const SoftwareStack& stack, const std::string& gpu) {
  for (const StackOnGpu& on : stack.on()) {
    if (std::find(on.gpus().begin(), on.gpus().end(), gpu) != on.gpus().end()) return &on;
  }
  return nullptr;
}

std::vector<std::string> stack_names() {
  std::vector<std::string> names;
  for (const SoftwareStack& each : stack_catalog().stacks()) names.push_back(each.name());
  return names;
}

}  // namespace orrery
