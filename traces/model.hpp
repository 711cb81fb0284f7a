// Models by name, and their sizes.
#pragma once

#include <string>
#include <vector>

#include "core/schema/yaml_loader.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

/// Replaces a preset name by the preset's fields (fields written beside it win) and checks that a
/// model by hand is whole. Throws bad_input with the nearest name.
void resolve(Model& model, const SourceMap& places, const std::string& path);

double parameter_count(const Model& model);
std::vector<std::string> model_names();

}  // namespace orrery
