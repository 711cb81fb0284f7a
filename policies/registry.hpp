// Policies by name. A policy registers itself in registry.cpp's table: name, family, factory.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/schema/yaml_loader.hpp"
#include "policies/drive.hpp"
#include "traces/scenario.pb.h"

namespace orrery {

std::vector<std::string> policy_names();

/// Throws bad_input at `place` (if any) with the nearest name.
std::unique_ptr<Policy> make_policy(std::string_view name, const SourcePlace& place);

/// The stack that a scenario asks for; an empty list gives `static`.
std::unique_ptr<PolicyStack> make_stack(const Scenario& scenario, const SourceMap& places);

}  // namespace orrery
