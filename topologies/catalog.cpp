#include "topologies/catalog.hpp"

#include <algorithm>
#include <string_view>

#include "core/error.hpp"
#include "core/schema/embedded_message.hpp"
#include "topologies/builder.hpp"

namespace orrery {
namespace embedded {
extern const std::string_view gpus_catalog;
extern const std::string_view kernels_catalog;
extern const std::string_view presets_catalog;
}  // namespace embedded

namespace {

bool lists(const google::protobuf::RepeatedPtrField<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

const GpuCatalog& gpu_catalog() {
  static const auto catalog = read_embedded<GpuCatalog>(embedded::gpus_catalog);
  return catalog;
}

const KernelCatalog& kernel_catalog() {
  static const auto catalog = read_embedded<KernelCatalog>(embedded::kernels_catalog);
  return catalog;
}

const KernelProfile& kernel_profile(const std::string& gpu) {
  const KernelCatalog& catalog = kernel_catalog();
  const KernelProfile* fallback = nullptr;
  for (const KernelProfile& profile : catalog.profiles()) {
    if (profile.name() == gpu || lists(profile.gpus(), gpu) ||
        lists(profile.stands_in_for(), gpu)) {
      return profile;
    }
    if (profile.name() == catalog.fallback()) fallback = &profile;
  }
  ensure(fallback != nullptr, "the fallback of kernels.yaml is one of its profiles");
  return *fallback;
}

const PresetCatalog& preset_catalog() {
  static const auto catalog = read_embedded<PresetCatalog>(embedded::presets_catalog);
  return catalog;
}

std::vector<std::string> gpu_names() {
  std::vector<std::string> names;
  for (const GpuSpec& gpu : gpu_catalog().gpus()) names.push_back(gpu.name());
  return names;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const TopologyPreset& preset : preset_catalog().presets()) names.push_back(preset.name());
  return names;
}

}  // namespace orrery
