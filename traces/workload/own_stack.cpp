#include "traces/workload/own_stack.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/files/file_kind.hpp"
#include "core/schema/yaml_loader.hpp"
#include "traces/workload/stacks.hpp"

namespace orrery {
namespace {

bool is_shipped(const std::string& name) {
  const std::vector<std::string> names = stack_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

SoftwareStack load_own_stack(const std::string& path) {
  StackCatalog catalog;
  load_yaml_file(path, catalog);
  const auto fail = [&](const std::string& message) {
    throw Error(ErrorKind::bad_input, path + ": " + message);
  };
  if (catalog.stacks_size() != 1) {
    fail(fmt::format("expected one stack, as orrery calibrate --runs writes it, found {}",
                     catalog.stacks_size()));
  }
  SoftwareStack stack = catalog.stacks(0);
  if (is_shipped(stack.name())) {
    fail("expected a name of its own, found that of the shipped stack '" + stack.name() + "'");
  }
  if (!is_shipped(stack.kin())) {
    fail("expected the name of a shipped stack at 'kin', found '" + stack.kin() + "'" +
         did_you_mean(stack.kin(), stack_names()));
  }
  fill_defaults(stack);
  return stack;
}

bool is_own(const SoftwareStack& stack) {
  return !stack.kin().empty() && is_shipped(stack.kin()) && !is_shipped(stack.name());
}

bool names_own_stack(const std::string& name) { return !is_shipped(name) && is_file(name); }

}  // namespace orrery
