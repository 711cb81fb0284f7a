#include "policies/run/known_names.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "policies/run/registry.hpp"
#include "policies/seam/policy.hpp"
#include "topologies/builder.hpp"
#include "topologies/catalog.hpp"
#include "traces/scenario/price_table.hpp"
#include "traces/workload/model.hpp"
#include "traces/workload/stacks.hpp"

namespace orrery {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

std::vector<KnownName> models() {
  std::vector<KnownName> out;
  for (const std::string& name : model_names()) {
    Model model;
    model.set_preset(name);
    resolve(model, {}, "model");
    std::string about = fmt::format("{:.4g} billion parameters, {} layers, hidden {}",
                                    parameter_count(model) / 1e9, model.layers(), model.hidden());
    if (model.has_experts()) {
      about +=
          fmt::format(", {} experts, {} a token", model.experts().count(), model.experts().top_k());
    }
    out.push_back({name, about});
  }
  return out;
}

std::vector<KnownName> clusters() {
  std::vector<KnownName> out;
  for (const TopologyPreset& preset : preset_catalog().presets()) {
    const NodeSpec& node = preset.node();
    const FabricSpec& fabric = preset.fabric();
    std::string about = fmt::format("{} {} a node, {} NICs of {:g} Gbps, {}", node.gpus_per_node(),
                                    node.gpu(), node.nics_per_node(), node.nic_bandwidth() / 1.25e8,
                                    fabric.has_kind() ? fabric.kind() : std::string("fat-tree"));
    if (fabric.nodes_per_unit() > 0) {
      about += fmt::format(" of {} nodes a unit", fabric.nodes_per_unit());
    }
    if (node.nvlink_domain() > 1) {
      about += fmt::format(", NVLink over {} nodes", node.nvlink_domain());
    }
    out.push_back({preset.name(), about});
  }
  return out;
}

std::vector<KnownName> gpus() {
  std::vector<KnownName> out;
  for (const GpuSpec& gpu : gpu_catalog().gpus()) {
    out.push_back({gpu.name(), fmt::format("{:.1f} GiB at {:.4g} TB/s, {:.4g} bf16 TFLOP/s, "
                                           "NVLink {:g} GB/s",
                                           gpu.memory() / kGiB, gpu.memory_bandwidth() / 1e12,
                                           gpu.bf16() / 1e12, gpu.nvlink() / 1e9)});
  }
  return out;
}

/// GPUs of the catalogue on which a stack has the same support, and the classes of its fitted runs
/// there.
struct SupportedGpus {
  StackSupport support;
  std::string classes;
  std::vector<std::string> gpus;
};

/// Returns the GPUs of the catalogue by a stack's support: measured ones by their classes of runs,
/// then those between measured ones, then the rest.
std::vector<SupportedGpus> supported_gpus(const SoftwareStack& stack) {
  std::vector<SupportedGpus> out;
  for (const GpuSpec& gpu : gpu_catalog().gpus()) {
    const std::string family = kernel_family(gpu);
    const StackOnGpu* on = stack_on_gpu(stack, gpu.name(), family);
    SupportedGpus here{support_of(stack, gpu.name(), family, {}), {}, {}};
    if (on != nullptr && !on->measured().empty()) {
      here.support = StackSupport::measured;
      here.classes = fmt::to_string(fmt::join(on->measured(), ", "));
    }
    auto same = std::find_if(out.begin(), out.end(), [&here](const SupportedGpus& each) {
      return each.support == here.support && each.classes == here.classes;
    });
    if (same == out.end()) same = out.insert(out.end(), here);
    same->gpus.push_back(gpu.name());
  }
  std::stable_sort(out.begin(), out.end(), [](const SupportedGpus& a, const SupportedGpus& b) {
    return a.support < b.support;
  });
  return out;
}

/// Returns "measured on A100 (dense 16); between on H100; transferred on V100" for a stack: the
/// states that predictions with the stack have (PredictionState).
std::string support_words(const SoftwareStack& stack) {
  std::string words;
  for (const SupportedGpus& each : supported_gpus(stack)) {
    words += fmt::format("{}{} on {}", words.empty() ? "" : "; ", name_of(each.support),
                         fmt::join(each.gpus, ", "));
    if (!each.classes.empty()) words += fmt::format(" ({})", each.classes);
  }
  return words;
}

std::vector<KnownName> stacks() {
  std::vector<KnownName> out;
  for (const SoftwareStack& stack : stack_catalog().stacks()) {
    std::string about = "factors fitted to published runs";
    if (!stack.kin().empty()) about = "factors of " + stack.kin();
    if (is_generic(stack)) about = "kernels as fast as when measured alone";
    out.push_back({stack.name(), fmt::format("{}; {}", about, support_words(stack))});
  }
  return out;
}

std::vector<KnownName> policies() {
  std::vector<KnownName> out;
  const std::vector<std::string> queues = queue_policy_names();
  for (const std::string& name : policy_names()) {
    const Needs needs = make_policy(name, {})->needs();
    std::vector<std::string_view> decides;
    for (std::size_t i = 0; i < action_names().size(); ++i) {
      if (needs.actions.has_index(i)) decides.push_back(action_names()[i]);
    }
    for (std::size_t i = 0; i < setting_names().size(); ++i) {
      if (needs.settings.has_index(i)) decides.push_back(setting_names()[i]);
    }
    const bool queues_jobs = std::binary_search(queues.begin(), queues.end(), name);
    out.push_back({name, fmt::format("of {}; decides {}", queues_jobs ? "job queues" : "trainings",
                                     decides.empty() ? "nothing"
                                                     : fmt::to_string(fmt::join(decides, ", ")))});
  }
  std::stable_partition(out.begin(), out.end(), [&queues](const KnownName& each) {
    return std::binary_search(queues.begin(), queues.end(), each.name);
  });
  return out;
}

std::vector<KnownName> prices() {
  std::vector<KnownName> out;
  for (const PriceRow& row : price_table()) {
    std::string about = fmt::format("{}, {:g} {}", name_of(row.kind), row.value, unit_of(row.kind));
    if (row.gpus > 0) about += fmt::format(" for {} {}", row.gpus, row.gpu);
    out.push_back({row.name, fmt::format("{}, {} ({})", about, row.date, row.source)});
  }
  return out;
}

struct Kind {
  std::string_view name;
  std::vector<KnownName> (*names)();
};
constexpr std::array kKinds{Kind{"models", models},     Kind{"clusters", clusters},
                            Kind{"gpus", gpus},         Kind{"stacks", stacks},
                            Kind{"policies", policies}, Kind{"prices", prices}};

}  // namespace

std::vector<std::string> kinds_of_names() {
  std::vector<std::string> out;
  for (const Kind& kind : kKinds) out.emplace_back(kind.name);
  return out;
}

std::vector<KnownName> known_names(std::string_view kind) {
  for (const Kind& each : kKinds) {
    if (each.name == kind) return each.names();
  }
  const std::vector<std::string> kinds = kinds_of_names();
  throw Error(ErrorKind::usage,
              fmt::format("there is nothing to list named '{}'{}: expected {}", kind,
                          did_you_mean(kind, kinds), fmt::join(kinds, ", ")));
}

}  // namespace orrery
