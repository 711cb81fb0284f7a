#include "topologies/catalog.hpp"

#include <string_view>

#include "core/schema/yaml_loader.hpp"
#include "topologies/builder.hpp"

namespace orrery {
namespace embedded {
extern const std::string_view gpus_yaml;
extern const std::string_view presets_yaml;
}  // namespace embedded

namespace {

template <class Catalog>
Catalog load_catalog(std::string_view text, const std::string& file) {
  Catalog catalog;
  load_yaml(text, file, catalog);
  fill_defaults(catalog);
  return catalog;
}

}  // namespace

const GpuCatalog& gpu_catalog() {
  static const auto catalog =
      load_catalog<GpuCatalog>(embedded::gpus_yaml, "topologies/catalog/gpus.yaml");
  return catalog;
}

const PresetCatalog& preset_catalog() {
  static const auto catalog =
      load_catalog<PresetCatalog>(embedded::presets_yaml, "topologies/catalog/presets.yaml");
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
