// The shipped GPU models, kernel profiles and presets (catalog/*.yaml, embedded at build time),
// loaded by the same strict loader as any file on first use. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "topologies/topology.pb.h"

namespace orrery {

const GpuCatalog& gpu_catalog();
const KernelCatalog& kernel_catalog();
const PresetCatalog& preset_catalog();

/// The fitted profile of a GPU model: the one that lists it, else the one that stands in for it,
/// else the catalogue's fallback.
const KernelProfile& kernel_profile(const std::string& gpu);

}  // namespace orrery
