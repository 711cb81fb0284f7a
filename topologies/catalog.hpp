// Shipped GPU models, kernel profiles and presets (catalog/*.yaml, embedded at build time), loaded
// at the first use by the same strict loader as any file. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "topologies/topology.pb.h"

namespace orrery {

/// Returns the shipped GPU models with defaults; valid until the end of the process.
const GpuCatalog& gpu_catalog();
/// Returns the shipped kernel profiles.
const KernelCatalog& kernel_catalog();
/// Returns the shipped presets.
const PresetCatalog& preset_catalog();

/// Returns the fitted profile of a GPU model: the first profile of the catalogue that has the
/// model's name, lists the model or stands in for the model, else the catalogue's fallback, also
/// for an unknown name. Valid until the end of the process.
const KernelProfile& kernel_profile(const std::string& gpu);

}  // namespace orrery
